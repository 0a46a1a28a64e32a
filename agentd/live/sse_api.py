"""``GET /api/events``: the live events as server-sent events, for curl and other clients.

The first event is ``resumed`` or ``gap``; then come the missed events, then the live ones, and
``alive`` every fifteen seconds. Each ``id`` is a cursor for resuming, even after a restart of the
daemon.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress

from agentd.core import sse
from agentd.core.errors import BadRequest
from agentd.core.ids import MAX_ID
from agentd.http.access import Caller
from agentd.http.connections import ConnectionRegistry
from agentd.http.request import Request, Response
from agentd.live.cursor import EventCursor, parse_cursor
from agentd.live.feed import EncodedEvent, Feed

KEEP_ALIVE_SECONDS = 15.0
MAX_BACKLOG_BYTES = 8 * 1024 * 1024
"""Bytes that may wait for a slow client before its stream ends; it resumes with its last id."""
CLOSE_TIMEOUT = 0.5
"""Seconds that an ended stream has to deliver what is being sent."""
_CHUNK_BYTES = 256 * 1024
_RETRY_SECONDS = 1.0

_HEAD = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-store",
}


class EventStreamEndpoint:
    """The endpoint; every ``keep_alive`` seconds it sends ``alive``.

    A browser passes only events on to a page, so an ``id`` alone would not reach it.
    """

    def __init__(
        self, feed: Feed, connections: ConnectionRegistry, keep_alive: float = KEEP_ALIVE_SECONDS
    ) -> None:
        self._feed = feed
        self._connections = connections
        self._keep_alive = keep_alive

    def stream_events(self, call: Request) -> Response:
        """Stream the events to one client."""
        since = _parse_since(call.headers.get("Last-Event-ID") or call.get_query("since"))
        chats = _parse_chats(call.get_query("chats"))
        return Response(chunks=self._stream(call, chats, since), headers=dict(_HEAD))

    async def _stream(
        self, call: Request, chats: frozenset[int] | None, since: EventCursor | None
    ) -> AsyncGenerator[bytes, None]:
        self._connections.check(call.caller, call.headers.get("Origin"), call.remote_ip)
        listener = _Listener(chats, call.caller)
        with self._connections.register(call.caller, listener.end, call.remote_ip):
            # Subscribed before reading the cursor, so that no event is lost in between.
            self._feed.subscribe(listener.on_event)
            upto = self._feed.cursor
            try:
                yield sse.encode_retry(_RETRY_SECONDS)
                async for chunk in self._catch_up(listener, since, upto):
                    yield chunk
                async for chunk in self._follow(listener):
                    yield chunk
            finally:
                self._feed.unsubscribe(listener.on_event)
                listener.cancel_timer()

    async def _follow(self, listener: "_Listener") -> AsyncGenerator[bytes, None]:
        """Yield live events as they come, and ``alive`` regularly, however busy the stream is."""
        now = asyncio.get_running_loop().time
        due = now() + self._keep_alive
        while not listener.ended:
            if await listener.wait(max(due - now(), 0)) and (chunk := listener.take_batch()):
                yield chunk
            if now() >= due and not listener.ended:
                # Once nothing waits, the events of other chats need not be read again either.
                cursor = None if listener.has_backlog else str(self._feed.cursor)
                yield sse.encode_json_event(b"{}", "alive", cursor)
                due = now() + self._keep_alive

    async def _catch_up(
        self, listener: "_Listener", since: EventCursor | None, upto: EventCursor
    ) -> AsyncGenerator[bytes, None]:
        """Yield the missed events; live events wait meanwhile, so they never overtake."""
        since = since or upto
        span = f'{{"from":{since.seq},"to":{upto.seq}}}'
        missed = await self._feed.read_missed(since, upto.seq, listener.chats)
        if missed is None:
            yield sse.encode_event(span, "gap", str(upto))
            return
        yield sse.encode_event(span, "resumed", str(since))
        async for chunk in missed:
            if listener.ended:
                return
            if chunk.data:
                yield chunk.data
        yield sse.encode_id(str(upto))


class _Listener:
    """The events that wait for one stream; created by the task that sends them."""

    def __init__(self, chats: frozenset[int] | None, caller: Caller) -> None:
        self.ended = False
        self._caller = caller
        self.chats = chats
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._wake = asyncio.Event()
        self._task = asyncio.current_task()
        self._timer: asyncio.TimerHandle | None = None

    def wants(self, event: EncodedEvent) -> bool:
        """Return whether to send this event to the stream."""
        if not event.is_for(self._caller):
            return False
        return self.chats is None or event.chat is None or event.chat in self.chats

    def on_event(self, event: EncodedEvent) -> None:
        """Queue a live event."""
        if self.ended or not self.wants(event):
            return
        self._waiting.append(event.sse)
        self._size += len(event.sse)
        if self._size > MAX_BACKLOG_BYTES:  # too slow: the client resumes when it reconnects
            self.end("")
        self._wake.set()

    def end(self, _reason: str) -> None:
        """End the stream after what is being sent, or by cancelling when that takes too long."""
        if self.ended:
            return
        self.ended = True
        self._waiting.clear()
        self._wake.set()
        if self._task:
            self._timer = asyncio.get_running_loop().call_later(CLOSE_TIMEOUT, self._task.cancel)

    def cancel_timer(self) -> None:
        """Stop the timer of a stream that has ended."""
        if self._timer:
            self._timer.cancel()

    async def wait(self, seconds: float) -> bool:
        """Return True once an event waits or the stream has ended, False after ``seconds``."""
        if not self._waiting and not self.ended:
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
        return bool(self._waiting) or self.ended  # it may have arrived together with the timeout

    @property
    def has_backlog(self) -> bool:
        """True if events wait to be sent."""
        return bool(self._waiting)

    def take_batch(self) -> bytes:
        """Remove and return the first waiting events; empty when there are none."""
        taken: list[bytes] = []
        size = 0
        while self._waiting and size < _CHUNK_BYTES:
            taken.append(self._waiting.popleft())
            size += len(taken[-1])
        self._size -= size
        return b"".join(taken)


def _parse_since(given: str | None) -> EventCursor | None:
    try:
        return parse_cursor(given) if given else None
    except ValueError:
        raise BadRequest(
            "Last-Event-ID (or since) is not the id of an event of this stream"
        ) from None


def _parse_chats(given: str | None) -> frozenset[int] | None:
    if given is None:
        return None
    numbers = given.split(",")
    if not all(re.fullmatch("[1-9][0-9]{0,15}", number) for number in numbers):
        raise BadRequest("chats must be ids of chats, separated by commas")
    if any(int(number) > MAX_ID for number in numbers):
        raise BadRequest(f"chats must be ids of at most {MAX_ID}")
    return frozenset(map(int, numbers))
