"""The HTTP server: limits on connections, and one request handler for each request."""

import resource
import ssl
from typing import Any

from tornado.http1connection import HTTP1Connection, HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPConnection, HTTPMessageDelegate, HTTPServerConnectionDelegate
from tornado.iostream import IOStream, SSLIOStream

from agentd.http.connection_errors import MAX_HEAD_BYTES, ConnectionRefuser
from agentd.http.context import ServerContext
from agentd.http.request_handler import RequestHandler
from agentd.http.tornado_patches import (
    PORTION,
    keep_listening,
    keep_nodelay,
    receive_large_reads_directly,
)

MAX_CONNECTIONS = 14_000
"""Connections at the same time: all live ones, and 2,000 more."""
RESERVED_DESCRIPTORS = 256
"""File descriptors that are kept free of connections, so that the daemon can open its files."""


class _RequestHandlers(HTTPServerConnectionDelegate):
    """Makes a handler for each request."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context

    def start_request(
        self, server_conn: object, request_conn: HTTPConnection
    ) -> HTTPMessageDelegate:
        """Return the handler of the next request of a connection."""
        assert isinstance(request_conn, HTTP1Connection)
        self._context.head_timeouts.start(request_conn.stream)
        context = request_conn.context
        return RequestHandler(self._context, request_conn, getattr(context, "remote_ip", ""))


class HttpServer(HTTPServer):
    """Tornado's server with our limits."""

    def initialize(  # type: ignore[override]
        self, context: ServerContext, tls: ssl.SSLContext | None = None
    ) -> None:
        """Set up the server; Tornado calls this instead of ``__init__``."""
        self._head_timeouts = context.head_timeouts
        self._descriptor_limit = get_descriptor_limit()
        self._refusals = ConnectionRefuser(context.access_log)
        super().initialize(
            _RequestHandlers(context),
            ssl_options=tls,
            body_timeout=None,  # the context has cheaper timeouts
            max_header_size=MAX_HEAD_BYTES,
            chunk_size=PORTION,
            # The request handler enforces the limit of its route, with a JSON error body.
            max_body_size=2**60,
        )
        self.conn_params.header_timeout = None  # as with body_timeout

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        """Serve one connection, or refuse it where there are too many."""
        if stream.socket.fileno() >= self._descriptor_limit:
            self._refusals.refuse_connection(stream, address)
            return
        self._patch(stream, address)
        super().handle_stream(stream, address)

    def _patch(self, stream: IOStream, address: Any) -> None:
        """Improve on Tornado; the daemon works without."""
        keep_nodelay(stream)
        self._refusals.answer_unreadable_input(stream, address)
        if isinstance(stream, SSLIOStream):  # what follows is about the bytes of the socket
            return
        receive_large_reads_directly(stream)
        keep_listening(stream)

    def on_close(self, server_conn: object) -> None:
        """Stop the timeout of a connection that was closed."""
        assert isinstance(server_conn, HTTP1ServerConnection)
        self._head_timeouts.cancel(server_conn.stream)
        super().on_close(server_conn)


def get_descriptor_limit() -> int:
    """Return the lowest file descriptor that no connection may have.

    The kernel assigns the lowest free descriptor, so a high number means that many are in use,
    also for files and pipes.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(
        MAX_CONNECTIONS + RESERVED_DESCRIPTORS, max(limit - RESERVED_DESCRIPTORS, limit // 2)
    )
