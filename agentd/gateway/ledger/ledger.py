"""The model gateway's ledger: one line for each request, and reports of what they add up to.

The day files are the source of truth. Recording a request appends a line (``writer``); reports
read what was appended (``daily_reports``) on a thread of their own, so no report delays a request.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial
from typing import TypeVar

from agentd.core.clock import Clock
from agentd.core.errors import AgentdError, Unavailable
from agentd.core.local_days import get_slot_minutes
from agentd.core.tasks import BackgroundTasks
from agentd.gateway.ledger.balances import CountedSpend
from agentd.gateway.ledger.daily_reports import DailyReports, prepare_folders
from agentd.gateway.ledger.daily_totals import RequestTotals
from agentd.gateway.ledger.pages import find_request, read_page
from agentd.gateway.ledger.pending_calls import (
    PendingCalls,
    find_next_number,
    record_interrupted_calls,
)
from agentd.gateway.ledger.queries import ALL_ROWS, LedgerQueries
from agentd.gateway.ledger.query import RecordPage, RequestFilter
from agentd.gateway.ledger.record import PendingCall, RequestRecord
from agentd.gateway.ledger.reprice import DayRepricing, Revise
from agentd.gateway.ledger.spend_counting import SpendCounting
from agentd.gateway.ledger.writer import LedgerWriter
from agentd.gateway.limits.spend_by_quarter_hour import SpendByQuarterHour
from agentd.gateway.pricing.repricing import PricesOf, RepricingSummary, reprice
from agentd.gateway.reports.overview import DayFigures, LedgerOverview
from agentd.gateway.reports.reports import (
    EVERYTHING,
    GroupBy,
    LeakRow,
    ReportFilter,
    ReportTable,
    TimedGroupBy,
    TimePage,
)
from agentd.storage.checksummed_json import encode_checksummed
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

T = TypeVar("T")

REFRESH_EVERY = 1000
"""Lines after which they are added up although no report was requested."""

ROLLUP_PAUSE = 0.01
"""Seconds between two rollups that are built in the background."""

OVERVIEW_SECONDS = 10.0
"""Seconds after which an overview is rebuilt although nothing was recorded."""


class Ledger:
    """Stores every request of the model gateway.

    The day of a file is that of its records' ``at``, in UTC; days of reports are those of ``zone``.
    """

    def __init__(self, layout: Layout, clock: Clock, *, sync: bool = False) -> None:
        self._layout, self._clock = layout, clock
        self.sync = sync
        """True if a request counts as recorded only when its line is synced; may be changed."""
        self.zone: tzinfo = UTC
        """The time zone of the days of reports; may be changed."""
        self._today: Callable[[], str] = lambda: clock.now()[:10]
        self._days = DailyReports(
            layout, self._today, self.get_size, slot=lambda: get_slot_minutes(self.zone)
        )
        self._queries = LedgerQueries(self._days, clock.now, lambda: self.zone)
        self._overview: tuple[object, LedgerOverview] | None = None
        self._figures: tuple[object, DayFigures] | None = None
        self._thread = ThreadPoolExecutor(1, "ledger days")
        self._writer: LedgerWriter | None = None
        self._pending = PendingCalls(1)
        self.on_recorded: list[Callable[[RequestRecord], object]] = []
        self.interrupted_calls = 0
        """Calls interrupted by the end of the previous process, recorded by this start."""
        self._change_count = self._unread_count = 0
        self._counting = SpendCounting(layout)
        self._tasks = BackgroundTasks()
        self._count_lock = asyncio.Lock()
        """Held while counting, repricing or deleting: none of them may run during another."""

    async def open(self, window_starts: Iterable[datetime] = ()) -> SpendByQuarterHour:
        """Repair files after a crash, record interrupted calls and count what each key spent.

        Spend is available in total and since each of ``window_starts``, such as the starts of the
        limits' windows (to the quarter hour). Raises ``Unavailable`` or ``ConfigError``.
        """
        await self._run(lambda: prepare_folders(self._layout))
        try:
            record = partial(record_interrupted_calls, self._layout, self._clock.now())
            self.interrupted_calls = await self._run(record)
        except AgentdError as error:
            log.error("interrupted calls will be recorded by the next start: %s", error.message)
        self._pending = PendingCalls(await self._run(lambda: find_next_number(self._layout)))
        self._writer = LedgerWriter(self._layout)
        return await self.count_spend(window_starts)

    async def mark_pending(self, call: PendingCall) -> None:
        """Write down a call before its supplier is called, so that a crash cannot lose its cost.

        If this process dies before the request is recorded, the next start records it. Only a
        power cut within the next ``SYNC_DELAY`` could lose the line: waiting for the sync would
        make each call wait for the disk twice, and cost 6 to 14 % more CPU time. Raises
        ``Unavailable`` when it could not be written.
        """
        assert self._writer, "the ledger is not open"
        try:
            await self._writer.append(self._pending.begin(call.id), encode_checksummed(call))
        except Unavailable:
            self._pending.end(call.id)
            self._delete_finished_files()
            raise

    async def add_record(self, record: RequestRecord) -> None:
        """Record a finished request; return once its line is written (with ``sync``: synced).

        A written line survives the death of this process; the sync that makes it survive a power
        cut follows at once. Raises ``Unavailable`` when it could not be written (disk full); it is
        then not in the ledger, or not before the next start.
        """
        assert self._writer, "the ledger is not open"
        line, mark = encode_checksummed(record), self._pending.get_current_file(record.id)
        marked = [self._writer.append(mark, line, safe=True)] if mark and self.sync else []
        written = self._writer.append(record.at[:10], line, safe=self.sync and not marked)
        self._counting.add(record)
        await self._tasks.run_when_done([*marked, written], partial(self._on_written, record))

    def _on_written(self, record: RequestRecord) -> None:
        for listener in self.on_recorded:
            listener(record)
        self._pending.end(record.id)
        self._delete_finished_files()
        self._change_count += 1
        self._unread_count += 1
        if self._unread_count % REFRESH_EVERY == 0:
            self._thread.submit(self._days.refresh)

    @property
    def problem(self) -> str:
        """Why requests cannot be recorded now; empty if they can."""
        return self._writer.problem if self._writer else ""

    async def probe(self) -> None:
        """Return if requests can be recorded again. Raises ``Unavailable``, ``ConfigError``."""
        assert self._writer, "the ledger is not open"
        await self._writer.probe(self._today())

    async def close(self) -> None:
        """Write waiting lines and save the reports of the open day; a failure is only logged.

        Reports can be rebuilt from the day files at the next start.
        """
        if self._writer:
            await self._tasks.wait()
            self._delete_finished_files(closing=True)
            await self._writer.close()
            self._writer = None
            try:
                await self._run(self._days.refresh)
                await self._run(self._days.flush)
            except AgentdError as error:
                log.error("the ledger's reports were not saved: %s", error.message)
        await asyncio.to_thread(self._thread.shutdown)

    async def count_spend(self, window_starts: Iterable[datetime] = ()) -> SpendByQuarterHour:
        """Count what each key has spent up to the moment of the return; see ``open``.

        The result contains exactly the requests whose ``add_record`` was called before: a caller
        that starts using it without awaiting misses none and counts none twice.
        """
        return await self._count(lambda: self._days.count_spend(window_starts))

    async def count_model_spend(self, since: Mapping[str, str]) -> SpendByQuarterHour:
        """Count what keys, by id, spent on each model since a day (UTC); as ``count_spend``."""
        return await self._count(lambda: self._days.count_model_spend(since))

    async def _count(self, count: Callable[[], CountedSpend]) -> SpendByQuarterHour:
        async with self._count_lock:
            assert self._writer, "the ledger is not open"
            return await self._counting.finish(self._writer, await self._query(count))

    async def read_page(
        self, wanted: RequestFilter, limit: int = 50, cursor: str = ""
    ) -> RecordPage:
        """Return one page of requests, newest first. ``BadRequest`` for an invalid cursor."""
        return await asyncio.to_thread(read_page, self._layout, wanted, limit, cursor)

    async def find_request(self, id_: str, day: str = "") -> RequestRecord | None:
        """Return the request with this id; faster if its ``day`` is given. ``Unavailable``."""
        return await asyncio.to_thread(find_request, self._layout, id_, day)

    async def get_totals(
        self, by: GroupBy, first: str, last: str, only: ReportFilter = EVERYTHING
    ) -> ReportTable[RequestTotals]:
        """Return totals of the days ``first`` to ``last``; cached, so it must not be changed."""
        return await self._query(lambda: self._queries.get_totals(by, first, last, only))

    async def get_times(
        self,
        by: TimedGroupBy,
        first: str,
        last: str,
        only: ReportFilter = EVERYTHING,
        rows: slice = ALL_ROWS,
    ) -> TimePage:
        """Return response times of these days: some ``rows`` of the report, or all."""
        return await self._query(lambda: self._queries.get_times(by, first, last, only, rows))

    async def get_leaks(
        self, first: str, last: str, only: ReportFilter = EVERYTHING
    ) -> list[LeakRow]:
        """Return the secrets found on these days, by day, key and rule."""
        return await self._query(lambda: self._queries.get_leaks(first, last, only))

    async def get_overview(self) -> LedgerOverview:
        """Return a summary of the current day and month; cached until something is recorded."""
        if self._overview is None or self._overview[0] != self.version:
            self._overview = self.version, await self._query(self._queries.get_overview)
        return self._overview[1]

    async def get_day_figures(self) -> DayFigures:
        """Return the current day beside the one before; cached until something is recorded."""
        if self._figures is None or self._figures[0] != self.version:
            self._figures = self.version, await self._query(self._queries.get_day_figures)
        return self._figures[1]

    @property
    def version(self) -> object:
        """Differs once something was recorded or repriced, and after ``OVERVIEW_SECONDS``."""
        moment = int(self._clock.monotonic() / OVERVIEW_SECONDS)
        return self._change_count, self.zone, self._clock.now()[:13], moment

    async def build_rollups(self) -> None:
        """Write missing rollups of closed days, one by one so that reports come between.

        It may be cancelled at any time.
        """
        for rollup in await self._run(self._days.list_rollups):
            try:
                if not await self._query(partial(self._days.write_rollup, rollup)):
                    return
            except Unavailable as error:  # every report of these days fails the same way
                log.info("from %s on some days cannot be read: %s", rollup.first, error.message)
            await asyncio.sleep(ROLLUP_PAUSE)

    async def delete_old(self, keep_days: int, today: str, needed: str = "") -> list[str]:
        """Delete the requests of days that ended ``keep_days`` before ``today``; return these days.

        Days from ``needed`` on stay, and all reports. ``Unavailable`` if one cannot be written.
        """
        old = (date.fromisoformat(today) - timedelta(keep_days)).isoformat()
        async with self._count_lock:
            return await self._run(lambda: list(self._days.delete_before(min(old, needed or old))))

    async def reprice(
        self, first: str, last: str, prices_of: PricesOf, change: int = 0, *, dry_run: bool = False
    ) -> RepricingSummary:
        """Reprice the requests of these days by ``prices_of``, as the change of this number."""
        revise = partial(reprice, find_prices=prices_of, change=change)
        return await self.revise_prices(first, last, revise, dry_run=dry_run)

    async def revise_prices(
        self, first: str, last: str, revise: Revise, *, dry_run: bool = False
    ) -> RepricingSummary:
        """Give the requests of these days other prices; return the difference.

        Each day's file is replaced as a whole, so a crash leaves some days revised and others not;
        repeating it is harmless. Call ``count_spend`` afterwards. ``revise`` is called in a thread.
        A ``dry_run`` changes nothing. Raises ``Unavailable``.
        """
        async with self._count_lock:
            difference = RepricingSummary()
            for day in await self._run(self._days.list_days):
                if first <= day <= last:
                    one = DayRepricing(self._layout, day, revise)
                    await asyncio.to_thread(one.prepare, self.get_size(day), dry_run=dry_run)
                    if not dry_run and one.difference.changed:
                        await self._replace_day(one)
                    difference.add(one.difference)
            return difference

    def _delete_finished_files(self, *, closing: bool = False) -> None:
        for name in self._pending.pop_finished(closing=closing):
            if self._writer:
                self._writer.delete_file(name)

    async def _replace_day(self, one: DayRepricing) -> None:
        writer = self._writer
        assert writer, "the ledger is not open"
        await writer.run_between_groups(lambda: one.replace(partial(writer.release_file, one.day)))
        await self._run(lambda: self._days.invalidate(one.day))
        self._change_count += 1

    def get_size(self, day: str) -> int | None:
        """Return the complete bytes of a day's file; None if it is not open. From any thread."""
        return self._writer.get_size(day) if self._writer else None

    async def _query(self, do: Callable[[], T]) -> T:
        return await self._run(lambda: self._days.query(do))

    async def _run(self, do: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, do)
