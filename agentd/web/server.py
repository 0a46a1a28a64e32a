"""The server: connections become exchanges, what is not HTTP gets a clear answer."""

import resource
from typing import Any

from tornado.http1connection import HTTP1Connection, HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPConnection, HTTPMessageDelegate, HTTPServerConnectionDelegate
from tornado.iostream import IOStream

from agentd.web.desk import Desk
from agentd.web.exchange import Exchange
from agentd.web.listening import listen_on
from agentd.web.receiving import PORTION, receive_directly
from agentd.web.refusals import HEAD_LIMIT, Refusals

MOST = 14_000
"""Connections at once: as many as there may be live ones, and 2,000 more."""
RESERVED = 256
"""Descriptors that no connection takes: the daemon must be able to open its files."""


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
        self._heads = desk.heads
        self._most = room()
        self._refusals = Refusals(desk.access_log)
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
        """Serve one connection, or refuse it where there are too many."""
        if stream.socket.fileno() >= self._most:
            self._refusals.refuse_connection(stream, address)
            return
        stream.set_nodelay(True)
        stream.set_nodelay = _stays  # type: ignore[method-assign]
        self._refusals.answer_unreadable(stream, address)
        receive_directly(stream)
        listen_on(stream)
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        """A connection is over."""
        assert isinstance(server_conn, HTTP1ServerConnection)
        self._heads.end(server_conn.stream)
        super().on_close(server_conn)


def room() -> int:
    """The first descriptor that no connection may have.

    The kernel gives the lowest that is free, so a high one tells how many are in use, whatever
    for: files, pipes, sockets of every kind.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(MOST + RESERVED, max(limit - RESERVED, limit // 2))
