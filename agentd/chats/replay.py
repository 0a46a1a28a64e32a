"""Past events, read back from the disk: events survive a restart.

The journals are the truth; what was once read back from them is kept, encoded, in the log of
events. Only durable records are sent: of each journal as many bytes as its chat's summary
covers.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from operator import itemgetter
from typing import BinaryIO, TypeAlias, TypeVar, TypeVarTuple, Unpack

from msgspec import Struct

from agentd.chats import checkpoint
from agentd.chats.events import derive_events
from agentd.chats.journal_reader import JournalDamage, read_entries
from agentd.chats.records import JournalEntry
from agentd.chats.state import Chat
from agentd.core.errors import Unavailable
from agentd.core.events import Event, JournalState, LastEventOfRecord
from agentd.live.event_batch import BATCH_BYTES, EncodedRecord, EventBatch, batch_records
from agentd.live.event_log import EventLog
from agentd.storage.journal import open_journal_file
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

MOST_EVENTS = 50_000
"""The most missed events that are sent again; after more, reloading is cheaper (``gap``)."""
MOST_BYTES = 64 * 1024 * 1024
"""The same limit for encoded bytes."""
KEPT_RECORDS = 250
"""The most records that go from memory into the log at a time."""
_CHUNK = 1024 * 1024

Given = TypeVarTuple("Given")
Answer = TypeVar("Answer")
Encode: TypeAlias = Callable[[int, Sequence[Event]], bytes]
"""The encoding of all events of one record, given its seq."""
Recent: TypeAlias = Callable[[int, int], list[tuple[int, Event]] | None]
"""The events of the records after one seq up to another, from memory; None when some are gone."""


class Replay:
    """Reads missed events, from the log where it has them; satisfies ``live.feed.HistoryReader``.

    ``chats`` and ``latest`` (the last seq) are as they were when the daemon started.
    """

    def __init__(
        self,
        layout: Layout,
        encode: Encode,
        latest: int,
        chats: Iterable[JournalState],
        most: int = MOST_EVENTS,
        largest: int = MOST_BYTES,
    ) -> None:
        self._layout = layout
        self._encode = encode
        self._most = most
        self._largest = largest
        self._log = EventLog(layout, latest, chats)
        self._too_much_after = -1
        """The seq from which on there are too many events."""
        self._filling = asyncio.Lock()
        self._journals = ThreadPoolExecutor(1, "replay")
        self._files = ThreadPoolExecutor(1, "events")

    async def read_missed(
        self,
        chats: Iterable[JournalState],
        after: int,
        upto: int,
        wanted: frozenset[int] | None = None,
    ) -> AsyncIterator[EventBatch] | None:
        """Return the events of records ``after < seq <= upto``; None when they are too many.

        ``chats`` are all that may have any, as they are now; ``wanted`` are those whose events
        are sent (None: all). A chat that cannot be read, or only up to some line, yields no more
        than that. The portions raise ``Unavailable`` where the rest can no longer be read.
        """
        async with self._filling:
            if after <= self._too_much_after:  # or each who asks has all journals read for nothing
                return None
            found = await self._collect(list(chats), after, upto, wanted)
            if found is None:
                self._too_much_after = after
            return found

    async def persist(
        self, recent: Recent, upto: int, chats: Iterable[JournalState] | None
    ) -> bool:
        """Write a part of the records in memory to the log, so that each call costs little.

        Where the log is further behind, it is brought up to date from the journals of ``chats``,
        if these are given. False when it is still behind. A failure is only logged: nothing is
        lost.
        """
        async with self._filling:
            await self._run_in_log_thread(self._log.open)
            after = self._log.position
            rows = recent(after, upto)
            try:
                if rows is not None:
                    await self._run_in_log_thread(self._append_recent, rows, after, upto)
                elif (
                    chats is not None
                    and await self._collect(list(chats), after, upto, None) is None
                ):
                    await self._run_in_log_thread(self._log.reset, upto)
            except OSError as error:
                log.warning("the log of events cannot be written: %s", error)
                return True
            return self._log.position >= upto

    async def forget_chat(self, chat: int) -> None:
        """Drop the stored events of a chat that was removed for ever, which has no journal.

        The log is then made anew from the journals of the others.
        """
        async with self._filling:
            await self._run_in_log_thread(self._log.open)
            await self._run_in_log_thread(self._log.forget_chat, chat)

    async def close(self) -> None:
        """End the threads."""
        await asyncio.to_thread(self._journals.shutdown)
        await self._run_in_log_thread(self._log.close)
        await asyncio.to_thread(self._files.shutdown)

    async def _read_log(
        self, chats: list[JournalState], after: int, upto: int, wanted: frozenset[int] | None
    ) -> AsyncGenerator[EventBatch, None]:
        """Read the log in portions, each after the one before was taken."""
        while after < upto:
            portion = await self._run_in_log_thread(self._log.read, after, upto, wanted)
            if portion is None:  # altered on the disk, or so slowly taken that it is gone
                again = await self.read_missed(chats, after, upto, wanted)
                if again is None:
                    raise Unavailable("The missed events are too many by now", "Come back.")
                async for portion in again:
                    yield portion
                return
            after = portion.upto
            yield portion

    async def _collect(
        self, chats: list[JournalState], after: int, upto: int, wanted: frozenset[int] | None
    ) -> AsyncIterator[EventBatch] | None:
        """Bring the log up to date and read it; where it cannot be written, do without it."""
        await self._run_in_log_thread(self._log.open)
        base = self._log.position if after >= self._log.first else after
        if base >= upto:
            return self._read_log(chats, after, upto, wanted)
        records = await self._read_journals(chats, base, upto)
        if records is None and base < after:
            base, records = after, await self._read_journals(chats, after, upto)
        if records is None:
            return None
        try:
            await self._run_in_log_thread(self._log.append, base, upto, records)
        except OSError as error:
            log.warning("the log of events cannot be written: %s", error)
            if base > after and (records := await self._read_journals(chats, after, upto)) is None:
                return None
            return _stream_records([record for record in records if record.seq > after], wanted)
        there = self._log.first <= after
        if not there and base > after:  # another reader found it altered and restarted it
            return await self._collect(chats, after, upto, wanted)
        return (
            self._read_log(chats, after, upto, wanted) if there else None
        )  # more than it can hold

    def _append_recent(self, rows: list[tuple[int, Event]], after: int, upto: int) -> None:
        """Encode the first of these events, and append them."""
        records: list[EncodedRecord] = []
        size = 0
        for seq, group in groupby(rows, itemgetter(0)):
            if len(records) >= KEPT_RECORDS or size >= BATCH_BYTES:
                upto = records[-1].seq
                break
            events = [event for _, event in group]
            assert isinstance(events[-1], LastEventOfRecord)
            chat = events[-1].journal
            records.append(EncodedRecord(seq, chat.id, chat.size, self._encode(seq, events)))
            size += len(records[-1].data)
        self._log.append(after, upto, records)

    async def _run_in_log_thread(
        self, work: Callable[[Unpack[Given]], Answer], *arguments: *Given
    ) -> Answer:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._files, work, *arguments)

    async def _read_journals(
        self, chats: Iterable[JournalState], after: int, upto: int
    ) -> list[EncodedRecord] | None:
        """Fold and encode; None when it is too much."""
        loop = asyncio.get_running_loop()
        found: list[EncodedRecord] = []
        budget = ReplayBudget(self._most, self._largest)
        for chat in chats:
            if chat.seq > after:
                found += await loop.run_in_executor(
                    self._journals, self._read_chat, chat, after, upto, budget
                )
            if budget.exceeded:
                return None
        await loop.run_in_executor(self._journals, lambda: found.sort(key=itemgetter(0)))
        return found

    def _read_chat(
        self, summary: JournalState, after: int, upto: int, budget: "ReplayBudget"
    ) -> list[EncodedRecord]:
        """Return a chat's records, until there are too many."""
        found: list[EncodedRecord] = []
        try:
            fd = open_journal_file(self._layout, summary.id)
            with open(fd, "rb") as file:
                chat = checkpoint.read(self._layout.get_checkpoint_path(summary.id), summary.id, fd)
                if chat is None or chat.seq > after:
                    chat = Chat(summary.id)
                for entry in _fold_entries(file, chat, min(upto, summary.seq), summary.size):
                    if entry.seq <= after:
                        continue
                    events = list(derive_events(entry, chat.id, chat.queue, chat.summarize()))
                    data = self._encode(entry.seq, events)
                    found.append(EncodedRecord(entry.seq, chat.id, chat.size, data))
                    budget.add(len(events), len(data))
                    if budget.exceeded:
                        break
        except OSError as error:
            log.warning("events of chat %d cannot be read back: %s", summary.id, error)
        return found


class ReplayBudget(Struct):
    """The number of events and bytes that may still be sent."""

    events: int
    size: int

    def add(self, events: int, size: int) -> None:
        """Subtract so many events and bytes."""
        self.events -= events
        self.size -= size

    @property
    def exceeded(self) -> bool:
        """True if it was too much."""
        return self.events < 0 or self.size < 0


async def _stream_records(
    records: list[EncodedRecord], wanted: frozenset[int] | None
) -> AsyncGenerator[EventBatch, None]:
    for portion in batch_records(records, wanted):
        yield portion


def _fold_entries(file: BinaryIO, chat: Chat, upto: int, size: int) -> Iterator[JournalEntry]:
    """Fold on from ``chat`` to the byte ``size``: each record up to a seq, once it is applied."""
    file.seek(chat.size)
    while chat.size < size:
        data = file.read(min(_CHUNK, size - chat.size))
        if not data.endswith(b"\n"):
            data += file.readline()
        for step in read_entries(data, chat.lines, chat.size):
            if isinstance(step, JournalDamage):
                log.warning("chat %d: events end at line %d: %s", chat.id, chat.lines, step.reason)
                return
            entry, length = step
            if entry.seq > upto:
                return
            chat.apply(entry, length)
            yield entry
        if not data:
            log.warning("the journal of chat %d is shorter than it was", chat.id)
            return
