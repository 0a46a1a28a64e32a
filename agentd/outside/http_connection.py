"""One connection to a supplier: HTTP/1.1, one call after the other."""

import asyncio
import select
from collections.abc import Callable
from math import inf

import httptools
from msgspec import Struct

from agentd.errors import SupplierUnreachable
from agentd.proxy.upstream import Timeouts

_MUCH = 256 * 1024
"""Bytes that wait for a slow reader before the supplier has to wait, too."""


class Limits(Struct, frozen=True):
    """Bytes that a supplier may send."""

    head: int = 64 * 1024
    """Status line and headers; as much, too, of anything that is no body, such as trailers."""
    body: int = 256 * 2**20
    """The body of one answer, compressed or not."""


class Head(Struct, frozen=True):
    """The beginning of an answer. Names are in lower case; what came twice is joined."""

    status: int
    headers: dict[str, str]


class Connection(asyncio.Protocol):
    """Made by ``loop.create_connection``, which also turns Nagle's algorithm off.

    Any failure comes as ``SupplierUnreachable`` to whoever waits, and ends the connection.
    """

    def __init__(self, host: str, limits: Limits, lost: Callable[["Connection"], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self.stale = False
        """The supplier closed it without a single byte of an answer to the last call."""
        self._host = host
        self._limits = limits
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._news: select.poll | None = None
        """Of the socket alone; made once, because every call asks it."""
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._answer: _Answer | None = None
        self._error: SupplierUnreachable | None = None
        self._since = self._patience = self._end = 0.0
        self._heard = False
        self._paused = False

    @property
    def reusable(self) -> bool:
        """The last answer is over, and nothing stands in the way of another call."""
        free = self._answer is None or (self._answer.over and self._answer.keeps)
        open_ = self._transport is not None and not self._transport.is_closing()
        return free and open_ and self._error is None and not self._unsent()

    @property
    def silent(self) -> bool:
        """Nothing has come in that the loop has not read yet, such as the supplier's close.

        To be asked only while it is ``reusable``: its socket is open then.
        """
        return self._news is not None and not self._news.poll(0)

    async def call(self, request: bytes, *, bodiless: bool, timeouts: Timeouts, end: float) -> Head:
        """Send a request, and wait for the head of its answer.

        ``bodiless``: the answer has no body whatever its head says, as to ``HEAD``. ``end`` is
        the loop's time at which the whole call, its body too, is over.
        """
        answer = self._answer = _Answer(bodiless=bodiless)
        self._heard = False
        assert self._transport
        if self.gone.done():
            self._fail(f"{self._host} closed the connection at once")
        self._transport.write(request)
        self._watch(timeouts.head, end)
        while answer.head is None:
            await self._more(answer)
        self._watch(timeouts.idle, end)
        return answer.head

    async def body(self) -> bytes:
        """What came in since the last time, at least one byte; nothing at the end."""
        answer = self._answer
        assert answer
        while not answer.pieces:
            if answer.over:
                return b""
            await self._more(answer)
        data = b"".join(answer.pieces)
        answer.pieces.clear()
        answer.waiting = 0
        if self._paused and self._transport:
            self._paused = False
            self._transport.resume_reading()
        return data

    def rest(self, seconds: float) -> None:
        """Wait for another call, but no longer than this."""
        self._answer = None
        self._since = self._loop.time()
        self._watch(seconds, inf)
        if self._paused and self._transport:
            self._paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Cut the connection at once."""
        self._unwatch()
        if self._transport:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The loop connected it."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if socket := transport.get_extra_info("socket"):
            self._news = select.poll()
            self._news.register(socket.fileno(), select.POLLIN | select.POLLRDHUP)

    def data_received(self, data: bytes) -> None:
        """The loop read something."""
        answer = self._answer
        self._heard = True
        if answer is None or answer.over:  # nobody asked: whatever it is, it is no answer to us
            self.abort()
            return
        if wrong := answer.fed(data, self._limits):
            answer.void()
            self._fail(f"{self._host} {wrong}")
        elif answer.waiting > _MUCH and not self._paused and self._transport:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """The loop closed it, or found it closed; ``exc`` is None for a proper close."""
        self._unwatch()
        answer = self._answer
        if answer and not (answer.over or (exc is None and answer.ended())):
            self.stale = self._error is None and not self._heard
            before = "without an answer" if answer.head is None else "in the middle of its answer"
            self._fail(f"{self._host} closed the connection {before}")
        self.gone.set_result(None)
        self._lost(self)
        self._wake()

    async def _more(self, answer: "_Answer") -> None:
        """Wait until there is news of an answer. What came in before a failure is read first.

        The connection may have gone to its next call by then, if somebody let go of the answer.
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

    def _unsent(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport else 0

    def _watch(self, patience: float, end: float) -> None:
        """Fail when the reader waits longer than ``patience``, or at the ``end``.

        One timer does for call after call, as long as it is early enough: it looks whether the
        time has come. Cheaper than one for each call, let alone for each piece of a stream.
        """
        self._patience, self._end = patience, end
        due = min(self._loop.time() + patience, end)
        if self._timer is None or self._timer.when() > due:
            self._unwatch()
            self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        now, resting = self._loop.time(), self._answer is None
        waiting = self._waiter is not None and not self._waiter.done()  # else it has just come
        due = (self._since if waiting or resting else now) + self._patience
        if now < min(due, self._end):
            self._timer = self._loop.call_at(min(due, self._end), self._look)
        elif resting:
            self.abort()
        elif now >= self._end:
            late = f"The call to {self._host} took longer than it may in total"
            self._fail(late, gave_up=True)
        else:
            said = self._answer is not None and self._answer.head is not None
            late = "stopped in the middle of its answer" if said else "did not answer"
            late = f"{self._host} {late}: nothing came for {self._patience:g} s"
            self._fail(late, gave_up=True)

    def _unwatch(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None


class _Answer:
    """An answer as it comes in; ``httptools`` calls its ``on_…`` methods."""

    def __init__(self, *, bodiless: bool) -> None:
        self.head: Head | None = None
        self.pieces: list[bytes] = []
        self.waiting = 0
        self.over = False
        self.keeps = False
        self._bodiless = bodiless
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._head_size = 0
        self._overhead = 0
        self._body_size = 0

    def fed(self, data: bytes, limits: Limits) -> str:
        """Take what came in; tells what is wrong with it, if anything."""
        self._overhead += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.keeps = False
            if not self.over:
                return "does not speak HTTP/1.1 as it should"
        if max(self._head_size, self._overhead) > limits.head:
            return f"sent a head of more than {limits.head} bytes"
        if self._body_size > limits.body:
            return f"sent a body of more than {limits.body} bytes"
        return ""

    def void(self) -> None:
        """What came in is not to be read: it is no answer."""
        self.pieces.clear()
        self.over = False

    def ended(self) -> bool:
        """The connection is closed; whether that is the proper end of this answer."""
        framed = {"content-length", "transfer-encoding"} & self._headers.keys()
        self.over = self.over or (self.head is not None and not framed)
        return self.over

    def on_message_begin(self) -> None:
        """A second answer is none of ours; an interim one may be followed by the true one."""
        self.keeps = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which is passed over."""
        self._head_size += len(name) + len(value) + len(": \r\n")
        if self.head is None and not self.over:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
            before = self._headers.get(key)
            self._headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        """The head is whole, or that of an interim answer (1xx), which is passed over."""
        status = self._parser.get_status_code()
        if self.head is not None or self.over or status < 200:
            return
        self.head = Head(status, self._headers)
        if self._bodiless:
            self.over, self.keeps = True, self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._overhead = 0
        if self.over:  # of an answer that must have none
            self.keeps = False
            return
        self.pieces.append(body)
        self.waiting += len(body)
        self._body_size += len(body)

    def on_message_complete(self) -> None:
        """The body is whole; an interim answer has none."""
        if self.head is None:
            self._headers = {}
        elif not self.over:
            self.over, self.keeps = True, self._parser.should_keep_alive()
