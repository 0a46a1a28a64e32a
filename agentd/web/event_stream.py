"""``GET /api/events``: the live events as server-sent events, for curl and everybody else.

The first event says ``resumed`` or ``gap``; then come the missed ones, then the live ones. Each
``id`` is a mark to come back with, after a restart of the daemon too.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator

from agentd.chats.chat import LARGEST_ID
from agentd.errors import BadRequest
from agentd.web.call import Answer, Call
from agentd.web.feed import WHOLE, Feed, Mark, Told
from agentd.web.live import Roll
from agentd.wire import sse

KEEP_ALIVE_SECONDS = 15.0
BACKLOG = 8 * 1024 * 1024
"""Bytes that may wait for a slow listener before it is cut; it comes back with its last id."""
_PORTION = 256 * 1024
_RETRY_SECONDS = 1.0

_MARK = re.compile(r"([0-9]{1,16})(?:\.([0-9]{1,4}))?")
_HEAD = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-store",
    "X-Accel-Buffering": "no",
}


class EventStream:
    """The endpoint."""

    def __init__(self, feed: Feed, roll: Roll) -> None:
        self._feed = feed
        self._roll = roll

    def events(self, call: Call) -> Answer:
        """One listener's stream."""
        self._roll.check(call.caller, call.headers.get("Origin"))
        given = call.headers.get("Last-Event-ID") or call.query("since")
        chats = _chats(call.query("chats"))
        listener = _Listener(self._feed, chats)
        return Answer(portions=self._told(call, listener, _mark(given)), headers=dict(_HEAD))

    async def _told(
        self, call: Call, listener: "_Listener", since: Mark | None
    ) -> AsyncGenerator[bytes, None]:
        with self._roll.held(call.caller, listener.end):
            self._feed.subscribe(listener.hear)
            try:
                yield sse.retry(_RETRY_SECONDS)
                if since is not None:
                    async for portion in self._caught_up(listener, since):
                        yield portion
                while portion := await listener.portion():
                    yield portion
            finally:
                self._feed.unsubscribe(listener.hear)

    async def _caught_up(self, listener: "_Listener", since: Mark) -> AsyncGenerator[bytes, None]:
        """What was missed; live events gather meanwhile, so they never overtake."""
        upto = self._feed.position
        missed = await self._feed.missed(since, upto)
        if missed is None:
            told = f'{{"from":{since.seq},"to":{upto}}}'
            yield sse.event(told, "gap", str(Mark(upto)))
            return
        yield sse.event(f'{{"from":{since.seq},"to":{upto}}}', "resumed")
        gathered: list[bytes] = []
        size = 0
        for event in missed:
            if listener.wants(event):
                gathered.append(event.sse)
                size += len(event.sse)
            if size > _PORTION:
                yield b"".join(gathered)
                gathered, size = [], 0
        if gathered:
            yield b"".join(gathered)


class _Listener:
    """What waits for one stream, and the wish to hear it."""

    def __init__(self, feed: Feed, chats: frozenset[int] | None) -> None:
        self._chats = chats
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._wake = asyncio.Event()
        self._ended = False

    def wants(self, event: Told) -> bool:
        """Whether this event is for this listener."""
        return self._chats is None or event.chat is None or event.chat in self._chats

    def hear(self, event: Told) -> None:
        """A live event."""
        if self._ended or not self.wants(event):
            return
        self._waiting.append(event.sse)
        self._size += len(event.sse)
        if self._size > BACKLOG:  # too slow: what it misses now it is told when it comes back
            self._waiting.clear()
            self._ended = True
        self._wake.set()

    def end(self, _reason: str) -> None:
        """End the stream after what it has been given."""
        self._waiting.clear()
        self._ended = True
        self._wake.set()

    async def portion(self) -> bytes:
        """All that waits, or a sign of life after a while; empty when the stream is over."""
        if not self._waiting and not self._ended:
            self._wake.clear()
            try:
                async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                return sse.KEEP_ALIVE
        portion = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        return portion


def _mark(given: str | None) -> Mark | None:
    if not given:
        return None
    found = _MARK.fullmatch(given)
    if not found:
        raise BadRequest("Last-Event-ID (or since) is no id of an event of this stream")
    return Mark(int(found[1]), int(found[2]) if found[2] else WHOLE)


def _chats(given: str | None) -> frozenset[int] | None:
    if given is None:
        return None
    numbers = given.split(",")
    if not all(re.fullmatch("[1-9][0-9]{0,15}", number) for number in numbers):
        raise BadRequest("chats must be ids of chats, with commas between them")
    if any(int(number) > LARGEST_ID for number in numbers):
        raise BadRequest(f"The largest id is {LARGEST_ID}")
    return frozenset(map(int, numbers))
