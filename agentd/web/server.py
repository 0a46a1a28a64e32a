"""The server: connections become exchanges, what is not HTTP gets a clear answer."""

from collections.abc import Awaitable
from typing import Any

from tornado.http1connection import HTTP1Connection
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPConnection, HTTPMessageDelegate, HTTPServerConnectionDelegate
from tornado.iostream import IOStream

from agentd import ids
from agentd.web.envelope import malformed
from agentd.web.exchange import Desk, Exchange

HEAD_SECONDS = 10.0
"""How long a connection may take to send a request's head, and so how long it may idle."""
BODY_SECONDS = 30.0
HEAD_LIMIT = 64 * 1024

_BARE_REFUSAL = b"HTTP/1.1 400 Bad Request\r\n\r\n"


class _Requests(HTTPServerConnectionDelegate):
    """Gives each request an exchange of its own."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def start_request(
        self, server_conn: object, request_conn: HTTPConnection
    ) -> HTTPMessageDelegate:
        """The next request of a connection begins."""
        assert isinstance(request_conn, HTTP1Connection)
        context = request_conn.context
        return Exchange(self._desk, request_conn, getattr(context, "remote_ip", ""))


def _stays(value: bool) -> None:
    """Tornado would switch it on and off around each answer: two system calls for nothing."""


class Server(HTTPServer):
    """Tornado's server with our limits."""

    def initialize(self, desk: Desk) -> None:  # type: ignore[override]
        """Have the exchanges of this desk answer."""
        self._access_log = desk.access_log
        super().initialize(
            _Requests(desk),
            idle_connection_timeout=HEAD_SECONDS,
            body_timeout=BODY_SECONDS,
            max_header_size=HEAD_LIMIT,
            # The exchange itself stops at its limit, and says so in the envelope.
            max_body_size=2**60,
        )

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        """Serve one connection; Tornado's bare refusal of what is not HTTP gets a body."""
        stream.set_nodelay(True)
        stream.set_nodelay = _stays  # type: ignore[method-assign]
        write = stream.write

        def write_enveloped(data: "bytes | memoryview") -> "Awaitable[None]":
            return write(self._refused(address) if data == _BARE_REFUSAL else data)

        stream.write = write_enveloped  # type: ignore[method-assign,assignment]
        super().handle_stream(stream, address)

    def _refused(self, address: Any) -> bytes:
        request_id = ids.new_request_id()
        self._access_log.note(str(address[0]), "-", "-", "-", 400, 0.0, request_id)
        return malformed(request_id)
