"""Servers behind an address whose streams end early, or that answer with something else."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import pytest

from agentd.agent.mcp_servers import http
from agentd.agent.mcp_servers.connection import McpConnection
from agentd.agent.mcp_servers.messages import JsonMap
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.core.errors import BadRequest, Unavailable
from tests.agent.mcp_servers.talking import use_connection
from tests.support.waiting import until

PATIENCE = 60.0
TOOL = {"name": "pick", "inputSchema": {"type": "object"}}


def write_event(message: JsonMap | None = None, number: str = "") -> str:
    """Return an event with a message, by which the client comes back soon."""
    data = "" if message is None else json.dumps({"jsonrpc": "2.0", **message})
    named = f"id: {number}\n" if number else ""
    return f"{named}retry: 1\ndata: {data}\n\n"


def fill_in(piece: str, number: int) -> str:
    """Return a piece with the number of the request that it answers, also in a text."""
    return piece.replace('"\\"NUMBER\\""', f'"{number}"').replace('"NUMBER"', str(number))


CHANGED = write_event({"method": "notifications/tools/list_changed"}, "later-2")


class _Handler(BaseHTTPRequestHandler):
    """Answers a call, and what asks for the rest of its stream, with the pieces of its server."""

    server: "_Server"

    def log_message(self, *_: object) -> None:
        pass

    def do_DELETE(self) -> None:
        self._answer("", 204)

    def do_GET(self) -> None:
        place = self.headers.get("Last-Event-ID", "")
        self.server.asked_for.append(place)
        if place in self.server.rest:
            self._stream(self.server.rest[place])
        else:
            self._answer("", 405)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, number = message.get("method"), message.get("id")
        if method in self.server.ignored:
            self.server.over.wait(PATIENCE)
        elif method == "initialize":
            self.server.sessions += 1
            revision = message["params"]["protocolVersion"]
            self._reply(number, {"protocolVersion": revision, "capabilities": {"tools": {}}})
        elif number is None:
            self._answer("", 202)
        elif method == "tools/list":
            self._reply(number, {"tools": [TOOL]})
        else:
            self.server.number = number
            kind, piece = self.server.pieces.pop(0)
            piece = fill_in(piece, number)
            if "stream" in kind.lower():
                self._stream(piece, kind)
            else:
                self._answer(piece, kind=kind)

    def _stream(self, piece: str, kind: str = "text/event-stream") -> None:
        """Send a piece of a stream, which ends as it should or breaks off."""
        piece = fill_in(piece, self.server.number)
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Mcp-Session-Id", "s")
        self.send_header("Content-Length", str(len(piece) + self.server.missing))
        self.end_headers()
        self.wfile.write(piece.encode())
        if "hold" in piece:
            self.wfile.flush()
            self.server.over.wait(PATIENCE)

    def _reply(self, number: int, result: JsonMap) -> None:
        self._answer(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}))

    def _answer(self, body: str, status: int = 200, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Mcp-Session-Id", "s")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())


class _Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pieces: list[tuple[str, str]] = []
        """The kinds and bodies of the responses to calls."""
        self.rest: dict[str, str] = {}
        """What comes after an event; after none: what the server says unasked."""
        self.missing = 0
        """The bytes that are promised and do not come: the stream breaks off."""
        self.ignored: list[str | None] = []
        """The methods of messages that it leaves without a response; None: our answers."""
        self.asked_for: list[str] = []
        self.sessions = self.number = 0
        self.over = Event()


@pytest.fixture
def server() -> Iterator[_Server]:
    """A server that serves."""
    with _Server() as it:
        thread = Thread(target=it.serve_forever, args=(0.01,))
        thread.start()
        yield it
        it.over.set()
        it.shutdown()
        thread.join()


def talk(server: _Server, work: Callable[[McpConnection], Awaitable[Any]]) -> Any:
    """Open a connection, do the work, and close it."""
    url = f"http://127.0.0.1:{server.server_port}/mcp"
    ready = ReadyServer("tea", url=url, seconds=PATIENCE)
    # Nothing waits until the server's time is up.
    return asyncio.run(use_connection(ready, "/", work, PATIENCE / 2))


async def pick(connection: McpConnection) -> str:
    """Call the tool."""
    return (await connection.call_tool("pick", {})).text


ANSWER: JsonMap = {"id": "NUMBER", "result": {"content": [{"type": "text", "text": "green"}]}}
EVENTS = "text/event-stream"


@pytest.mark.parametrize("missing", [0, 1_000])
def test_an_answer_is_read_on_where_its_stream_ended(server: _Server, missing: int) -> None:
    server.missing = missing
    server.pieces = [(EVENTS, write_event(number="1"))]
    server.rest = {"1": write_event(number="2"), "2": write_event(ANSWER, "3")}
    assert talk(server, pick) == "green"
    assert [one for one in server.asked_for if one] == ["1", "2"]


def test_a_stream_that_cannot_be_read_on_is_told_at_once_and_only_its_call_fails(
    server: _Server,
) -> None:
    server.pieces = [
        (EVENTS, write_event()),
        (EVENTS, write_event(number="gone")),
        (EVENTS, write_event(ANSWER)),
    ]

    async def work(connection: McpConnection) -> Any:
        with pytest.raises(Unavailable, match="ended its response before it had answered"):
            await pick(connection)
        with pytest.raises(Unavailable, match="does not go on with that"):
            await pick(connection)
        return await pick(connection)

    assert talk(server, work) == "green"
    assert server.sessions == 1


@pytest.mark.parametrize("number", ['"NUMBER"', '"\\"NUMBER\\""', '"NUMBER".0'])
@pytest.mark.parametrize("kind", ["application/json", "Text/Event-Stream; charset=UTF-8"])
def test_an_answer_may_have_its_number_as_text_or_with_a_point(
    server: _Server, kind: str, number: str
) -> None:
    body = json.dumps({"jsonrpc": "2.0", **ANSWER}).replace('"NUMBER"', number)
    server.pieces = [(kind, body if kind == "application/json" else f"data: {body}\n\n")]
    assert talk(server, pick) == "green"


@pytest.mark.parametrize("kind", ["application/json", EVENTS])
def test_the_error_of_a_request_that_the_server_could_not_read_is_told(
    server: _Server, kind: str
) -> None:
    error: JsonMap = {"id": None, "error": {"code": -32700, "message": "Not readable"}}
    body = json.dumps(error) if kind == "application/json" else write_event(error)
    server.pieces = [(kind, body)]
    with pytest.raises(BadRequest, match="Not readable"):
        talk(server, pick)


@pytest.mark.parametrize("kind", ["text/html", "application/json"])
def test_what_is_no_answer_is_told_at_once(server: _Server, kind: str) -> None:
    server.pieces = [(kind, "<h1>Welcome</h1>")]
    with pytest.raises(Unavailable, match=rf"by the protocol \({kind}\): is its url right"):
        talk(server, pick)


QUESTION: JsonMap = {"id": "q", "method": "elicitation/create", "params": {"message": "Milk?"}}


@pytest.mark.parametrize("ignored", ["notifications/initialized", None])
def test_a_server_that_never_says_that_it_took_a_message_is_given_up(
    server: _Server, monkeypatch: pytest.MonkeyPatch, ignored: str | None
) -> None:
    monkeypatch.setattr(http, "ACKNOWLEDGEMENT_SECONDS", 0.1)
    server.ignored, server.missing = [ignored], 1_000  # what is missing comes never
    server.pieces = [(EVENTS, write_event(QUESTION) + ": hold\n\n")]
    with pytest.raises(Unavailable, match=r"nothing came for 0\.1 s") as refused:
        talk(server, pick)
    told = str(refused.value)
    assert told.startswith("The MCP server tea cannot be reached: ")
    assert told.count("The MCP server") == 1


def test_what_a_server_says_unasked_is_listened_to_again_when_its_stream_ends(
    server: _Server,
) -> None:
    server.rest = {"": write_event(number="later-1"), "later-1": CHANGED, "later-2": ": hold\n\n"}

    async def work(connection: McpConnection) -> Any:
        await asyncio.to_thread(until, lambda: len(server.asked_for) > 2)
        return await connection.refresh_tools()

    assert talk(server, work)
    assert server.asked_for == ["", "later-1", "later-2"]
