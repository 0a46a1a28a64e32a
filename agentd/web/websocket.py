"""WebSockets of the hub, a module apart because it needs half of Tornado: it comes with the first.

Tornado reads the frames; what is sent are frames made once for all clients, written to the stream
as they are.
"""

import asyncio

from tornado.http1connection import HTTP1Connection
from tornado.httputil import (
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerRequest,
    RequestStartLine,
)
from tornado.web import Application
from tornado.websocket import WebSocketHandler

from agentd.errors import AgentdError, BadRequest
from agentd.web.call import Upgrade
from agentd.web.hub_client import Client
from agentd.wire.signalr.negotiate import Transport
from agentd.wire.signalr.records import Record

MESSAGE_LIMIT = 256 * 1024
"""The largest message that a WebSocket takes; a record in it is at most 32 KiB."""

_SOCKETS = Application(websocket_max_message_size=MESSAGE_LIMIT)


class SocketLink:
    """One WebSocket of a client; Tornado's handler of it keeps the name ``write`` for itself."""

    __slots__ = ("_client", "_handler")

    def __init__(self, client: Client, handler: "_Handler") -> None:
        self._client = client
        self._handler = handler

    def write(self, *records: Record) -> None:
        """Send records; what the client does not take at once makes the rest wait."""
        protocol = self._handler.ws_connection
        stream = protocol.stream if protocol else None
        if stream is None or stream.closed():
            return
        written = stream.write(b"".join(record.frame for record in records))
        if stream.writing():
            self._client.connection.pause(self, self._client.now)
            written.add_done_callback(self._written)

    def cut(self, last: Record | None) -> None:
        """Close, after a last word."""
        if last:
            self.write(last)
        self._handler.close(1000)

    def answer(self, status: int, body: bytes) -> None:
        """Never: a WebSocket is no poll."""
        raise NotImplementedError

    def _written(self, future: "asyncio.Future[None]") -> None:
        if not future.cancelled() and future.exception() is None:
            client = self._client
            client.drive(client.connection.resume(self, client.now))


class _Handler(WebSocketHandler):
    """Tornado's side of a WebSocket: the upgrade, and the frames that come in."""

    def initialize(self, client: Client) -> None:
        """Serve this client; the gate and the origin were looked at before."""
        self._client = client
        self._link = SocketLink(client, self)

    def check_origin(self, origin: str) -> bool:
        """Done by ``Roll.check``, for every transport alike."""
        return True

    def open(self, *args: str, **kwargs: str) -> None:
        """The upgrade is done; the client may be over meanwhile, as when its key was revoked."""
        client = self._client
        try:
            client.drive(client.connection.attach(self._link, Transport.WEBSOCKET, client.now))
        except AgentdError:
            self.close(1000)

    def on_message(self, message: str | bytes) -> None:
        """The client said something."""
        client = self._client
        client.drive(client.connection.received(self._link, message, client.now))

    def on_close(self) -> None:
        """The socket is gone, by whomever."""
        client = self._client
        client.drive(client.connection.lost(self._link, client.now))


def check_upgrade(headers: HTTPHeaders) -> None:
    """Raise ``BadRequest`` for what Tornado would refuse in words of its own."""
    tokens = {token.strip().lower() for token in headers.get("Connection", "").split(",")}
    if "upgrade" not in tokens or not headers.get("Sec-WebSocket-Key"):
        raise BadRequest("This is no opening of a WebSocket (RFC 6455, section 4.1)")
    if headers.get("Sec-WebSocket-Version") != "13":
        raise BadRequest("Version 13 of the WebSocket protocol is spoken here")


def upgrade(client: Client) -> Upgrade:
    """What hands a request over to a WebSocket for this client."""

    def hand_over(
        connection: HTTP1Connection, start: RequestStartLine, headers: HTTPHeaders
    ) -> HTTPMessageDelegate:
        request = HTTPServerRequest(connection=connection, start_line=start, headers=headers)
        return _SOCKETS.get_handler_delegate(request, _Handler, {"client": client})

    return hand_over
