"""The stream of events for all live connections: in order, each encoded once.

A client that reconnects with its last cursor gets the events it missed, or a ``gap``.
"""

import asyncio
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from itertools import groupby
from operator import itemgetter
from typing import Protocol, TypeAlias

from agentd.core import sse
from agentd.core.events import Event, EventBus, JournalState, LastEventOfRecord, StoredEvent
from agentd.core.ids import RunHistory
from agentd.http.access import Caller
from agentd.live.cursor import WHOLE_RECORD, EventCursor, parse_cursor
from agentd.live.event_batch import EncodedRecord, EventBatch, batch_records
from agentd.live.signalr.records import EventRecord as Record

RECENT_EVENTS = 2000
RECENT_BYTES = 2 * 1024 * 1024
"""The most recent events that are kept in memory; older ones are read from disk."""
_MAX_LINE = 1024 * 1024
"""About the longest line of a journal, by the limit of a request body."""
QUIET_CALLS = 30
"""Calls of ``persist`` without new events after which journals are read for missing events."""

NO_RUNS = RunHistory()
"""A history that accepts cursors of any run."""


class EncodedEvent(Record):
    """An encoded event with its cursor; None for one that is not stored."""

    __slots__ = ("_sse", "cursor", "for_administrators", "for_user", "name")

    def __init__(self, event: Event, cursor: EventCursor | None) -> None:
        arguments = event.build_arguments(cursor.run_id if cursor else "")
        seq = cursor.seq if cursor else None
        super().__init__(event.name, arguments, seq=seq, chat=event.about_chat)
        self.name = event.name
        self.for_administrators = event.for_administrators
        self.for_user = event.for_user
        self.cursor = cursor
        self._sse = b""

    @classmethod
    def from_stored(cls, event: bytes, chat: int) -> "EncodedEvent":
        """Return an event from its encoding as a server-sent event."""
        head, name, data = event[:-2].split(b"\n", 2)
        made = cls.__new__(cls)
        made.for_administrators = False  # no such event is stored
        made.for_user = ""
        made.set_data(b'{"type":1,"target":"%b","arguments":%b}' % (name[7:], data[6:]))
        made.cursor, made.chat, made.name = _read_cursor(head + b"\n"), chat, name[7:].decode()
        made.seq = made.cursor.seq
        made._sse = event
        return made

    @property
    def is_private(self) -> bool:
        """True if only some callers receive it."""
        return self.for_administrators or bool(self.for_user)

    def is_for(self, caller: Caller) -> bool:
        """Return whether a caller receives it."""
        if self.for_administrators and caller.role != "administrator":
            return False
        return not self.for_user or (caller.kind == "user" and caller.name == self.for_user)

    @property
    def arguments(self) -> bytes:
        """The JSON of the arguments, cut out of the record."""
        return self.data[self.data.index(b'"arguments":') + 12 : -2]

    @property
    def sse(self) -> bytes:
        """The event as a server-sent event; encoded once."""
        if not self._sse:
            cursor = None if self.cursor is None else str(self.cursor)
            self._sse = sse.encode_json_event(self.arguments, self.name, cursor)
        return self._sse


class EventHistory(Protocol):
    """The source of missed events (``chats.replay.Replay``)."""

    async def read_missed(
        self, chats: Iterable[JournalState], after: int, upto: int, wanted: frozenset[int] | None
    ) -> AsyncIterator[EventBatch] | None:
        """Return the events after one seq up to another, in batches; None if they are too many."""
        ...

    async def persist(
        self,
        recent: Callable[[int, int], list[tuple[int, Event]] | None],
        upto: int,
        chats: Iterable[JournalState] | None,
    ) -> bool:
        """Store events for clients that miss them; False while there are more to store."""
        ...

    async def forget_chat(self, chat: int) -> None:
        """Drop the stored events of a chat that was removed for ever."""
        ...


class JournalCatalog(Protocol):
    """The chats, as the feed needs them."""

    def list_all_summaries(self) -> Sequence[JournalState]:
        """Return the journal state of every chat, also of those in the trash."""
        ...


Listener: TypeAlias = Callable[[EncodedEvent], None]


class _RecentEvents:
    """The last stored events, not encoded, so that a short interruption needs no disk read."""

    def __init__(self, before: int) -> None:
        self._events: deque[tuple[int, Event]] = deque()
        self._weights: deque[int] = deque()
        self._size = 0
        self._sizes: dict[int, int] = {}
        """The sizes of the journals, to compute by how much a record extended one."""
        self._before = before
        """The last record whose events are not all here."""

    def add(self, seq: int, event: Event) -> None:
        """Add an event; the oldest are dropped when there are too many or they are too large."""
        self._events.append((seq, event))
        self._weights.append(self._estimate_size(event))
        self._size += self._weights[-1]
        while len(self._events) > RECENT_EVENTS or self._size > RECENT_BYTES:
            self._before, _ = self._events.popleft()
            self._size -= self._weights.popleft()

    def list_after(self, seq: int, upto: int) -> list[tuple[int, Event]] | None:
        """Return the events after one seq up to another; None when some were dropped."""
        if seq < self._before:
            return None
        return [row for row in self._events if seq < row[0] <= upto]

    def forget_chat(self, chat: int) -> None:
        """Drop the events of a chat that was removed for ever."""
        rows = zip(self._events, self._weights, strict=True)
        kept = [(row, weight) for row, weight in rows if row[1].about_chat != chat]
        self._events = deque(row for row, _ in kept)
        self._weights = deque(weight for _, weight in kept)
        self._size = sum(self._weights)
        self._sizes.pop(chat, None)

    def _estimate_size(self, event: Event) -> int:
        """Return about how many bytes an event keeps in memory.

        A queue shares most prompts with the one before it; what is new in the events of a record
        is the content of its journal line, whose size the last of these events has.
        """
        if not isinstance(event, LastEventOfRecord):
            return event.weight
        chat, size = event.journal.id, event.journal.size
        known = self._sizes.pop(chat, 0)
        self._sizes[chat] = size
        if (
            len(self._sizes) > RECENT_EVENTS
        ):  # for a chat without events for long, a guess is enough
            del self._sizes[next(iter(self._sizes))]
        return event.weight + min(max(size - known, 0), _MAX_LINE)


class Feed:
    """Encodes the events of the bus for its listeners, and reads back missed events.

    ``latest`` is the last seq, ``runs`` are the runs of the daemon including this one.
    """

    def __init__(
        self,
        bus: EventBus,
        chats: JournalCatalog,
        history: EventHistory,
        latest: int,
        runs: RunHistory = NO_RUNS,
    ) -> None:
        self._chats = chats
        self._history = history
        self._runs = runs
        self._listeners: dict[Listener, None] = {}
        self._part = 0
        self._recent = _RecentEvents(latest)
        self._persisted = self._seen = latest
        self._quiet = 0
        self._removed = runs.removed
        """The last seq of a chat that was removed for ever."""
        self.position = latest
        """The seq of the last record whose events were all sent."""
        bus.subscribe(self._on_event)

    @property
    def cursor(self) -> EventCursor:
        """The cursor of a client that has received everything."""
        return EventCursor(self.position, run_id=self._runs.current)

    def subscribe(self, listener: Listener) -> None:
        """Call ``listener`` with each event from now on; it must not fail or wait."""
        self._listeners[listener] = None

    def unsubscribe(self, listener: Listener) -> None:
        """Stop calling ``listener``."""
        self._listeners.pop(listener, None)

    async def read_missed(
        self, after: EventCursor, upto: int, chats: frozenset[int] | None = None
    ) -> AsyncIterator[EventBatch] | None:
        """Return the events after a cursor up to the record ``upto``, in batches made on demand.

        None when they are not available: too many events, those of a chat that was removed for
        ever, or a cursor that is not from this history, because the state folder was restored from
        an older copy.
        """
        if 0 < after.seq < self._removed:
            return None
        if after.seq > upto or not self._runs.has_seq(after.seq, after.run_id):
            return None
        first = after.seq if after.part == WHOLE_RECORD else after.seq - 1
        recent = self._recent.list_after(first, upto)
        batches: AsyncIterator[EventBatch] | None
        if recent is not None:
            batches = _encode_batches(recent, chats, self._runs)
        else:
            batches = await self._history.read_missed(
                self._chats.list_all_summaries(), first, upto, chats
            )
        return (
            batches if batches is None or after.part == WHOLE_RECORD else _skip_seen(batches, after)
        )

    async def persist(self) -> None:
        """Store the events that are only in memory; to be called regularly."""
        upto = self.position
        self._quiet = self._quiet + 1 if self._seen == upto else 0
        self._seen = upto
        if self._persisted == upto:
            return
        chats = self._chats.list_all_summaries() if self._quiet >= QUIET_CALLS else None
        if await self._history.persist(self._recent.list_after, upto, chats):
            self._persisted = upto

    async def forget_chat(self, chat: JournalState) -> None:
        """Send no missed events of a chat any more that was removed for ever, and store none.

        Those who may not have heard that it was deleted have to load everything again.
        """
        self._removed = max(self._removed, chat.seq)
        self._recent.forget_chat(chat.id)
        await self._history.forget_chat(chat.id)

    def _on_event(self, event: Event) -> None:
        cursor = None
        if isinstance(event, StoredEvent):
            whole = isinstance(event, LastEventOfRecord)
            part = WHOLE_RECORD if whole else self._part
            cursor = EventCursor(event.seq, part, self._runs.current)
            self._part = 0 if whole else self._part + 1
            if whole:
                self.position = event.seq
            self._recent.add(event.seq, event)
        if self._listeners:  # without listeners nothing needs to be encoded
            encoded = EncodedEvent(event, cursor)
            for listener in tuple(self._listeners):
                listener(encoded)


def encode_record(runs: RunHistory, seq: int, events: Sequence[Event]) -> bytes:
    """Return all events of one record as server-sent events."""
    run_id = runs.get_run_name(seq)
    cursors = [EventCursor(seq, part, run_id) for part in [*range(len(events) - 1), WHOLE_RECORD]]
    return b"".join(EncodedEvent(*pair).sse for pair in zip(events, cursors, strict=True))


async def _encode_batches(
    recent: list[tuple[int, Event]], chats: frozenset[int] | None, runs: RunHistory
) -> AsyncGenerator[EventBatch, None]:
    """Yield recent events in batches, encoded off the loop."""
    records = (
        EncodedRecord(seq, 0 if chat is None else chat, 0, encode_record(runs, seq, events))
        for seq, chat, events in _group_by_record(recent)
        if chats is None or chat in chats
    )
    made = batch_records(records, None)
    while batch := await asyncio.to_thread(next, made, None):
        yield batch


def _group_by_record(
    recent: list[tuple[int, Event]],
) -> Iterator[tuple[int, int | None, list[Event]]]:
    """Yield the seq, the chat and the events of each record."""
    for seq, rows in groupby(recent, itemgetter(0)):
        events = [event for _, event in rows]
        yield seq, events[-1].about_chat, events


async def _skip_seen(
    batches: AsyncIterator[EventBatch], after: EventCursor
) -> AsyncGenerator[EventBatch, None]:
    """Yield the batches without the events of the first record up to a cursor within it."""
    async for batch in batches:
        if batch.rows and batch.rows[0] == after.seq:
            size = batch.rows[2]
            rest = b"".join(
                event
                for event in _split_events(batch.data[:size])
                if after.precedes(_read_cursor(event))
            )
            rows = batch.rows[:]
            rows[2] = len(rest)
            yield EventBatch(batch.upto, rest + batch.data[size:], rows)
        else:
            yield batch


def decode_batch(batch: EventBatch) -> list[EncodedEvent]:
    """Return the events as records of the hub."""
    return [
        EncodedEvent.from_stored(event, chat)
        for _, chat, data in batch.iter_records()
        for event in _split_events(data)
    ]


def _split_events(data: bytes) -> Iterator[bytes]:
    """Yield each server-sent event, with its final blank line."""
    begin = 0
    while begin < len(data):
        end = data.index(b"\n\n", begin) + 2
        yield data[begin:end]
        begin = end


def _read_cursor(event: bytes) -> EventCursor:
    return parse_cursor(event[4 : event.index(b"\n")].decode())
