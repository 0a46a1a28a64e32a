"""A connection as Tornado's WebSocket expects it; imported with the first one."""

import asyncio
from collections.abc import Callable
from typing import cast

from tornado.httputil import HTTPConnection, HTTPHeaders, RequestStartLine, ResponseStartLine
from tornado.ioloop import IOLoop
from tornado.iostream import IOStream, StreamClosedError

from agentd.http.response import encode_head
from agentd.http.upgrade import UpgradableConnection, UpgradedConnection

MAX_BUFFERED = 512 * 1024
"""Received bytes that wait to be read before reading from the connection pauses."""


class UpgradedStream(UpgradedConnection):
    """Stands for an ``IOStream`` in Tornado's WebSocket, over the transport of a connection."""

    def __init__(self, connection: UpgradableConnection) -> None:
        self.io_loop = IOLoop.current()
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._read: asyncio.Future[bytes] | None = None
        self._wanted = 0
        """The bytes that ``_read`` waits for."""
        self._sent: asyncio.Future[None] = self._loop.create_future()
        """The result of each write that is sent at once: one for all, as events go to thousands."""
        self._sent.set_result(None)
        self._written: asyncio.Future[None] | None = None
        """Set while written bytes wait for the client to read."""
        self._on_close: Callable[[], None] | None = None
        self._is_lost = False
        self._connection = connection
        self._transport = connection.upgrade(self)

    def closed(self) -> bool:
        """Return whether the connection is closed."""
        return self._transport.is_closing()

    def writing(self) -> bool:
        """Return whether written bytes wait for the client to read."""
        return self._written is not None

    def write(self, data: bytes) -> "asyncio.Future[None]":
        """Send bytes; the future ends once they are sent. ``StreamClosedError``."""
        if self._transport.is_closing():
            raise StreamClosedError
        self._transport.write(data)
        if self._connection.is_flushed:  # else the transport calls ``resume_writing``
            return self._sent
        if self._written is None:
            self._written = self._loop.create_future()
        return self._written

    def read_bytes(self, num_bytes: int) -> "asyncio.Future[bytes]":
        """Read so many bytes; one read at a time. ``StreamClosedError``."""
        self._read = read = self._loop.create_future()
        self._wanted = num_bytes
        self._complete_read()
        return read

    def set_close_callback(self, callback: Callable[[], None] | None) -> None:
        """Call ``callback`` once the connection is closed, by whichever side."""
        self._on_close = callback
        if self._is_lost and callback:
            self._loop.call_soon(callback)

    def set_nodelay(self, value: bool) -> None:
        """Do nothing: the loop's transports never delay."""

    def close(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take received bytes."""
        self._buffer += data
        self._complete_read()
        if self._read is None and len(self._buffer) > MAX_BUFFERED:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """End the future of what was written."""
        written, self._written = self._written, None
        if written and not written.done():
            written.set_result(None)

    def connection_lost(self) -> None:
        """End all that is waited for."""
        self._is_lost = True
        for waiting in (self._read, self._written):
            if waiting and not waiting.done():
                waiting.set_exception(StreamClosedError())
                waiting.exception()  # retrieved: nobody has to wait for it
        self._read = self._written = None
        if self._on_close:
            callback, self._on_close = self._on_close, None
            callback()

    def _complete_read(self) -> None:
        read = self._read
        if read is None or read.done():
            return
        if len(self._buffer) >= self._wanted:
            self._read = None
            read.set_result(bytes(self._buffer[: self._wanted]))
            del self._buffer[: self._wanted]
            if len(self._buffer) <= MAX_BUFFERED:
                self._transport.resume_reading()
        elif self._is_lost:
            self._read = None
            read.set_exception(StreamClosedError())
        else:  # more is wanted than is kept otherwise
            self._transport.resume_reading()


class HandshakeConnection(HTTPConnection):
    """Sends the response to a WebSocket's handshake, and gives the stream away."""

    def __init__(self, connection: UpgradableConnection) -> None:
        self.remote_ip = connection.remote_ip
        self.protocol = "https" if connection.is_tls else "http"
        self.context = self  # where Tornado's requests look for the two above
        self._stream = UpgradedStream(connection)

    def write_headers(
        self,
        start_line: RequestStartLine | ResponseStartLine,
        headers: HTTPHeaders,
        chunk: bytes | None = None,
    ) -> "asyncio.Future[None]":
        """Send the head of the response; a handshake has no body."""
        assert isinstance(start_line, ResponseStartLine)
        return self.write(encode_head(start_line.code, dict(headers.get_all())) + (chunk or b""))

    def write(self, chunk: bytes) -> "asyncio.Future[None]":
        """Send bytes."""
        return self._stream.write(chunk)

    def finish(self) -> None:
        """Do nothing: the connection goes on."""

    def set_close_callback(self, callback: Callable[[], None] | None) -> None:
        """Do nothing: the stream reports its end."""

    def detach(self) -> IOStream:
        """Return the stream."""
        return cast(IOStream, self._stream)
