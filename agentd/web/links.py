"""What carries the hub's records to a client: WebSockets, streams and long polls.

Tornado reads the frames of a WebSocket; what is sent are frames made once for all clients, written
to the stream as they are.
"""

import asyncio
from collections.abc import AsyncGenerator

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
from agentd.web.call import Answer, Upgrade
from agentd.web.hub_client import Client
from agentd.wire.signalr.negotiate import Transport
from agentd.wire.signalr.records import Record

MESSAGE_LIMIT = 256 * 1024
"""The largest message that a WebSocket takes; a record in it is at most 32 KiB."""

_SOCKETS = Application(websocket_max_message_size=MESSAGE_LIMIT)


class StreamLink:
    """A stream of server-sent events, server to client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waiting: list[bytes] = [b":\r\n"]
        self._wake = asyncio.Event()
        self._ended = False

    async def units(self) -> AsyncGenerator[bytes, None]:
        """What to write, portion by portion; each is asked for when the last one was taken."""
        client = self._client
        client.drive(client.connection.attach(self, Transport.STREAM, client.now))
        try:
            while self._waiting or not self._ended:
                if not self._waiting:
                    client.drive(client.connection.resume(self, client.now))
                if not self._waiting and not self._ended:
                    self._wake.clear()
                    await self._wake.wait()
                portion = b"".join(self._waiting)
                self._waiting.clear()
                if portion:
                    client.connection.pause(self, client.now)
                    yield portion
        finally:
            client.drive(client.connection.lost(self, client.now))

    def write(self, *records: Record) -> None:
        """Send records with the next portion."""
        self._waiting += [record.unit for record in records]
        self._wake.set()

    def cut(self, last: Record | None) -> None:
        """End after what waits."""
        if last:
            self._waiting.append(last.unit)
        self._ended = True
        self._wake.set()

    def answer(self, status: int, body: bytes) -> None:
        """Never: a stream is no poll."""
        raise NotImplementedError


class PollLink:
    """One long poll."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()

    async def polled(self, *, single: bool) -> Answer:
        """Wait for the answer."""
        client = self._client
        client.drive(client.connection.poll(self, client.now, single=single))
        try:
            status, body = await self._answer
        except asyncio.CancelledError:
            client.drive(client.connection.lost(self, client.now))
            raise
        kind = {"Content-Type": "text/plain; charset=utf-8"}
        return Answer(None if status == 204 else body, status, kind)

    def answer(self, status: int, body: bytes) -> None:
        """Answer it."""
        if not self._answer.done():
            self._answer.set_result((status, body))

    def write(self, *records: Record) -> None:
        """Never: records reach a poll as the body of its answer."""
        raise NotImplementedError

    def cut(self, last: Record | None) -> None:
        """Never: a poll ends with its answer."""
        raise NotImplementedError


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
