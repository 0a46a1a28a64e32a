"""WebSockets of the hub; imported with the first one, because it needs half of Tornado.

Tornado reads the frames; sent frames are encoded once for all clients and written to the stream.
"""

import asyncio

from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine
from tornado.web import Application
from tornado.websocket import WebSocketHandler

from agentd.core.errors import AgentdError, BadRequest
from agentd.http.upgrade import UpgradableConnection, Upgrade
from agentd.http.upgraded_stream import HandshakeConnection
from agentd.live.hub_client import HubClient
from agentd.live.signalr.negotiate import Transport
from agentd.live.signalr.records import NORMAL_CLOSURE, CloseRecord, Record

MESSAGE_LIMIT = 256 * 1024
"""The most bytes of a WebSocket message; a record in it has at most 32 KiB."""

_SOCKETS = Application(websocket_max_message_size=MESSAGE_LIMIT)


class SocketLink:
    """A client's WebSocket; apart from Tornado's handler, which has its own ``write``."""

    __slots__ = ("_client", "_handler")

    def __init__(self, client: HubClient, handler: "_Handler") -> None:
        self._client = client
        self._handler = handler

    def write(self, *records: Record) -> None:
        """Send records; pause the connection if the client does not read them at once."""
        protocol = self._handler.ws_connection
        stream = protocol.stream if protocol else None
        if stream is None or stream.closed():
            return
        written = stream.write(b"".join(record.frame for record in records))
        if stream.writing():
            self._client.connection.pause(self, self._client.now)
            written.add_done_callback(self._on_written)

    def close(self, last: Record | None) -> None:
        """Close the WebSocket, after ``last`` and with its code."""
        if last:
            self.write(last)
        self._handler.close(last.code if isinstance(last, CloseRecord) else NORMAL_CLOSURE)

    def respond(self, status: int, body: bytes) -> None:
        """Raise: only polls are answered."""
        raise NotImplementedError

    def _on_written(self, future: "asyncio.Future[None]") -> None:
        if not future.cancelled() and future.exception() is None:
            client = self._client
            client.apply(client.connection.resume(self, client.now))


class _Handler(WebSocketHandler):
    """Tornado's handler of a WebSocket: the upgrade and the incoming frames."""

    def initialize(self, client: HubClient, request_id: str) -> None:
        """Serve this client; its caller and origin were checked before."""
        self._client = client
        self.set_header("X-Request-Id", request_id)
        self.clear_header("Server")
        self._link = SocketLink(client, self)

    def check_origin(self, origin: str) -> bool:
        """Return True: ``ConnectionRegistry.check`` has checked it, for all transports."""
        return True

    def open(self, *args: str, **kwargs: str) -> None:
        """Attach the WebSocket; close it if the connection has ended, as after a revoked key."""
        client = self._client
        try:
            client.apply(client.connection.attach(self._link, Transport.WEBSOCKET, client.now))
        except AgentdError:
            self.close(NORMAL_CLOSURE)

    def on_message(self, message: str | bytes) -> None:
        """Pass a message of the client on to its connection."""
        client = self._client
        client.apply(client.connection.on_message(self._link, message, client.now))

    def on_close(self) -> None:
        """Notify the connection that the WebSocket is closed."""
        client = self._client
        client.apply(client.connection.on_link_lost(self._link, client.now))


def check_upgrade(headers: HTTPHeaders) -> None:
    """Raise ``BadRequest`` for what Tornado would refuse without our error body."""
    tokens = {token.strip().lower() for token in headers.get("Connection", "").split(",")}
    if "upgrade" not in tokens or not headers.get("Sec-WebSocket-Key"):
        raise BadRequest("This is not a valid WebSocket handshake (RFC 6455, section 4.1)")
    if headers.get("Sec-WebSocket-Version") != "13":
        raise BadRequest("Only version 13 of the WebSocket protocol is supported")


def upgrade(client: HubClient, request_id: str) -> Upgrade:
    """Return a function that hands this request over to a WebSocket of this client."""

    def hand_over(
        connection: UpgradableConnection, start: RequestStartLine, headers: HTTPHeaders
    ) -> None:
        handshake = HandshakeConnection(connection)
        request = HTTPServerRequest(connection=handshake, start_line=start, headers=headers)
        arguments = {"client": client, "request_id": request_id}
        delegate = _SOCKETS.get_handler_delegate(request, _Handler, arguments)
        delegate.headers_received(start, headers)
        delegate.finish()

    return hand_over
