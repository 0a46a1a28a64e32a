"""What happened since some moment, read back from the disk: events survive a restart.

The journals are the truth; what was once read back from them is kept, encoded, in the log of
events. Only what is known to be safe is told: of each journal as many bytes as its chat's summary
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

from agentd.chats.fold import Chat, Summary
from agentd.chats.records import Entry
from agentd.disk import checkpoint
from agentd.disk.event_log import EventLog
from agentd.disk.layout import Layout
from agentd.disk.lines import Damage, read
from agentd.disk.load import open_journal
from agentd.errors import Unavailable
from agentd.events import Event, Last, told_by
from agentd.wire.portion import PORTION, Encoded, Portion, portions

log = logging.getLogger(__name__)

MOST_EVENTS = 50_000
"""More than that missed, and reading everything anew is cheaper: it is told as a gap."""
MOST_BYTES = 64 * 1024 * 1024
"""As much, encoded, and likewise."""
KEPT_RECORDS = 250
"""So many at most go from memory into the log at a time."""
_CHUNK = 1024 * 1024

Given = TypeVarTuple("Given")
Answer = TypeVar("Answer")
Encode: TypeAlias = Callable[[int, Sequence[Event]], bytes]
"""How all events of one record are written, given its seq."""
Recent: TypeAlias = Callable[[int, int], list[tuple[int, Event]] | None]
"""The events of the records after one seq up to another, from memory; None when some are gone."""


class Replay:
    """Reads missed events, from the log where it has them; satisfies ``web.feed.History``.

    ``chats`` and ``latest`` (the last seq) are as they were when the daemon started.
    """

    def __init__(
        self,
        layout: Layout,
        encode: Encode,
        latest: int,
        chats: Iterable[Summary],
        most: int = MOST_EVENTS,
        largest: int = MOST_BYTES,
    ) -> None:
        self._layout = layout
        self._encode = encode
        self._most = most
        self._largest = largest
        self._log = EventLog(layout, latest, chats)
        self._too_much_after = -1
        """What came after this seq, or one before it, was too much already."""
        self._filling = asyncio.Lock()
        self._journals = ThreadPoolExecutor(1, "replay")
        self._files = ThreadPoolExecutor(1, "events")

    async def missed(
        self, chats: Iterable[Summary], after: int, upto: int, wanted: frozenset[int] | None = None
    ) -> AsyncIterator[Portion] | None:
        """The events of records ``after < seq <= upto``, in order; None when they are too many.

        ``chats`` are all that may have any, as they are now; ``wanted`` are those whose events
        are told (None: all). A chat that cannot be read, or only up to some line, tells no more
        than that. The portions raise ``Unavailable`` where the rest can no longer be read.
        """
        async with self._filling:
            if after <= self._too_much_after:  # or each who asks has all journals read for nothing
                return None
            found = await self._found(list(chats), after, upto, wanted)
            if found is None:
                self._too_much_after = after
            return found

    async def keep(self, recent: Recent, upto: int, chats: Iterable[Summary] | None) -> bool:
        """Have the log go on with what memory has: a part of it, so that it costs little.

        Where the log is further behind, it is brought up to date from the journals of ``chats``,
        if these are given. False when it is still behind. A failure is only logged: nothing is
        lost.
        """
        async with self._filling:
            await self._in_log(self._log.open)
            after = self._log.position
            rows = recent(after, upto)
            try:
                if rows is not None:
                    await self._in_log(self._take, rows, after, upto)
                elif (
                    chats is not None and await self._found(list(chats), after, upto, None) is None
                ):
                    await self._in_log(self._log.begin, upto)
            except OSError as error:
                log.warning("the log of events cannot be written: %s", error)
                return True
            return self._log.position >= upto

    async def close(self) -> None:
        """End the threads."""
        await asyncio.to_thread(self._journals.shutdown)
        await self._in_log(self._log.close)
        await asyncio.to_thread(self._files.shutdown)

    async def _kept(
        self, chats: list[Summary], after: int, upto: int, wanted: frozenset[int] | None
    ) -> AsyncGenerator[Portion, None]:
        """From the log, portion by portion, each once the one before was taken."""
        while after < upto:
            portion = await self._in_log(self._log.read, after, upto, wanted)
            if portion is None:  # altered on the disk, or so slowly taken that it is gone
                again = await self.missed(chats, after, upto, wanted)
                if again is None:
                    raise Unavailable("The missed events are too many by now", "Come back.")
                async for portion in again:
                    yield portion
                return
            after = portion.upto
            yield portion

    async def _found(
        self, chats: list[Summary], after: int, upto: int, wanted: frozenset[int] | None
    ) -> AsyncIterator[Portion] | None:
        """Bring the log up to date and read it; where it cannot be written, do without it."""
        await self._in_log(self._log.open)
        base = self._log.position if after >= self._log.first else after
        if base >= upto:
            return self._kept(chats, after, upto, wanted)
        records = await self._read_journals(chats, base, upto)
        if records is None and base < after:
            base, records = after, await self._read_journals(chats, after, upto)
        if records is None:
            return None
        try:
            await self._in_log(self._log.extend, base, upto, records)
        except OSError as error:
            log.warning("the log of events cannot be written: %s", error)
            if base > after and (records := await self._read_journals(chats, after, upto)) is None:
                return None
            return _from_memory([record for record in records if record.seq > after], wanted)
        there = self._log.first <= after
        if not there and base > after:  # another reader found it altered: it began anew meanwhile
            return await self._found(chats, after, upto, wanted)
        return self._kept(chats, after, upto, wanted) if there else None  # more than it can hold

    def _take(self, rows: list[tuple[int, Event]], after: int, upto: int) -> None:
        """Encode the first of these events, and append them."""
        records: list[Encoded] = []
        size = 0
        for seq, group in groupby(rows, itemgetter(0)):
            if len(records) >= KEPT_RECORDS or size >= PORTION:
                upto = records[-1].seq
                break
            events = [event for _, event in group]
            assert isinstance(events[-1], Last)
            chat = events[-1].chat
            records.append(Encoded(seq, chat.id, chat.size, self._encode(seq, events)))
            size += len(records[-1].data)
        self._log.extend(after, upto, records)

    async def _in_log(self, work: Callable[[Unpack[Given]], Answer], *arguments: *Given) -> Answer:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._files, work, *arguments)

    async def _read_journals(
        self, chats: Iterable[Summary], after: int, upto: int
    ) -> list[Encoded] | None:
        """Fold and encode; None when it is too much."""
        loop = asyncio.get_running_loop()
        found: list[Encoded] = []
        told = Amount(self._most, self._largest)
        for chat in chats:
            if chat.seq > after:
                found += await loop.run_in_executor(
                    self._journals, self._of, chat, after, upto, told
                )
            if told.exceeded:
                return None
        await loop.run_in_executor(self._journals, lambda: found.sort(key=itemgetter(0)))
        return found

    def _of(self, summary: Summary, after: int, upto: int, told: "Amount") -> list[Encoded]:
        """One chat's part, until it is too much."""
        found: list[Encoded] = []
        try:
            fd = open_journal(self._layout, summary.id)
            with open(fd, "rb") as file:
                chat = checkpoint.read(self._layout.checkpoint(summary.id), summary.id, fd)
                if chat is None or chat.seq > after:
                    chat = Chat(summary.id)
                for entry in _entries(file, chat, min(upto, summary.seq), summary.size):
                    if entry.seq <= after:
                        continue
                    events = list(told_by(entry, chat.id, chat.queue, chat.summary()))
                    data = self._encode(entry.seq, events)
                    found.append(Encoded(entry.seq, chat.id, chat.size, data))
                    told.add(len(events), len(data))
                    if told.exceeded:
                        break
        except OSError as error:
            log.warning("what chat %d told cannot be read back: %s", summary.id, error)
        return found


class Amount(Struct):
    """How much may yet be told."""

    events: int
    size: int

    def add(self, events: int, size: int) -> None:
        """So much was told."""
        self.events -= events
        self.size -= size

    @property
    def exceeded(self) -> bool:
        """Whether it was too much."""
        return self.events < 0 or self.size < 0


async def _from_memory(
    records: list[Encoded], wanted: frozenset[int] | None
) -> AsyncGenerator[Portion, None]:
    for portion in portions(records, wanted):
        yield portion


def _entries(file: BinaryIO, chat: Chat, upto: int, size: int) -> Iterator[Entry]:
    """Fold on from ``chat`` to the byte ``size``: each record up to a seq, once it is applied."""
    file.seek(chat.size)
    while chat.size < size:
        data = file.read(min(_CHUNK, size - chat.size))
        if not data.endswith(b"\n"):
            data += file.readline()
        for step in read(data, chat.lines, chat.size):
            if isinstance(step, Damage):
                log.warning("chat %d is told up to line %d: %s", chat.id, chat.lines, step.reason)
                return
            entry, length = step
            if entry.seq > upto:
                return
            chat.apply(entry, length)
            yield entry
        if not data:
            log.warning("the journal of chat %d is shorter than it was", chat.id)
            return
