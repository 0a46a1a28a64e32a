"""A connection that became a WebSocket reads and writes as Tornado's own would."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tornado.httputil import HTTPHeaders, ResponseStartLine
from tornado.iostream import StreamClosedError

from agentd.http.upgraded_stream import MAX_BUFFERED, HandshakeConnection, UpgradedStream
from tests.http.test_http_connection import Handler, Server, connect, until
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.gen_test

HANDSHAKE = b"GET /socket HTTP/1.1\r\n\r\n"


@asynccontextmanager
async def upgrade(
    early: bytes = b"",
) -> AsyncIterator[tuple[UpgradedStream, asyncio.StreamReader, asyncio.StreamWriter]]:
    """Yield the stream of a connection after its handshake, with which ``early`` came."""

    def prepare(handler: Handler) -> None:
        handler.answer = None

    async with connect(prepare) as (server, reader, writer):
        writer.write(HANDSHAKE + early)
        await until(lambda: server.handlers and server.handlers[0].is_complete)
        yield UpgradedStream(server.handlers[0].connection), reader, writer


async def test_as_many_bytes_are_read_as_were_asked_for_whenever_they_come():
    async with upgrade(early=b"ab") as (stream, _, writer):
        assert await stream.read_bytes(1) == b"a"
        waiting = stream.read_bytes(4)
        assert not waiting.done()
        writer.write(b"cdef")
        assert await waiting == b"bcde"
        assert await stream.read_bytes(1) == b"f"


async def test_what_nobody_reads_waits_in_the_kernel_and_is_read_later():
    async with upgrade() as (stream, _, writer):
        data = bytes(range(256)) * 80_000
        writer.write(data)
        sent = asyncio.create_task(writer.drain())
        await until(lambda: len(stream._buffer) > MAX_BUFFERED)
        most = len(stream._buffer)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(stream._buffer) == most < 2 * MAX_BUFFERED
        assert not sent.done()
        found = [await stream.read_bytes(65_536) for _ in range(len(data) // 65_536)]
        await sent
        assert b"".join(found) + await stream.read_bytes(len(data) % 65_536) == data


async def test_more_can_be_read_at_once_than_waits_otherwise():
    async with upgrade() as (stream, _, writer):
        data = bytes(range(256)) * 20_000
        writer.write(data)
        await until(lambda: len(stream._buffer) > MAX_BUFFERED)
        assert await stream.read_bytes(len(data)) == data


async def test_a_write_ends_once_the_client_has_read_it():
    async with upgrade() as (stream, reader, _):
        assert stream.write(b"small").done()
        large = stream.write(b"x" * 30_000_000)
        assert stream.writing()
        assert not large.done()
        assert await reader.readexactly(5) == b"small"
        assert await reader.readexactly(30_000_000) == b"x" * 30_000_000
        await large
        assert not stream.writing()


def measure_room() -> int:
    """Return how many bytes the kernel takes for somebody who reads nothing."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        return ours.send(b"x" * 30_000_000)


async def test_a_last_byte_that_the_kernel_had_no_room_for_is_not_waited_for_endlessly():
    """A transport tells of more than one byte only that it waits, and that it has gone."""
    data = b"x" * (measure_room() + 1)
    ours, theirs = socket.socketpair()
    loop, server = asyncio.get_running_loop(), Server(lambda _: None)
    transport, connection = await loop.connect_accepted_socket(server.make_connection, ours)
    stream = UpgradedStream(connection)
    written = stream.write(data)
    assert transport.get_write_buffer_size() == 1
    reader, writer = await asyncio.open_connection(sock=theirs)
    assert await reader.readexactly(len(data)) == data
    async with asyncio.timeout(PATIENCE):
        await written
    assert not stream.writing()
    for one in (writer, transport):
        one.close()
    await until(lambda: not server.connections)


async def test_all_that_waits_fails_when_the_client_leaves():
    async with upgrade() as (stream, _, writer):
        gone = asyncio.Event()
        stream.set_close_callback(gone.set)
        reading = stream.read_bytes(1)
        writer.close()
        with pytest.raises(StreamClosedError):
            await reading
        await gone.wait()
        assert stream.closed()
        for fail in (lambda: stream.write(b"x"), lambda: stream.read_bytes(1).result()):
            with pytest.raises(StreamClosedError):
                fail()


async def test_a_write_that_the_client_never_reads_fails_with_the_connection():
    async with upgrade() as (stream, _, _writer):
        written = stream.write(b"x" * 30_000_000)
        stream.close()
        with pytest.raises(StreamClosedError):
            await written


async def test_the_end_is_reported_also_to_who_asks_after_it():
    async with upgrade() as (stream, _, _writer):
        stream.close()
        first, gone = asyncio.Event(), asyncio.Event()
        stream.set_close_callback(first.set)
        await first.wait()
        stream.set_close_callback(gone.set)
        await gone.wait()


async def test_what_was_received_can_be_read_after_the_end():
    async with upgrade() as (stream, _, writer):
        writer.write(b"last")
        writer.close()
        await until(stream.closed)
        assert await stream.read_bytes(4) == b"last"


async def test_a_handshake_is_answered_with_its_own_headers_only():
    def prepare(handler: Handler) -> None:
        handler.answer = None

    async with connect(prepare) as (server, reader, writer):
        writer.write(HANDSHAKE)
        await until(lambda: server.handlers and server.handlers[0].is_complete)
        handshake = HandshakeConnection(server.handlers[0].connection)
        head = ResponseStartLine("", 101, "Switching Protocols")
        await handshake.write_headers(head, HTTPHeaders({"Upgrade": "websocket"}))
        handshake.finish()
        expected = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
        assert await reader.readexactly(len(expected)) == expected
        assert (handshake.remote_ip, handshake.protocol) == ("127.0.0.1", "http")
        handshake.detach().close()
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
