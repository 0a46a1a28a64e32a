"""A connection reads no more than it can use, keeps order, and never mixes two answers."""

import ast
import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from tornado.httputil import HTTPHeaders, RequestStartLine

import agentd
from agentd.http import http_connection
from agentd.http.access_log import AccessLog
from agentd.http.context import ServerContext
from agentd.http.http_connection import (
    _MAX_EVENTS,
    MAX_WAITING_BYTES,
    ClientDisconnected,
    HttpConnection,
)
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.gen_test

GET = b"GET /one HTTP/1.1\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Handler:
    """Does what a test lets it do, and notes what it was told."""

    def __init__(self, connection: HttpConnection) -> None:
        self.connection = connection
        self.path = ""
        self.body = b""
        self.is_complete = False
        self.is_lost = False
        self.admission: asyncio.Event | None = None
        self.room: asyncio.Event | None = None
        self.error: Exception | None = None
        self.answer: bytes | None = OK
        """Written as soon as the request is complete; None: by the test."""

    async def headers_received(self, start_line: RequestStartLine, headers: HTTPHeaders) -> None:
        self.path = start_line.path
        if self.admission:
            await self.admission.wait()
        if self.error:
            raise self.error

    def data_received(self, chunk: bytes) -> Coroutine[Any, Any, None] | None:
        self.body += chunk
        return self._wait_for_room(self.room) if self.room else None

    async def _wait_for_room(self, room: asyncio.Event) -> None:
        await room.wait()

    def finish(self) -> None:
        self.is_complete = True
        if self.answer is not None:
            self.connection.write(self.answer)
            self.connection.finish()

    def on_connection_close(self) -> None:
        assert not self.is_lost
        self.is_lost = True


class Server:
    """Connections to handlers that ``prepare`` makes ready."""

    def __init__(self, prepare: Callable[[Handler], None]) -> None:
        self.handlers: list[Handler] = []
        self.connections: set[HttpConnection] = set()
        self._prepare = prepare
        unused = cast(Any, None)
        self._context = ServerContext(
            unused, unused, cast(Any, [None] * 4), unused, AccessLog(cast(Any, Clock())),
            unused, unused, unused,
        )  # fmt: skip

    def make_handler(self, connection: HttpConnection) -> Handler:
        handler = Handler(connection)
        self._prepare(handler)
        self.handlers.append(handler)
        return handler

    def make_connection(self) -> HttpConnection:
        return HttpConnection(self._context, self.make_handler, self.connections, 100_000)


class Clock:
    """The access log needs one."""

    def now(self) -> str:
        return "now"


@asynccontextmanager
async def connect(
    prepare: Callable[[Handler], None] = lambda _: None,
) -> AsyncIterator[tuple[Server, asyncio.StreamReader, asyncio.StreamWriter]]:
    """Yield a server and a client's connection to it."""
    server = Server(prepare)
    listening = await asyncio.get_running_loop().create_server(
        server.make_connection, "127.0.0.1", 0
    )
    async with listening:
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        async with asyncio.timeout(PATIENCE):
            try:
                yield server, reader, writer
            finally:
                writer.close()
                for one in tuple(server.connections):
                    one.abort()
                await until(lambda: not server.connections)
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0)


def post(body: bytes, path: bytes = b"/post") -> bytes:
    return b"POST %b HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (path, len(body), body)


async def test_requests_that_arrive_byte_by_byte_are_whole():
    async with connect() as (server, reader, writer):
        for byte in post(b"body") + GET:
            writer.write(bytes([byte]))
            await writer.drain()
        assert await reader.readexactly(2 * len(OK)) == OK * 2
        assert [(one.path, one.body) for one in server.handlers] == [
            ("/post", b"body"),
            ("/one", b""),
        ]


async def test_the_second_of_two_requests_waits_for_the_answer_to_the_first():
    def prepare(handler: Handler) -> None:
        handler.answer = None

    async with connect(prepare) as (server, reader, writer):
        writer.write(GET + post(b"x"))
        await until(lambda: server.handlers and server.handlers[0].is_complete)
        for _ in range(10):
            await asyncio.sleep(0)
        (first,) = server.handlers
        first.connection.write(OK)
        first.connection.finish()
        assert await reader.readexactly(len(OK)) == OK
        await until(lambda: len(server.handlers) == 2 and server.handlers[1].is_complete)


async def test_others_have_their_turn_between_the_requests_that_a_client_sends_at_once():
    async with connect() as (server, reader, writer):
        counts = [0]

        def count() -> None:  # once in each pass of the loop
            counts.append(len(server.handlers))
            if len(server.handlers) < 1000:
                asyncio.get_running_loop().call_soon(count)

        count()
        writer.write(GET * 1000)
        assert await reader.readexactly(1000 * len(OK)) == OK * 1000
        assert max(after - before for before, after in pairwise(counts)) <= _MAX_EVENTS


async def test_no_more_is_received_than_may_wait_while_a_request_is_answered():
    def prepare(handler: Handler) -> None:
        handler.answer = None

    async with connect(prepare) as (server, _, writer):
        writer.write(GET)
        await until(lambda: server.handlers)
        (connection,) = server.connections
        sent = asyncio.create_task(_send_all(writer, GET * 1_000_000))
        await until(lambda: connection.waiting_bytes > MAX_WAITING_BYTES)
        most = connection.waiting_bytes
        for _ in range(100):
            await asyncio.sleep(0)
        assert connection.waiting_bytes == most < 10 * MAX_WAITING_BYTES
        assert not sent.done()
        sent.cancel()


async def _send_all(writer: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        writer.write(data)
        await writer.drain()


async def test_a_client_that_sends_and_never_reads_gets_no_further_answer():
    large = b"HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\n" + b"x" * 20_000_000

    def prepare(handler: Handler) -> None:
        handler.answer = large

    async with connect(prepare) as (server, reader, writer):
        writer.write(GET * 3)
        await until(lambda: server.handlers)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(server.handlers) == 1
        assert await reader.readexactly(3 * len(large)) == large * 3


async def test_a_client_that_never_reads_its_answer_is_hung_up_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentd.http.context.WRITE_TIMEOUT", 0.05)

    def prepare(handler: Handler) -> None:
        handler.answer = OK + b"x" * 30_000_000

    async with connect(prepare) as (server, _, writer):
        writer.write(GET)
        await until(lambda: server.handlers and not server.connections)


async def test_a_body_waits_in_the_kernel_while_its_handler_has_no_room():
    room = asyncio.Event()

    def prepare(handler: Handler) -> None:
        handler.room = room

    async with connect(prepare) as (server, reader, writer):
        sent = asyncio.create_task(_send_all(writer, post(b"y" * 30_000_000)))
        await until(lambda: server.handlers and server.handlers[0].body)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(server.handlers[0].body) < 1_000_000
        assert not sent.done()
        room.set()
        assert await reader.readexactly(len(OK)) == OK
        assert server.handlers[0].body == b"y" * 30_000_000


@pytest.mark.parametrize("data", [post(b"{}"), GET + post(b"{}")])
async def test_a_request_that_came_whole_is_carried_out_though_its_client_left_meanwhile(
    data: bytes,
):
    admission = asyncio.Event()

    def prepare(handler: Handler) -> None:
        handler.admission = admission

    async with connect(prepare) as (server, _, writer):
        writer.write(data)
        writer.close()
        await until(lambda: server.handlers)
        for _ in range(10):
            await asyncio.sleep(0)
        admission.set()
        await until(lambda: not server.connections)
        assert server.handlers[-1].body == b"{}"
        assert server.handlers[-1].is_complete


async def test_a_request_behind_an_answered_one_is_carried_out_though_its_client_left_meanwhile():
    admission = asyncio.Event()

    def prepare(handler: Handler) -> None:
        handler.admission = admission if server.handlers else None

    async with connect(prepare) as (server, _, writer):
        writer.write(GET + post(b"{}"))
        await until(lambda: len(server.handlers) == 2)
        for _ in range(10):
            await asyncio.sleep(0)
        writer.close()
        (connection,) = server.connections
        await until(lambda: connection._has_ended)
        admission.set()
        await until(lambda: not server.connections)
        assert server.handlers[1].body == b"{}"
        assert server.handlers[1].is_complete


async def test_a_client_that_leaves_during_an_answer_is_reported():
    def prepare(handler: Handler) -> None:
        handler.answer = None

    async with connect(prepare) as (server, _, writer):
        writer.write(GET)
        await until(lambda: server.handlers and server.handlers[0].is_complete)
        writer.close()
        await until(lambda: server.handlers[0].is_lost)
        assert server.handlers[0].connection.is_closed
        with pytest.raises(ClientDisconnected):
            await server.handlers[0].connection.flush()


async def test_a_client_that_is_lost_while_it_is_admitted_is_reported_afterwards():
    admission = asyncio.Event()

    def prepare(handler: Handler) -> None:
        handler.admission = admission

    async with connect(prepare) as (server, _, writer):
        writer.write(post(b"x")[:-1])
        await until(lambda: server.handlers)
        server.handlers[0].connection.abort()
        await until(lambda: not server.connections)
        assert not server.handlers[0].is_lost
        admission.set()
        await until(lambda: server.handlers[0].is_lost)
        assert not server.handlers[0].is_complete


async def test_what_is_no_body_after_an_answer_has_begun_closes_the_connection():
    """An error would be taken for a part of the answer."""
    admission = asyncio.Event()

    def prepare(handler: Handler) -> None:
        handler.admission = admission
        handler.answer = None

    async with connect(prepare) as (server, reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n")
        await until(lambda: server.handlers)
        server.handlers[0].connection.write(OK[:20])
        admission.set()
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == OK[:20]
        assert server.handlers[0].is_lost


async def test_a_response_before_the_end_of_the_body_ends_the_connection():
    async with connect() as (server, reader, writer):
        writer.write(post(b"abc")[:-1])
        await until(lambda: server.handlers and server.handlers[0].body)
        handler = server.handlers[0]
        handler.connection.write(OK)
        handler.connection.finish()
        assert await reader.read() == OK
        assert not handler.is_lost
        assert not handler.is_complete


async def test_an_error_while_a_request_is_admitted_closes_the_connection(caplog):
    admission = asyncio.Event()

    def prepare(handler: Handler) -> None:
        handler.admission = admission
        handler.error = RuntimeError("a bug")

    async with connect(prepare) as (server, reader, writer):
        writer.write(GET)
        await until(lambda: server.handlers)
        admission.set()
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    assert "a bug" in str(caplog.records[0].exc_info)


async def test_refused_clients_linger_up_to_a_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http_connection, "MAX_LINGERING", 0)
    async with connect() as (server, reader, writer):
        writer.write(b"nonsense\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        await until(lambda: not server.connections)


def test_no_module_touches_what_is_private_to_tornado() -> None:
    root = Path(agentd.__file__).parent
    for path in root.rglob("*.py"):
        text = path.read_text()
        if "tornado" not in text:
            continue
        assert "method-assign" not in text, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                owner = node.value.id if isinstance(node.value, ast.Name) else ""
                assert owner in ("self", "cls"), f"{path}:{node.lineno}"
