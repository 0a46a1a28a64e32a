"""A server behind an address that is started anew between two requests, and knows no session."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, TypeAlias
from uuid import uuid4

import pytest

from agentd.agent.mcp_servers.messages import JsonMap
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.agent.mcp_servers.pool import McpPool
from agentd.agent.mcp_servers.toolset import LIST_RESOURCES, READ_RESOURCE, McpToolset
from agentd.agent.mcp_servers.turn_tools import McpToolUse
from agentd.core.errors import Unavailable
from tests.agent.engines.native.scene import Person

PATIENCE = 60.0

Refusal: TypeAlias = tuple[int, str]
"""The status and the body by which a server refuses a session that it does not know."""

BY_THE_PROTOCOL: Refusal = (404, "")
REFUSALS: dict[str, Refusal] = {
    "as the protocol wants": BY_THE_PROTOCOL,
    "as the examples of the TypeScript SDK": (
        400,
        '{"jsonrpc": "2.0", "id": null, "error": {"code": -32000,'
        ' "message": "Bad Request: No valid session ID provided"}}',
    ),
    "as the transport of the TypeScript SDK": (
        400,
        '{"jsonrpc": "2.0", "id": null, "error": {"code": -32000,'
        ' "message": "Bad Request: Server not initialized"}}',
    ),
}
TEXT = {"type": "text", "text": "green"}
RESULTS: dict[str, dict[str, Any]] = {
    "tools/list": {"tools": [{"name": "pick", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [TEXT]},
    "prompts/list": {"prompts": [{"name": "order"}]},
    "prompts/get": {"messages": [{"role": "user", "content": TEXT}]},
    "resources/list": {"resources": [{"uri": "tea://menu", "name": "green"}]},
    "resources/templates/list": {"resourceTemplates": []},
    "resources/read": {"contents": [{"uri": "tea://menu", "text": "green"}]},
}


class _Handler(BaseHTTPRequestHandler):
    """Answers in the sessions that its server has begun."""

    server: "_Server"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(405)

    def do_DELETE(self) -> None:
        self._answer(204)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            session = uuid4().hex
            self.server.sessions.add(session)
            kinds: JsonMap = {"tools": {}, "prompts": {}, "resources": {}}
            revision = message["params"]["protocolVersion"]
            found = {"protocolVersion": revision, "capabilities": kinds}
            self._answer(200, _reply(number, found), session)
        elif self.headers["Mcp-Session-Id"] not in self.server.sessions:
            status, body = self.server.refusal
            self._answer(status, body)
        elif number is None:
            self._answer(202)
        else:
            self.server.done.append(method)
            if method == "tools/call" and self.server.forgets:
                self._ask_and_forget()
            else:
                self._answer(200, _reply(number, RESULTS[method]))

    def _ask_and_forget(self) -> None:
        """Begin the call with a question, and forget the session before it is answered."""
        self.server.forgets = False
        self.server.sessions.clear()
        question = {"method": "elicitation/create", "params": {"message": "Milk?"}}
        event = f"data: {json.dumps({'jsonrpc': '2.0', 'id': 'q', **question})}\n\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(event.encode())
        self.wfile.flush()
        self.rfile.read(1)  # until the client hangs up

    def _answer(self, status: int, body: str = "", session: str = "") -> None:
        self.send_response(status)
        if session:
            self.send_header("Mcp-Session-Id", session)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())


def _reply(number: int, result: dict[str, Any]) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result})


class _Server(ThreadingHTTPServer):
    def __init__(self, refusal: Refusal, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.refusal = refusal
        self.sessions: set[str] = set()
        self.done: list[str] = []
        self.forgets = False
        """Whether it forgets the session during the next call."""


@contextmanager
def serve(refusal: Refusal, port: int = 0) -> Iterator[_Server]:
    """Serve until the block ends; the port is free then."""
    with _Server(refusal, port) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


async def call_tool(tools: McpToolset) -> str | None:
    """Call a tool."""
    return (await tools.use(McpToolUse("mcp__tea__pick", {}), Person(), "")).text


async def get_prompt(tools: McpToolset) -> str | None:
    """Get a prompt."""
    return await tools.get_prompt("tea", "order", "")


async def list_resources(tools: McpToolset) -> str | None:
    """List the resources."""
    return (await tools.use(McpToolUse(LIST_RESOURCES, {}), Person(), "")).text


async def read_resource(tools: McpToolset) -> str | None:
    """Read a resource."""
    wanted = {"server": "tea", "uri": "tea://menu"}
    return (await tools.use(McpToolUse(READ_RESOURCE, wanted), Person(), "")).text


def talk(
    first: _Server, refusal: Refusal, work: Callable[[McpToolset, _Server], Awaitable[None]]
) -> None:
    """Open a turn's tools, and do the work once another server has taken the first one's place."""
    port = first.server_port

    async def run() -> None:
        pool = McpPool()
        pool.begin_turn(1, "/")
        ready = ReadyServer("tea", url=f"http://127.0.0.1:{port}/mcp")
        tools = McpToolset(pool, 1, [ready], Person())
        await tools.open()
        assert tools.has("mcp__tea__pick") and await call_tool(tools) == "green"
        first.shutdown()
        first.server_close()
        with serve(refusal, port) as second:
            try:
                await work(tools, second)
            finally:
                tools.close()
                await pool.close()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


@pytest.mark.parametrize("ask", [call_tool, get_prompt, list_resources, read_resource])
@pytest.mark.parametrize("manner", REFUSALS)
def test_a_request_that_meets_a_server_started_anew_is_answered_in_a_new_session(
    manner: str, ask: Callable[[McpToolset], Awaitable[str | None]]
) -> None:
    async def work(tools: McpToolset, second: _Server) -> None:
        for _ in range(2):
            assert "green" in (await ask(tools) or "")
        assert len(second.sessions) == 1

    refusal = REFUSALS[manner]
    with serve(refusal) as first:
        talk(first, refusal, work)


def test_a_call_under_way_when_the_session_ends_is_not_made_twice() -> None:
    async def work(tools: McpToolset, second: _Server) -> None:
        assert await call_tool(tools) == "green"
        for _ in range(2):
            second.forgets = True
            second.done.clear()
            with pytest.raises(Unavailable, match="its session has ended"):
                await call_tool(tools)
            assert second.done.count("tools/call") == 1
            assert await call_tool(tools) == "green"

    with serve(BY_THE_PROTOCOL) as first:
        talk(first, BY_THE_PROTOCOL, work)


def test_another_refusal_does_not_end_the_session() -> None:
    wrong = (400, '{"jsonrpc": "2.0", "id": null, "error": {"message": "Bad Request: too long"}}')

    async def work(tools: McpToolset, second: _Server) -> None:
        for _ in range(2):
            with pytest.raises(Unavailable, match="too long"):
                await call_tool(tools)
        assert not second.sessions

    with serve(wrong) as first:
        talk(first, wrong, work)
