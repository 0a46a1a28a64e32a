"""The events as every live connection gets them: in order, each encoded once.

An event has a *mark*: the ``seq`` of its record, and its part, for one record may tell several
things. Whoever comes back with the last mark that he saw gets what he missed, or hears of a gap.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from agentd.chats.chat import Status
from agentd.chats.fold import Summary
from agentd.clock import Timestamp
from agentd.events import Bus, ChatUpdate, Event, KeysUpdate, MessageUpdate, QueueUpdate
from agentd.web.remote import message_view, prompt_view
from agentd.wire import sse
from agentd.wire.signalr.records import Event as Record

RECENT_EVENTS = 2000
RECENT_BYTES = 2 * 1024 * 1024
"""What is kept in memory of the last events, at most; older ones are read from the disk."""
MISSED_BYTES = 64 * 1024 * 1024
"""More than that missed is told as a gap."""

WHOLE = 1 << 30
"""The part of a record's last event: whoever has it has the whole record."""


class Mark(NamedTuple):
    """A place in the order of all events."""

    seq: int
    part: int = WHOLE

    def __str__(self) -> str:
        """``17`` after the whole record 17, ``17.0`` after the first of its events."""
        return f"{self.seq}" if self.part == WHOLE else f"{self.seq}.{self.part}"


class ChatView(Struct, frozen=True, rename="camel"):
    """The argument of ``chatUpdate``; ``seq`` is a mark to come back with."""

    chat_id: int
    status: Status
    title: str
    created_at: Timestamp
    updated_at: Timestamp
    message_count: int
    total_cost: Decimal
    reason: str
    seq: int


class Told(Record):
    """One event, encoded, with its mark; None for one that is not stored."""

    __slots__ = ("_sse", "mark", "name")

    def __init__(self, event: Event, mark: Mark | None) -> None:
        chat, arguments = _arguments(event)
        super().__init__(event.name, arguments, seq=mark.seq if mark else None, chat=chat)
        self.name = event.name
        self.mark = mark
        self._sse = b""

    @property
    def arguments(self) -> bytes:
        """The arguments' JSON, cut out of the record that holds them."""
        return self.data[self.data.index(b'"arguments":') + 12 : -2]

    @property
    def sse(self) -> bytes:
        """The event for ``GET /api/events``; made once."""
        if not self._sse:
            mark = None if self.mark is None else str(self.mark)
            self._sse = sse.json_event(self.arguments, self.name, mark)
        return self._sse


class History(Protocol):
    """Where missed events come from (``disk.replay.Replay``)."""

    async def missed(
        self, chats: Iterable[Summary], after: int, upto: int
    ) -> list[tuple[int, Event]] | None:
        """The events of the records after one seq up to another; None when they are too many."""
        ...


class Chats(Protocol):
    """What the feed asks of the chats."""

    def summaries(self) -> list[Summary]:
        """Every chat at a glance."""
        ...


Listener: TypeAlias = Callable[[Told], None]


class _Recent:
    """The last stored events, not encoded: a short break need not be read from the disk."""

    def __init__(self, before: int) -> None:
        self._events: deque[tuple[int, Event]] = deque()
        self._size = 0
        self._before = before
        """The last record of which not everything is here."""

    def add(self, seq: int, event: Event) -> None:
        """One more; the oldest go when they are too many or hold too much."""
        self._events.append((seq, event))
        self._size += _weight(event)
        while len(self._events) > RECENT_EVENTS or self._size > RECENT_BYTES:
            self._before, oldest = self._events.popleft()
            self._size -= _weight(oldest)

    def after(self, seq: int, upto: int) -> list[tuple[int, Event]] | None:
        """The events of the records after one, up to another; None when some are gone."""
        if seq < self._before:
            return None
        return [row for row in self._events if seq < row[0] <= upto]


def _weight(event: Event) -> int:
    """About how many bytes an event keeps in memory."""
    match event:
        case MessageUpdate(message=message):
            return 300 + len(message.text)
        case QueueUpdate(prompts=prompts):
            return 100 + 8 * len(prompts)
        case _:
            return 400


class Feed:
    """Hears the bus, encodes, tells its listeners; reads back what somebody missed."""

    def __init__(self, bus: Bus, chats: Chats, history: History, latest: int) -> None:
        self._chats = chats
        self._history = history
        self._listeners: dict[Listener, None] = {}
        self._part = 0
        self._recent = _Recent(latest)
        self.position = latest
        """The seq of the last record of which everything was told."""
        bus.subscribe(self._heard)

    def subscribe(self, listener: Listener) -> None:
        """Have ``listener`` called with each event from now on; it must not fail or wait."""
        self._listeners[listener] = None

    def unsubscribe(self, listener: Listener) -> None:
        """Call it no more."""
        self._listeners.pop(listener, None)

    async def missed(self, after: Mark, upto: int) -> list[Told] | None:
        """What was told after a mark, up to the record ``upto``; None: it cannot be told any more.

        That is so for too many events, and for a mark from the future: the state folder is an
        older copy than the one that the listener knew.
        """
        if after.seq > upto:
            return None
        first = after.seq if after.part == WHOLE else after.seq - 1
        found = self._recent.after(first, upto)
        if found is None:
            found = await self._history.missed(self._chats.summaries(), first, upto)
        if not found:
            return None if found is None else []
        return await asyncio.to_thread(_told, found, after)

    def _heard(self, event: Event) -> None:
        mark = None
        if not isinstance(event, KeysUpdate):
            whole = isinstance(event, ChatUpdate)
            mark = Mark(event.seq, WHOLE if whole else self._part)
            self._part = 0 if whole else self._part + 1
            if whole:
                self.position = event.seq
            self._recent.add(event.seq, event)
        if self._listeners:  # with nobody there, nothing is encoded
            told = Told(event, mark)
            for listener in tuple(self._listeners):
                listener(told)


def _told(found: Iterable[tuple[int, Event]], after: Mark) -> list[Told] | None:
    """Encoded, with their marks; None when they are too large. Off the loop."""
    told: list[Told] = []
    part = size = 0
    for seq, event in found:
        whole = isinstance(event, ChatUpdate)
        mark = Mark(seq, WHOLE if whole else part)
        part = 0 if whole else part + 1
        if mark > after:
            told.append(Told(event, mark))
            size += len(told[-1].data)
            if size > MISSED_BYTES:
                return None
    return told


def _arguments(event: Event) -> tuple[int | None, list[object]]:
    """The chat that an event is about, and its arguments on the wire."""
    match event:
        case MessageUpdate(chat_id=chat_id, message=message):
            return chat_id, [chat_id, message_view(message)]
        case QueueUpdate(chat_id=chat_id, prompts=prompts):
            return chat_id, [chat_id, [prompt_view(prompt) for prompt in prompts]]
        case ChatUpdate(chat=chat, reason=reason):
            return chat.id, [_chat(chat, reason)]
        case KeysUpdate(names=names):
            return None, [names]


def _chat(chat: Summary, reason: str) -> ChatView:
    return ChatView(
        chat_id=chat.id,
        status=chat.status,
        title=chat.title,
        created_at=chat.created_at,
        updated_at=chat.updated_at,
        message_count=chat.messages,
        total_cost=chat.cost,
        reason=reason,
        seq=chat.seq,
    )
