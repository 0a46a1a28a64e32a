"""The server: connections become exchanges, what is not HTTP gets a clear answer."""

import asyncio
import resource
import socket
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from tornado.http1connection import HTTP1Connection, HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPConnection, HTTPMessageDelegate, HTTPServerConnectionDelegate
from tornado.iostream import IOStream

from agentd import ids
from agentd.web.desk import Desk
from agentd.web.envelope import full, malformed
from agentd.web.exchange import Exchange
from agentd.web.listening import listen_on
from agentd.web.receiving import PORTION, receive_directly

HEAD_LIMIT = 64 * 1024

MOST = 14_000
"""Connections at once: as many as there may be live ones, and 2,000 more."""
RESERVED = 256
"""Descriptors that no connection takes: the daemon must be able to open its files."""
TURNED_AWAY = 64
"""Connections at the same time that are let send a request before they are turned away."""
TURNING_SECONDS = 1.0

_BARE_REFUSAL = b"HTTP/1.1 400 Bad Request\r\n\r\n"


class _Requests(HTTPServerConnectionDelegate):
    """Gives each request an exchange of its own."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def start_request(
        self, server_conn: object, request_conn: HTTPConnection
    ) -> HTTPMessageDelegate:
        """The next request of a connection is waited for."""
        assert isinstance(request_conn, HTTP1Connection)
        self._desk.heads.begin(request_conn.stream)
        context = request_conn.context
        return Exchange(self._desk, request_conn, getattr(context, "remote_ip", ""))


def _stays(value: bool) -> None:
    """Tornado would switch it on and off around each answer: two system calls for nothing."""


class Server(HTTPServer):
    """Tornado's server with our limits."""

    def initialize(self, desk: Desk) -> None:  # type: ignore[override]
        """Have the exchanges of this desk answer."""
        self._access_log = desk.access_log
        self._heads = desk.heads
        self._most = room()
        self._leaving: set[asyncio.Task[None]] = set()
        super().initialize(
            _Requests(desk),
            body_timeout=None,  # the desk sees to it, at less cost
            max_header_size=HEAD_LIMIT,
            chunk_size=PORTION,
            # The exchange itself stops at its limit, and says so in the envelope.
            max_body_size=2**60,
        )
        self.conn_params.header_timeout = None  # so it does to this

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        """Serve one connection; Tornado's bare refusal of what is not HTTP gets a body."""
        if stream.socket.fileno() >= self._most:
            self._turn_away(stream, address)
            return
        stream.set_nodelay(True)
        stream.set_nodelay = _stays  # type: ignore[method-assign]
        write = stream.write

        def write_enveloped(data: "bytes | memoryview") -> "Awaitable[None]":
            return write(self._refused(address) if data == _BARE_REFUSAL else data)

        stream.write = write_enveloped  # type: ignore[method-assign,assignment]
        receive_directly(stream)
        listen_on(stream)
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        """A connection is over."""
        assert isinstance(server_conn, HTTP1ServerConnection)
        self._heads.end(server_conn.stream)
        super().on_close(server_conn)

    def _refused(self, address: Any) -> bytes:
        request_id = ids.new_request_id()
        self._access_log.note(str(address[0]), "-", "-", "-", 400, 0.0, request_id)
        return malformed(request_id)

    def _turn_away(self, stream: IOStream, address: Any) -> None:
        """Too many are here: tell so, and hang up."""
        request_id = ids.new_request_id()
        self._access_log.note(str(address[0]), "-", "-", "-", 503, 0.0, request_id)
        stream.write(full(request_id))
        if len(self._leaving) >= TURNED_AWAY:
            stream.close()
            return
        task = asyncio.get_running_loop().create_task(_read_once(stream))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


async def _read_once(stream: IOStream) -> None:
    """Close it once its request came: what was not read would take our answer with it."""
    with suppress(OSError, TimeoutError):  # it may have left already
        async with asyncio.timeout(TURNING_SECONDS):
            stream.socket.shutdown(socket.SHUT_WR)
            await stream.read_bytes(HEAD_LIMIT, partial=True)
    stream.close()


def room() -> int:
    """The first descriptor that no connection may have.

    The kernel gives the lowest that is free, so a high one tells how many are in use, whatever
    for: files, pipes, sockets of every kind.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(MOST + RESERVED, max(limit - RESERVED, limit // 2))
