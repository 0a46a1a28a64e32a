"""The model gateway's ledger: a line for each request, and what the lines add up to.

The day files are the truth. Booking appends a line (``ledger_writer``); adding up reads the files
on (``ledger_days``), on a thread of its own, so nothing that is asked keeps a request waiting.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial
from typing import TypeVar

from agentd.clock import Clock
from agentd.disk.layout import Layout
from agentd.disk.ledger_answers import ALL, Answers
from agentd.disk.ledger_begun import Marks, book_unfinished, holds_marks, next_number
from agentd.disk.ledger_days import Days, prepare
from agentd.disk.ledger_file import Standing, read_on
from agentd.disk.ledger_page import find, page
from agentd.disk.ledger_reprice import Repricing
from agentd.disk.ledger_writer import Writer
from agentd.disk.lines import seal
from agentd.errors import AgentdError, Unavailable
from agentd.proxy.entry import Entry
from agentd.proxy.local_days import slot_minutes
from agentd.proxy.overview import Overview
from agentd.proxy.page import Filter, Page
from agentd.proxy.reports import (
    EVERYTHING,
    By,
    ErrorLine,
    LeakLine,
    Only,
    Report,
    TimedBy,
    TimePage,
)
from agentd.proxy.repricing import Difference, PricesOf
from agentd.proxy.sums import Sums
from agentd.proxy.tally import Totals

log = logging.getLogger(__name__)

T = TypeVar("T")

READ_EVERY = 1000
"""Lines that are added up at once while nobody asks."""

BREATH = 0.01
"""Seconds between two stretches of days that are made ahead."""

LOOK_AGAIN = 10.0
"""Seconds after which an overview is made anew though nothing was booked."""


class Ledger:
    """Keeps every request of the model gateway.

    The day of a file is that of its entries' ``at``, in UTC; the days that are asked for are those
    of the ``zone``.
    """

    def __init__(self, layout: Layout, clock: Clock, *, sync: bool = False) -> None:
        self._layout = layout
        self._clock = clock
        self.sync = sync
        """Whether a request is booked only when its line is safe on the disk; it may change."""
        self.zone: tzinfo = UTC
        """In which the days of reports begin; it may change."""
        self._today: Callable[[], str] = lambda: clock.now()[:10]
        self._days = Days(layout, self._today, self._size, slot=lambda: slot_minutes(self.zone))
        self._answers = Answers(self._days, clock.now, lambda: self.zone)
        self._overview: tuple[object, Overview] | None = None
        self._thread = ThreadPoolExecutor(1, "ledger days")
        self._writer: Writer | None = None
        self._marks = Marks(1)
        self.unfinished = 0
        """Calls that the end of the process before cut off, and that were booked at the start."""
        self._changes = self._unread = 0
        self._since: list[Entry] | None = None
        """What was booked meanwhile, while somebody counts: see ``sums``."""
        self._counting = asyncio.Lock()
        """While it is counted no day is priced anew, nor the other way round."""

    async def open(self, cuts: Iterable[datetime] = ()) -> Sums:
        """Mend what a crash left, book what it cut off, and tell what each key has spent.

        ``cuts`` are the moments since which that will be asked for (to the quarter of an hour),
        such as the beginnings of the limits' windows; the sum of all is always known. Raises
        ``Unavailable`` or ``Misconfigured`` when a file cannot be read.
        """
        await self._on_thread(lambda: prepare(self._layout))
        try:
            now = self._clock.now()
            self.unfinished = await self._on_thread(lambda: book_unfinished(self._layout, now))
        except AgentdError as error:
            log.error("what a crash cut off is booked at the next start: %s", error.message)
        self._marks = Marks(await self._on_thread(lambda: next_number(self._layout)))
        self._writer = Writer(self._layout)
        return await self.sums(cuts)

    async def begin(self, entry: Entry) -> None:
        """Mark a call before its supplier is asked: the entry is booked if ``book`` never is.

        That is at the next start, when this process ended meanwhile. Returns once the mark is
        written. Only a power cut within the next ``LAG`` could lose it: to wait for a sync of its
        own would make each call wait for the disk twice. Raises ``Unavailable`` when it could not
        be written.
        """
        assert self._writer, "the ledger is not open"
        try:
            mark = self._marks.begin(entry.id)
            await self._writer.append(mark, seal(entry))
        except Unavailable:
            self._end_mark(entry.id)
            raise

    async def book(self, entry: Entry) -> None:
        """Keep a request; returns once its line is written (with ``sync``: safe on the disk).

        A written line survives the end of this process; the sync that makes it survive the end of
        the machine follows at once. Raises ``Unavailable`` when it could not be written (the disk
        is full); it is then not in the ledger, or not before the next start.
        """
        assert self._writer, "the ledger is not open"
        line, mark = seal(entry), self._marks.place(entry.id)
        # A second copy is safe as soon as the next marks are: one sync for both, and not two.
        copied = self._writer.append(mark, line, safe=True) if mark and self.sync else None
        written = self._writer.append(entry.at[:10], line, safe=self.sync and copied is None)
        if self._since is not None:
            self._since.append(entry)
        if copied:
            await copied  # the later of the two: who waits for it is woken once
        await written
        self._end_mark(entry.id)
        self._changes += 1
        self._unread += 1
        if self._unread == READ_EVERY:
            self._unread = 0
            self._thread.submit(self._days.refresh)

    @property
    def trouble(self) -> str:
        """Why requests cannot be booked now; empty: they can."""
        return self._writer.trouble if self._writer else ""

    async def probe(self) -> None:
        """Return if requests can be booked again. Raises ``Unavailable``, ``Misconfigured``."""
        assert self._writer, "the ledger is not open"
        await self._writer.probe(self._today())

    async def close(self) -> None:
        """Write what waits, and keep what it all adds up to; where that fails, it is only logged.

        What it adds up to is told by the day files, and made anew at the next start.
        """
        if self._writer:
            self._remove_marks(closing=True)
            await self._writer.close()
            self._writer = None
            try:
                await self._on_thread(self._days.refresh)
                await self._on_thread(self._days.keep)
            except AgentdError as error:
                log.error("what the ledger adds up to is not kept: %s", error.message)
        await asyncio.to_thread(self._thread.shutdown)

    async def sums(self, cuts: Iterable[datetime] = ()) -> Sums:
        """What each key has spent up to the moment of the return; see ``open``.

        Exactly: it holds each request whose ``book`` was called before, and no other. Who awaits
        it and takes it up at once has missed none meanwhile, and counts none twice.
        """
        async with self._counting:
            assert self._writer, "the ledger is not open"
            sums, sizes = await self._asked(lambda: self._days.sums(cuts))
            since = self._since = []
            try:  # `between`: after all that was booked before this moment, and before the rest
                behind = await self._writer.between(lambda: self._behind(sizes))
            finally:
                self._since = None
            for entry in (*behind, *since):
                sums.book(entry)
            return sums

    async def page(self, wanted: Filter, limit: int = 50, cursor: str = "") -> Page:
        """Requests, the newest first; ``cursor`` is the ``next`` of the page before.

        Raises ``BadRequest`` for what is no cursor.
        """
        return await asyncio.to_thread(page, self._layout, wanted, limit, cursor)

    async def find(self, id_: str, day: str = "") -> Entry | None:
        """The request of this id; where its day is known, that is faster. ``Unavailable``."""
        return await asyncio.to_thread(find, self._layout, id_, day)

    async def totals(
        self, by: By, first: str, last: str, only: Only = EVERYTHING
    ) -> Report[Totals]:
        """What the days ``first`` to ``last``, such as ``2026-01-31``, both included, add up to.

        Nobody changes it: it is remembered.
        """
        return await self._asked(lambda: self._answers.totals(by, first, last, only))

    async def times(
        self, by: TimedBy, first: str, last: str, only: Only = EVERYTHING, rows: slice = ALL
    ) -> TimePage:
        """How long the answers of these days took: some ``rows`` of the report, or all."""
        return await self._asked(lambda: self._answers.times(by, first, last, only, rows))

    async def errors(self, first: str, last: str, only: Only = EVERYTHING) -> list[ErrorLine]:
        """Errors of these days by kind."""
        return await self._asked(lambda: self._answers.errors(first, last, only))

    async def leaks(self, first: str, last: str) -> list[LeakLine]:
        """Secrets that were found on these days, by day, key and rule."""
        return await self._asked(lambda: self._answers.leaks(first, last))

    async def overview(self) -> Overview:
        """The present day and month in short; it is made anew only where something was booked."""
        now = (
            self._changes,
            self.zone,
            self._clock.now()[:13],
            int(self._clock.monotonic() / LOOK_AGAIN),
        )
        if self._overview is None or self._overview[0] != now:
            self._overview = now, await self._asked(self._answers.overview)
        return self._overview[1]

    async def make_ahead(self) -> None:
        """Have kept what stretches of closed days add up to, so that long reports take short.

        One by one, so that questions come between. Where it is broken off, nothing is lost.
        """
        for stretch in await self._on_thread(self._days.closed):
            try:
                if not await self._asked(partial(self._days.make, stretch)):
                    return
            except Unavailable as error:  # each report of these days tells it, too
                log.info("from %s on some days cannot be read: %s", stretch.first, error.message)
            await asyncio.sleep(BREATH)

    async def damaged(self) -> list[str]:
        """Each line that is not sound, ``path:line: why``: it counts nowhere, and stays there."""
        return await self._asked(lambda: list(self._days.damaged()))

    async def retain(self, keep_days: int, needed: str = "") -> list[str]:
        """Delete the requests of days that ended ``keep_days`` ago; which days these were.

        Those from the day ``needed`` on are kept in any case, and what the others add up to.
        Raises ``Unavailable`` where that cannot be made sure of.
        """
        oldest = (date.fromisoformat(self._today()) - timedelta(keep_days)).isoformat()
        return await self._on_thread(lambda: list(self._days.retain(min(oldest, needed or oldest))))

    async def reprice(
        self, first: str, last: str, prices_of: PricesOf, *, dry_run: bool = False
    ) -> Difference:
        """Price the requests of these days anew, each by ``prices_of``; what that changes.

        Each day's file is replaced as a whole, so a crash leaves days of the one kind and of the
        other; doing it again is harmless. Take the ``sums`` anew afterwards. ``prices_of`` is
        called on another thread. A ``dry_run`` changes nothing. Raises ``Unavailable``.
        """
        async with self._counting:
            difference = Difference()
            for day in await self._on_thread(self._days.known):
                if first <= day <= last:
                    one = Repricing(self._layout, day, prices_of)
                    await asyncio.to_thread(one.prepare, self._size(day), dry_run=dry_run)
                    if not dry_run and one.difference.changed:
                        await self._replace(one)
                    difference.add(one.difference)
            return difference

    def _end_mark(self, id_: str) -> None:
        self._marks.end(id_)
        self._remove_marks()

    def _remove_marks(self, *, closing: bool = False) -> None:
        for name in self._marks.finished(closing=closing):
            if self._writer:
                self._writer.remove(name)

    async def _replace(self, one: Repricing) -> None:
        assert self._writer, "the ledger is not open"
        forget = partial(self._writer.forget, one.day)
        await self._writer.between(lambda: one.replace(forget))
        await self._on_thread(lambda: self._days.forget(one.day))
        self._changes += 1

    def _behind(self, sizes: Mapping[str, int]) -> list[Entry]:
        """What was written behind these sizes of the days' files. On the writing thread."""
        assert self._writer
        found: list[Entry] = []
        days = [one for one in self._writer.sizes().items() if not holds_marks(one[0])]
        for day, size in days:
            found += read_on(self._layout.ledger_day(day), Standing(sizes.get(day, 0)), size)
        return found

    def _size(self, day: str) -> int | None:
        return self._writer.size(day) if self._writer else None

    async def _asked(self, do: Callable[[], T]) -> T:
        return await self._on_thread(lambda: self._days.asked(do))

    async def _on_thread(self, do: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, do)
