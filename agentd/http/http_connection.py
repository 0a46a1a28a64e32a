"""A client's connection: one request after another is read from it, and answered on it.

Tornado's own connection takes a task and several futures for each part of a request: two fifths of
the time of a small one. This one is called by the loop's transport, has ``framing`` read the bytes,
and hands a connection that becomes a WebSocket over to Tornado (``upgraded_stream``).
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, cast

from tornado.httputil import HTTPHeaders, HTTPInputError, RequestStartLine

from agentd.core import ids
from agentd.core.tasks import start_eagerly
from agentd.http.context import ServerContext
from agentd.http.errors import (
    render_head_too_long,
    render_malformed,
    render_target_too_long,
    render_too_many_connections,
)
from agentd.http.framing import (
    MAX_HEAD_BYTES,
    EndOfRequest,
    HeadTooLong,
    ParsedHead,
    RequestParser,
    TargetTooLong,
)
from agentd.http.upgrade import UpgradedConnection

log = logging.getLogger(__name__)

MAX_WAITING_BYTES = 64 * 1024
"""Bytes that may wait for their turn, such as further requests, before reading pauses."""
MAX_LINGERING = 64
"""Refused connections that are read from at the same time, before they are closed."""
_MAX_EVENTS = 8
"""Of one connection at once, before others have their turn: a client may send tiny chunks."""
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class ClientDisconnected(Exception):
    """The client has left, or was hung up on."""


class MessageHandler(Protocol):
    """The handler of a request (``request_handler.RequestHandler``)."""

    def headers_received(
        self, start_line: RequestStartLine, headers: HTTPHeaders
    ) -> Coroutine[Any, Any, None]:
        """Authenticate and route the request; no part of the body is passed on before the end."""
        ...

    def data_received(self, chunk: bytes) -> Coroutine[Any, Any, None] | None:
        """Take a part of the body; return what to wait for before the next, if anything."""
        ...

    def finish(self) -> None:
        """Answer the request, which has arrived completely."""
        ...

    def on_connection_close(self) -> None:
        """Handle a client that disconnected before the end of the response."""
        ...


class HttpConnection(asyncio.Protocol):
    """Reads requests and writes their responses, one after another (HTTP/1.1, and 1.0).

    A client may send requests without waiting for responses; those that do not fit into
    ``MAX_WAITING_BYTES`` wait in the kernel. ``connections`` are all open ones; one whose file
    descriptor is not below ``descriptor_limit`` is refused.
    """

    def __init__(
        self,
        context: ServerContext,
        make_handler: Callable[["HttpConnection"], MessageHandler],
        connections: "set[HttpConnection]",
        descriptor_limit: int,
    ) -> None:
        self._context = context
        self._make_handler = make_handler
        self._connections = connections
        self._descriptor_limit = descriptor_limit
        self._transport: asyncio.Transport
        self.remote_ip = ""
        self.is_tls = False
        self.keeps_alive = True
        """False if the connection ends with the response of this request."""
        self._parser = RequestParser()
        self._handler: MessageHandler | None = None
        """The handler of the request that is read or answered."""
        self._is_waiting = False
        """True while the handler has to decide, to make room, or to answer, before more is read."""
        self._is_admitting = False
        """True while the handler still looks at the head."""
        self._is_scheduled = False
        """True while a call of ``_read_on`` waits for its turn."""
        self._runs_step = False
        """True while a step of the handler takes its time; what has come is read after it."""
        self._has_ended = False
        """True once the client sends no more."""
        self._is_closing = False
        """True once all that comes is discarded."""
        self._has_written = False
        """True once a part of the response was written."""
        self._flushed: asyncio.Future[None] | None = None
        """Set while written bytes wait for the client to read."""
        self._upgraded: UpgradedConnection | None = None

    @property
    def is_closed(self) -> bool:
        """True once nothing can be written any more."""
        return self._transport.is_closing()

    @property
    def is_flushed(self) -> bool:
        """True if all that was written is in the hands of the kernel, but for a byte."""
        return self._flushed is None

    @property
    def waiting_bytes(self) -> int:
        """The number of received bytes that were not passed on yet."""
        return self._parser.waiting_bytes

    def write(self, data: bytes) -> None:
        """Send bytes, or keep them until the client reads. Does nothing on a closed connection."""
        if not self._transport.is_closing():
            self._has_written = True
            self._transport.write(data)

    async def flush(self) -> None:
        """Return once the kernel has all that was written; raises ``ClientDisconnected``."""
        if self._flushed is not None:
            await asyncio.shield(self._flushed)
        if self.is_closed:
            raise ClientDisconnected

    def finish(self) -> None:
        """End the response, which is written completely; the next request may come.

        If the body of this one has not arrived, the connection ends: nobody takes the rest.
        """
        self._handler = None
        if not self._parser.is_complete or not self.keeps_alive:
            self._close()
        elif self._flushed is None:
            self._await_request()
        else:  # a client that sends and never reads would have all responses kept for it
            self._flushed.add_done_callback(lambda _: self._await_request())

    def abort(self) -> None:
        """Close the connection at once, whatever was not sent yet."""
        self._transport.abort()

    def shut_down_writing(self) -> None:
        """Shut down our side of the connection only, once all is sent.

        Closing it while a body arrives would make the kernel send a reset, which discards our
        response before the client has read it.
        """
        if self._transport.can_write_eof() and not self.is_closed:
            self._transport.write_eof()

    def upgrade(self, upgraded: UpgradedConnection) -> asyncio.Transport:
        """Hand the connection over: all that is received from now on goes to ``upgraded``."""
        self._upgraded = upgraded
        self._handler = None
        if rest := self._parser.take_rest():
            upgraded.data_received(rest)
        self._transport.resume_reading()
        return self._transport

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve a new connection, or refuse it where there are too many."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are of no such class
        # To know of every client that is slow. Not 0: transports over TLS pause at their limit.
        self._transport.set_write_buffer_limits(high=1, low=0)
        self.remote_ip = str((transport.get_extra_info("peername") or [""])[0])
        self.is_tls = transport.get_extra_info("ssl_object") is not None
        self._connections.add(self)
        connected: socket.socket = transport.get_extra_info("socket")
        if connected.fileno() >= self._descriptor_limit:
            self._refuse(503, render_too_many_connections)
        else:
            self._context.head_timeouts.start(self)

    def data_received(self, data: bytes) -> None:
        """Take received bytes."""
        if self._upgraded:
            self._upgraded.data_received(data)
        elif not self._is_closing:
            self._parser.feed(data)
            self._read()
            if self._is_waiting and self.waiting_bytes > MAX_WAITING_BYTES:
                self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Return whether to keep a connection whose client sends no more, and so may have left.

        What it has sent completely is carried out, if nothing but a look at a key's file or at
        other requests kept that from being read.
        """
        self._has_ended = True
        return self._will_read and not self.is_tls  # over TLS there is no such half of a connection

    def pause_writing(self) -> None:
        """Note that the client has to read before more can be sent."""
        self._flushed = asyncio.get_running_loop().create_future()
        if self._upgraded is None:
            self._context.write_timeouts.start(self)

    def resume_writing(self) -> None:
        """Note that the client has read enough for all that was written."""
        self._context.write_timeouts.cancel(self)
        flushed, self._flushed = self._flushed, None
        if flushed:
            flushed.set_result(None)
        if self._upgraded:
            self._upgraded.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection, whoever ended it."""
        self._connections.discard(self)
        self._is_closing = True
        self._parser.discard()
        for timeouts in self._context.timeouts:
            timeouts.cancel(self)
        if self._flushed:
            self._flushed.set_result(None)
        if self._upgraded:
            self._upgraded.connection_lost()
        elif not self._is_admitting:
            self._report_lost()

    def _report_lost(self) -> None:
        handler, self._handler = self._handler, None
        if handler:
            handler.on_connection_close()

    # From bytes to requests.

    @property
    def _will_read(self) -> bool:
        """True if what has come will be read without more coming in."""
        return self._is_scheduled or self._runs_step

    def _await_request(self) -> None:
        if self._is_closing or self.is_closed:
            return
        self._parser.begin_next()
        self._is_waiting = False
        self._has_written = False
        self._context.head_timeouts.start(self)
        self._transport.resume_reading()
        if self.waiting_bytes:
            self._read_soon()

    def _read_soon(self) -> None:
        """Read on after others had their turn, only once however often this was called."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        self._is_scheduled = False
        self._read()
        if self._has_ended and not self._will_read:
            self._transport.close()

    def _read(self) -> None:
        """Handle what there is of the request that is read now."""
        try:
            for _ in range(_MAX_EVENTS):
                if self._is_waiting or self._is_closing:
                    return
                event = self._parser.next_event()
                if event is None:
                    return
                self._handle_event(event)
        except HTTPInputError as error:
            log.debug("no valid request from %s: %s", self.remote_ip, error)
            self._refuse(*_choose_refusal(error))
        except Exception:
            self.abort()  # otherwise the client would wait for ever
            raise
        else:
            self._read_soon()

    def _handle_event(self, event: ParsedHead | bytes | EndOfRequest) -> None:
        if isinstance(event, ParsedHead):
            self._begin_request(event)
            return
        assert self._handler  # whoever ends a request early closes the connection
        if isinstance(event, bytes):
            step = self._handler.data_received(event)
            if step is not None:
                self._run(step, self._read_further)
        else:
            self._is_waiting = True
            self._handler.finish()

    def _begin_request(self, head: ParsedHead) -> None:
        self._context.head_timeouts.cancel(self)
        self.keeps_alive = head.keeps_alive
        self._is_admitting = True
        self._handler = self._make_handler(self)
        self._run(
            self._handler.headers_received(head.start_line, head.headers),
            lambda: self._begin_body(head),
        )

    def _begin_body(self, head: ParsedHead) -> None:
        self._is_admitting = False
        if self._is_closing:
            self._report_lost()
            return
        if head.expects_continue:
            self._transport.write(_CONTINUE)
        self._read_further()

    def _read_further(self) -> None:
        self._is_waiting = False
        self._transport.resume_reading()

    def _run(self, step: Coroutine[Any, Any, None], then: Callable[[], None]) -> None:
        """Run a step of the handler, and ``then`` once it is done; nothing is read meanwhile."""
        self._is_waiting = True
        task = start_eagerly(step)
        if task is None:
            then()
        else:
            self._runs_step = True
            task.add_done_callback(lambda done: self._end_step(done, then))

    def _end_step(self, task: "asyncio.Task[None]", then: Callable[[], None]) -> None:
        self._runs_step = False
        if not task.cancelled() and (error := task.exception()) is None:
            then()
            self._read_soon()
            return
        if not task.cancelled():
            log.error("unexpected error while a request was read", exc_info=error)
        if self._is_admitting:
            self._handler = None  # it never learnt of a request that could be lost
        self.abort()

    # Ends.

    def _close(self) -> None:
        """Close the connection once all is sent; what still comes is discarded."""
        self._is_closing = True
        self._transport.close()

    def _refuse(self, status: int, render: Callable[[str], bytes]) -> None:
        """Answer what is no request, and hang up so that the client can still read the answer."""
        request_id = ids.generate_request_id()
        self._context.access_log.note(self.remote_ip, "-", "-", "-", status, 0.0, request_id)
        self._context.head_timeouts.cancel(self)
        self._is_closing = True
        self._parser.discard()
        self._report_lost()
        if self._has_written:  # in the middle of a response, an answer would be taken for its rest
            self.abort()
            return
        self._transport.write(render(request_id))
        self._linger()

    def _linger(self) -> None:
        """Close the connection once the client has read the response.

        The kernel resets a connection that is closed with unread bytes, and a reset discards what
        the client has not read yet. So shut down our side only, and read until the client closes.
        """
        lingering = self._context.linger_timeouts
        if len(lingering) >= MAX_LINGERING or not self._transport.can_write_eof():
            self._transport.close()
            return
        lingering.start(self)
        self._transport.write_eof()
        self._transport.resume_reading()


def _choose_refusal(error: HTTPInputError) -> tuple[int, Callable[[str], bytes]]:
    """Return the status and the renderer of the answer to what is no request."""
    match error:
        case HeadTooLong():
            return 431, partial(render_head_too_long, limit=MAX_HEAD_BYTES)
        case TargetTooLong():
            return 414, partial(render_target_too_long, limit=MAX_HEAD_BYTES)
        case _:
            return 400, render_malformed
