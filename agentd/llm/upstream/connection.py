"""An HTTP/1.1 connection to a supplier, used for one call after the other."""

import asyncio
import select
from collections.abc import Callable
from math import inf
from typing import cast

import httptools
from msgspec import Struct

from agentd.core.errors import SupplierUnreachable
from agentd.llm.upstream.protocol import Timeouts

_READ_AHEAD = 256 * 1024
"""Bytes that wait for a slow reader before the supplier has to wait, too."""


class ResponseLimits(Struct, frozen=True):
    """Limits on what a supplier may send, in bytes."""

    head: int = 64 * 1024
    """Status line and headers; as much, too, of anything that is no body, such as trailers."""
    body: int = 256 * 2**20
    """The body of one answer, compressed or not."""


class ResponseHead(Struct, frozen=True):
    """Status and headers by lower-case name; repeated ones are joined by a comma."""

    status: int
    headers: dict[str, str]


class UpstreamConnection(asyncio.Protocol):
    """Created by ``loop.create_connection``, which also disables Nagle's algorithm.

    Any failure is raised as ``SupplierUnreachable`` in the waiting task, and ends the connection.
    """

    def __init__(
        self, host: str, limits: ResponseLimits, lost: Callable[["UpstreamConnection"], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self.stale = False
        """The supplier closed it without a single byte of an answer to the last call."""
        self._host = host
        self._limits = limits
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._socket_poll: select.poll | None = None
        """The poll object of the socket; made once, because every call uses it."""
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._answer: _ResponseParser | None = None
        self._error: SupplierUnreachable | None = None
        self._since = self._timeout = self._end = 0.0
        self._got_data = False
        self._paused = False

    @property
    def is_reusable(self) -> bool:
        """True if the last response is complete and another call can be sent."""
        free = self._answer is None or (self._answer.is_complete and self._answer.keep_alive)
        open_ = self._transport is not None and not self._transport.is_closing()
        return free and open_ and self._error is None and not self._count_unsent()

    @property
    def is_silent(self) -> bool:
        """True if nothing has arrived that the loop has not read yet, such as the supplier's close.

        Only valid while the connection ``is_reusable``: its socket is open then.
        """
        return self._socket_poll is not None and not self._socket_poll.poll(0)

    async def send_request(
        self, request: bytes, *, bodiless: bool, timeouts: Timeouts, end: float
    ) -> ResponseHead:
        """Send a request and wait for the head of its response.

        ``bodiless``: the response has no body whatever its head says, as to ``HEAD``. ``end`` is
        the loop time at which the whole call, including its body, has to be over.
        """
        answer = self._answer = _ResponseParser(bodiless=bodiless)
        self._got_data = False
        assert self._transport
        if self._transport.is_closing():
            self._fail(f"{self._host} closed the connection at once")
        else:
            self._transport.write(request)
        self._set_deadline(timeouts.head, end)
        while answer.head is None:
            await self._wait_for_data(answer)
        self._set_deadline(timeouts.idle, end)
        return answer.head

    async def read_chunk(self) -> bytes:
        """Return the bytes received since the last call, at least one; empty at the end."""
        answer = self._answer
        assert answer
        while not answer.pieces:
            if answer.is_complete:
                return b""
            await self._wait_for_data(answer)
        data = b"".join(answer.pieces)
        answer.pieces.clear()
        answer.waiting = 0
        if self._paused and self._transport:
            self._paused = False
            self._transport.resume_reading()
        return data

    def keep_idle(self, seconds: float) -> None:
        """Stay open for another call, for at most this many seconds."""
        self._answer = None
        self._since = self._loop.time()
        self._set_deadline(seconds, inf)
        if self._paused and self._transport:
            self._paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close the connection at once."""
        self._cancel_deadline()
        if self._transport:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport; called by the loop."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are of no such class
        if socket := transport.get_extra_info("socket"):
            self._socket_poll = select.poll()
            self._socket_poll.register(socket.fileno(), select.POLLIN | select.POLLRDHUP)

    def data_received(self, data: bytes) -> None:
        """Feed what arrived to the parser; called by the loop."""
        answer = self._answer
        self._got_data = True
        if (
            answer is None or answer.is_complete
        ):  # unsolicited bytes cannot be the response to a request
            self.abort()
            return
        if wrong := answer.feed(data, self._limits):
            answer.discard()
            self._fail(f"{self._host} {wrong}")
        elif answer.waiting > _READ_AHEAD and not self._paused and self._transport:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail an incomplete response; called by the loop. ``exc`` is None for a clean close."""
        self._cancel_deadline()
        answer = self._answer
        if answer and not (answer.is_complete or (exc is None and answer.on_eof())):
            self.stale = self._error is None and not self._got_data
            before = "without an answer" if answer.head is None else "in the middle of its answer"
            self._fail(f"{self._host} closed the connection {before}")
        self.gone.set_result(None)
        self._lost(self)
        self._wake()

    async def _wait_for_data(self, answer: "_ResponseParser") -> None:
        """Wait for more of a response. What arrived before a failure is read first.

        The connection may serve its next call by then, if the response was closed meanwhile.
        """
        if self._error:
            raise self._error
        self._waiter = self._loop.create_future()
        self._since = self._loop.time()
        try:
            await self._waiter
        finally:
            self._waiter = None
        if self._error and not answer.pieces:
            raise self._error

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, message: str, *, gave_up: bool = False) -> None:
        if self._error is None:
            stage = "head" if self._answer is None or self._answer.head is None else "body"
            self._error = SupplierUnreachable(message, stage, self._host, gave_up=gave_up)
            self.abort()
            self._wake()

    def _count_unsent(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport else 0

    def _set_deadline(self, patience: float, end: float) -> None:
        """Fail when the reader waits longer than ``patience`` seconds, or at ``end``.

        One timer serves call after call as long as it fires early enough: it then checks whether
        the time has come. Cheaper than one timer per call, let alone per chunk of a stream.
        """
        self._timeout, self._end = patience, end
        due = min(self._loop.time() + patience, end)
        if self._timer is None or self._timer.when() > due:
            self._cancel_deadline()
            self._timer = self._loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        now, resting = self._loop.time(), self._answer is None
        waiting = self._waiter is not None and not self._waiter.done()  # else it has just come
        due = (self._since if waiting or resting else now) + self._timeout
        if now < min(due, self._end):
            self._timer = self._loop.call_at(min(due, self._end), self._on_timer)
        elif resting:
            self.abort()
        elif now >= self._end:
            late = f"The call to {self._host} took longer than it may in total"
            self._fail(late, gave_up=True)
        else:
            has_begun = self._answer is not None and self._answer.head is not None
            late = "stopped in the middle of its answer" if has_begun else "did not answer"
            late = f"{self._host} {late}: nothing came for {self._timeout:g} s"
            self._fail(late, gave_up=True)

    def _cancel_deadline(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None


class _ResponseParser:
    """Parses a response as it arrives; ``httptools`` calls its ``on_…`` methods."""

    def __init__(self, *, bodiless: bool) -> None:
        self.head: ResponseHead | None = None
        self.pieces: list[bytes] = []
        self.waiting = 0
        self.is_complete = False
        self.keep_alive = False
        self._bodiless = bodiless
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._head_size = 0
        self._overhead = 0
        self._body_size = 0

    def feed(self, data: bytes, limits: ResponseLimits) -> str:
        """Parse what arrived; return what is wrong with it, if anything."""
        self._overhead += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.keep_alive = False
            if not self.is_complete:
                return "does not speak HTTP/1.1 as it should"
        if max(self._head_size, self._overhead) > limits.head:
            return f"sent a head of more than {limits.head} bytes"
        if self._body_size > limits.body:
            return f"sent a body of more than {limits.body} bytes"
        return ""

    def discard(self) -> None:
        """Drop what arrived: it is not a valid response."""
        self.pieces.clear()
        self.is_complete = False

    def on_eof(self) -> bool:
        """Handle the closed connection; return whether this is a valid end of the response."""
        framed = {"content-length", "transfer-encoding"} & self._headers.keys()
        self.is_complete = self.is_complete or (self.head is not None and not framed)
        return self.is_complete

    def on_message_begin(self) -> None:
        """Forbid reuse for now: a second response is unexpected; interim ones precede the final."""
        self.keep_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; trailers are ignored."""
        self._head_size += len(name) + len(value) + len(": \r\n")
        if self.head is None and not self.is_complete:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
            before = self._headers.get(key)
            self._headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        """Store the head, unless it is that of an interim response (1xx)."""
        status = self._parser.get_status_code()
        if self.head is not None or self.is_complete or status < 200:
            return
        self.head = ResponseHead(status, self._headers)
        if self._bodiless:
            self.is_complete, self.keep_alive = True, self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        """Store a piece of the body."""
        self._overhead = 0
        if self.is_complete:  # of an answer that must have none
            self.keep_alive = False
            return
        self.pieces.append(body)
        self.waiting += len(body)
        self._body_size += len(body)

    def on_message_complete(self) -> None:
        """Finish the body; an interim response has none."""
        if self.head is None:
            self._headers = {}
        elif not self.is_complete:
            self.is_complete, self.keep_alive = True, self._parser.should_keep_alive()
