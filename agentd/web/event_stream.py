"""``GET /api/events``: the live events as server-sent events, for curl and everybody else.

The first event says ``resumed`` or ``gap``; then come the missed ones, then the live ones. Each
``id`` is a mark to come back with, after a restart of the daemon too.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress

from agentd.chats.chat import LARGEST_ID
from agentd.errors import BadRequest
from agentd.web.call import Answer, Call
from agentd.web.feed import Feed, Told
from agentd.web.live import Roll
from agentd.web.mark import Mark, read_mark
from agentd.wire import sse

KEEP_ALIVE_SECONDS = 15.0
BACKLOG = 8 * 1024 * 1024
"""Bytes that may wait for a slow listener before it is cut; it comes back with its last id."""
LAST_SECONDS = 0.5
"""How long a stream that is ended may take to deliver what is on its way."""
_PORTION = 256 * 1024
_RETRY_SECONDS = 1.0

_HEAD = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-store",
    "X-Accel-Buffering": "no",
}


class EventStream:
    """The endpoint; after ``keep_alive`` seconds without an event it gives a sign of life."""

    def __init__(self, feed: Feed, roll: Roll, keep_alive: float = KEEP_ALIVE_SECONDS) -> None:
        self._feed = feed
        self._roll = roll
        self._keep_alive = keep_alive

    def events(self, call: Call) -> Answer:
        """One listener's stream."""
        since = _mark(call.headers.get("Last-Event-ID") or call.query("since"))
        chats = _chats(call.query("chats"))
        return Answer(portions=self._told(call, chats, since), headers=dict(_HEAD))

    async def _told(
        self, call: Call, chats: frozenset[int] | None, since: Mark | None
    ) -> AsyncGenerator[bytes, None]:
        self._roll.check(call.caller, call.headers.get("Origin"), call.remote_ip)
        listener = _Listener(chats)
        with self._roll.held(call.caller, listener.end, call.remote_ip):
            # What is told from now on waits for the listener; all before it is asked for.
            self._feed.subscribe(listener.hear)
            upto = self._feed.mark
            try:
                yield sse.retry(_RETRY_SECONDS)
                async for portion in self._caught_up(listener, since, upto):
                    yield portion
                while not listener.ended:
                    if await listener.heard(self._keep_alive):
                        if portion := listener.portion():
                            yield portion
                    else:  # the events of other chats have passed: they need not be read again
                        yield sse.mark(str(self._feed.mark))
            finally:
                self._feed.unsubscribe(listener.hear)
                listener.gone()

    async def _caught_up(
        self, listener: "_Listener", since: Mark | None, upto: Mark
    ) -> AsyncGenerator[bytes, None]:
        """What was missed; live events gather meanwhile, so they never overtake."""
        since = since or upto
        span = f'{{"from":{since.seq},"to":{upto.seq}}}'
        missed = await self._feed.missed(since, upto.seq, listener.chats)
        if missed is None:
            yield sse.event(span, "gap", str(upto))
            return
        yield sse.event(span, "resumed", str(since))
        async for portion in missed:
            if listener.ended:
                return
            if portion.data:
                yield portion.data
        yield sse.mark(str(upto))


class _Listener:
    """What waits for one stream, and the wish to hear it. Made by the task that tells it."""

    def __init__(self, chats: frozenset[int] | None) -> None:
        self.ended = False
        self.chats = chats
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._wake = asyncio.Event()
        self._task = asyncio.current_task()
        self._timer: asyncio.TimerHandle | None = None

    def wants(self, event: Told) -> bool:
        """Whether this event is for this listener."""
        return self.chats is None or event.chat is None or event.chat in self.chats

    def hear(self, event: Told) -> None:
        """A live event."""
        if self.ended or not self.wants(event):
            return
        self._waiting.append(event.sse)
        self._size += len(event.sse)
        if self._size > BACKLOG:  # too slow: what it misses now it is told when it comes back
            self.end("")
        self._wake.set()

    def end(self, _reason: str) -> None:
        """End the stream after what is on its way; at once when that takes long."""
        if self.ended:
            return
        self.ended = True
        self._waiting.clear()
        self._wake.set()
        if self._task:
            self._timer = asyncio.get_running_loop().call_later(LAST_SECONDS, self._task.cancel)

    def gone(self) -> None:
        """The stream is over."""
        if self._timer:
            self._timer.cancel()

    async def heard(self, seconds: float) -> bool:
        """Return once something waits, or it is over; False when that takes too long."""
        if not self._waiting and not self.ended:
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
        return bool(self._waiting) or self.ended  # it may have come with the very timeout

    def portion(self) -> bytes:
        """The first of what waits; empty when nothing does."""
        taken: list[bytes] = []
        size = 0
        while self._waiting and size < _PORTION:
            taken.append(self._waiting.popleft())
            size += len(taken[-1])
        self._size -= size
        return b"".join(taken)


def _mark(given: str | None) -> Mark | None:
    try:
        return read_mark(given) if given else None
    except ValueError:
        raise BadRequest("Last-Event-ID (or since) is no id of an event of this stream") from None


def _chats(given: str | None) -> frozenset[int] | None:
    if given is None:
        return None
    numbers = given.split(",")
    if not all(re.fullmatch("[1-9][0-9]{0,15}", number) for number in numbers):
        raise BadRequest("chats must be ids of chats, with commas between them")
    if any(int(number) > LARGEST_ID for number in numbers):
        raise BadRequest(f"The largest id is {LARGEST_ID}")
    return frozenset(map(int, numbers))
