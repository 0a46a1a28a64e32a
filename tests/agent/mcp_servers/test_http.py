"""Servers behind an address: the official SDK's over Streamable HTTP, and a small one by hand."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from agentd.agent.mcp_servers.connection import McpConnection
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.agent.mcp_servers.pool import McpPool
from agentd.core.errors import BadRequest, Unavailable
from tests.agent.mcp_servers.talking import use_connection
from tests.support.ports import find_free_port
from tests.support.waiting import until

HERE = Path(__file__).parent
PATIENCE = 120.0


def talk(server: ReadyServer, work: Callable[[McpConnection], Awaitable[Any]]) -> Any:
    """Open a connection, do the work, and close it."""
    return asyncio.run(use_connection(server, "/", work, PATIENCE))


async def _nothing(connection: McpConnection) -> None:
    pass


@pytest.fixture
def sdk() -> Iterator[str]:
    """Serve the SDK's server; return its address."""
    pytest.importorskip("mcp", reason="mcp is not installed: pip install '.[test]'")
    port = find_free_port()
    command = [sys.executable, "-W", "ignore", str(HERE / "sdk_server.py"), str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as program:
        try:
            until(lambda: _answers(port))
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            program.kill()


def _answers(port: int) -> bool:
    import socket

    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def test_tools_progress_questions_and_new_tools_work_over_http(sdk: str) -> None:
    told: list[str] = []

    async def work(connection: McpConnection) -> Any:
        async def answer(message: str, schema: dict[str, Any]) -> dict[str, Any]:
            return {"action": "accept", "content": {"kind": "oolong"}}

        connection.elicit = answer
        first = [tool.name for tool in connection.tools]
        added = await connection.call_tool("add", {"a": 20, "b": 22})
        boiled = await connection.call_tool("boil", {"minutes": 3}, told.append)
        brewed = await connection.call_tool("brew", {})
        menu = await connection.read_resource("tea://menu")
        return first, added.text, boiled.text, brewed.text, menu.text

    first, *texts, menu = talk(ReadyServer("tea", url=sdk), work)
    assert "add" in first and texts == ["42", "hot", "brewed oolong"]
    assert "green, black" in menu and told[-1] == "2 of 3 boiling"


def test_a_server_of_the_workspace_must_be_public(sdk: str) -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        talk(ReadyServer("tea", url=sdk, configured=False), _nothing)


class _Handler(BaseHTTPRequestHandler):
    """Answers as its server's ``manner`` says."""

    server: "_Server"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(405)

    def do_DELETE(self) -> None:
        self.server.deleted.append(self.headers["Mcp-Session-Id"])
        self._answer(204)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, number = message["method"], message.get("id")
        self.server.seen.append((method, dict(self.headers.items())))
        if self.server.manner == "refuse":
            self._answer(401, b"Expired.")
        elif method == "initialize":
            self.server.sessions += 1
            revision = message["params"]["protocolVersion"]
            found = {"protocolVersion": revision, "capabilities": {"tools": {}}}
            self._answer(200, _reply(number, found), f"s{self.server.sessions}")
        elif number is None:
            self._answer(202)
        elif self.server.expired == self.headers["Mcp-Session-Id"]:
            self._answer(404)
        elif method == "tools/list":
            tool = {"name": "plain", "inputSchema": {"type": "object"}}
            self._answer(200, _reply(number, {"tools": [tool]}))
        elif self.server.manner == "many values":
            self._answer(200, b'{"id": 0, "result": {"a": [%b0]}}' % (b"[]," * 500_000))
        elif self.server.manner == "leak":
            self._answer(500, self.headers["Authorization"].encode())
        elif self.server.manner == "leak the token":
            token = self.headers["Authorization"].removeprefix("Bearer ")
            self._answer(500, json.dumps({"error": f"{token} has expired"}).encode())
        elif self.server.manner.startswith("leak "):
            token = self.headers["Authorization"].removeprefix("Bearer ")
            said = f"{token} has expired" if "error" in self.server.manner else "x" * 994 + token
            error = {"jsonrpc": "2.0", "id": number, "error": {"message": said}}
            self._answer(200, json.dumps(error).encode())
        elif self.server.manner == "send elsewhere":
            self._answer(307, location="/other/mcp?key=secret-0123456789")
        elif self.server.manner == "send to its own key":
            self._answer(307, location=f"{self.path}/")
        else:
            self._answer(200, _reply(number, {"content": [{"type": "text", "text": "ok"}]}))

    def _answer(
        self, status: int, body: bytes = b"", session: str = "", location: str = ""
    ) -> None:
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        if session:
            self.send_header("Mcp-Session-Id", session)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _reply(number: int, result: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()


class _Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.manner = self.expired = ""
        self.sessions = 0
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.deleted: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/mcp"


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server() as it:
        thread = Thread(target=it.serve_forever)
        thread.start()
        yield it
        it.shutdown()
        thread.join()


def test_each_message_has_the_session_the_revision_and_the_headers(server: _Server) -> None:
    headers = {"Authorization": "Bearer secret-0123456789"}

    async def work(connection: McpConnection) -> Any:
        return (await connection.call_tool("plain", {})).text

    assert talk(ReadyServer("tea", url=server.url, headers=headers), work) == "ok"
    assert [method for method, _ in server.seen] == [
        *("initialize", "notifications/initialized", "tools/list", "tools/call"),
    ]
    for method, sent in server.seen:
        lower = {name.lower(): value for name, value in sent.items()}
        assert lower["authorization"] == headers["Authorization"]
        if method != "initialize":
            assert lower["mcp-session-id"] == "s1"
            assert lower["mcp-protocol-version"] == "2025-11-25"
    assert server.deleted == ["s1"]


def test_a_session_that_has_ended_is_told_and_begun_anew(server: _Server) -> None:
    ready = ReadyServer("tea", url=server.url)

    async def run() -> tuple[str, int]:
        pool = McpPool()
        pool.begin_turn(1, "/")
        connection = await pool.connect(1, ready)
        server.expired = "s1"
        with pytest.raises(Unavailable, match="its session has ended"):
            await connection.call_tool("plain", {})
        again = await pool.connect(1, ready)
        text = (await again.call_tool("plain", {})).text
        pool.end_turn(1)
        await pool.close()
        return text, server.sessions

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE)) == ("ok", 2)


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({}, "without an Authorization header: give it one. Expired."),
        ({"X-Key": "k"}, "with the headers that it was given. Expired."),
    ],
)
def test_a_refusal_says_what_to_do_and_why(
    server: _Server, headers: dict[str, str], told: str
) -> None:
    server.manner = "refuse"
    with pytest.raises(Unavailable) as caught:
        talk(ReadyServer("tea", url=server.url, headers=headers), _nothing)
    assert caught.value.message == f"The MCP server tea refuses agentd (status 401) {told}"


@pytest.mark.parametrize(
    ("manner", "told"),
    [
        ("leak", "status 500. ***"),
        ("leak the token", "*** has expired"),
        ("leak in an error", "says: *** has expired"),
        ("leak at the end", "x***"),
        ("send elsewhere", "sends agentd to /other/mcp (status 307)"),
        ("send to its own key", "sends agentd to /***/mcp/ (status 307)"),
    ],
)
def test_a_secret_that_comes_back_is_not_shown(server: _Server, manner: str, told: str) -> None:
    server.manner = manner
    headers = {"Authorization": "Bearer secret-0123456789"}
    url = f"{server.url.removesuffix('mcp')}key-of-secret-0123/mcp"

    async def work(connection: McpConnection) -> Any:
        with pytest.raises((BadRequest, Unavailable)) as caught:
            await connection.call_tool("plain", {})
        return caught.value.message

    message = talk(ReadyServer("tea", url=url, headers=headers), work)
    assert "sec" not in message and told in message


def test_an_answer_with_too_many_values_is_told_and_the_next_one_is_read(server: _Server) -> None:
    async def work(connection: McpConnection) -> Any:
        server.manner = "many values"
        with pytest.raises(Unavailable, match="too many values"):
            await connection.call_tool("plain", {})
        server.manner = ""
        return (await connection.call_tool("plain", {})).text

    assert talk(ReadyServer("tea", url=server.url), work) == "ok"


def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        talk(ReadyServer("tea", url=f"http://127.0.0.1:{find_free_port()}/"), _nothing)
