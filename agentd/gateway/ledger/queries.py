"""Queries over the ledger's days, and the cache of their results.

A report does not change while its days do not: it is computed once, and its pages are served from
memory. When the current day has changed, only that is added anew. Days are those of a time zone;
where they begin at other times than those of UTC, the days of UTC are split by the hour. Everything
here blocks, and belongs to one thread.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sized
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from msgspec import structs

from agentd.core.clock import Timestamp
from agentd.core.local_days import (
    DayPiece,
    get_utc_range,
    is_utc,
    split_utc_days,
)
from agentd.gateway.ledger.daily_reports import DailyReports
from agentd.gateway.ledger.daily_totals import RequestTotals, ResponseTimes
from agentd.gateway.ledger.day_report import DayFold
from agentd.gateway.ledger.local_day import cut_day, get_day_before
from agentd.gateway.ledger.recent_days import TEN_SECONDS, RecentDays
from agentd.gateway.reports import reports
from agentd.gateway.reports.overview import CorruptDay, DayFigures, LedgerOverview
from agentd.gateway.reports.reports import (
    EVERYTHING,
    GroupBy,
    LeakRow,
    ReportFilter,
    ReportSources,
    ReportTable,
    TimedGroupBy,
    TimePage,
    needs_each_day,
)

T = TypeVar("T")

CacheKey: TypeAlias = tuple[object, ...]

MAX_CACHED_ROWS = 50_000
"""Rows of all answers that are remembered, about 20 MB; the one that was asked for longest ago
is forgotten first."""

HISTOGRAM_WEIGHT = 50
"""Other rows for which there is room where two full histograms are."""

ALL_ROWS = slice(None)
"""All rows of a report."""


class LedgerQueries:
    """Answers questions about ``days``, which are those of a ``zone``; ``now`` is the present."""

    def __init__(
        self,
        days: DailyReports,
        now: Callable[[], Timestamp],
        zone: Callable[[], tzinfo] = lambda: UTC,
    ) -> None:
        self._days = days
        self._now = now
        self._zone = zone
        self._corrupt = _CorruptDays(days)
        self._recent = RecentDays(days, now, zone, self.get_totals)
        self._cache: OrderedDict[CacheKey, tuple[object, Any, int]] = OrderedDict()

    def get_totals(
        self, by: GroupBy, first: str, last: str, only: ReportFilter = EVERYTHING
    ) -> ReportTable[RequestTotals]:
        """Return the totals of the days from ``first`` to ``last``."""

        def build_part(
            parts: ReportSources, before: ReportTable[RequestTotals] | None = None
        ) -> ReportTable[RequestTotals]:
            return reports.build_totals(by, parts, only, before)

        question = _Question(("totals", by, only), needs_each_day(by, only), by, only)
        report = self._report(question, first, last, build_part)
        if by == "key" and only != EVERYTHING:
            keys = frozenset(key for key, _ in report.rows)
            return structs.replace(report, names=self._find_key_names(keys, first, last))
        return report

    def get_times(
        self,
        by: TimedGroupBy,
        first: str,
        last: str,
        only: ReportFilter = EVERYTHING,
        rows: slice = ALL_ROWS,
    ) -> TimePage:
        """Return response times: ``rows`` of the report.

        How often something answered stands elsewhere, so histograms are read of these rows alone.
        """
        each = needs_each_day(by, only, timed=True)
        if each:
            report = self._get_times_of(by, first, last, only)
            return TimePage(report.rows[rows], report.total, len(report.rows))
        order = reports.rank_by_answers(self.get_totals(by, first, last))
        report = self._get_times_of(by, first, last, only, frozenset(order[rows]))
        return TimePage(report.rows, report.total, len(order))

    def get_day_figures(self) -> DayFigures:
        """Return the current day beside the one before."""
        return self._recent.get_figures()

    def get_leaks(self, first: str, last: str, only: ReportFilter = EVERYTHING) -> list[LeakRow]:
        """Return the secrets found by day, key and rule, in this order."""

        def build_part(parts: ReportSources, before: list[LeakRow] | None = None) -> list[LeakRow]:
            return [*(before or ()), *reports.list_leaks(parts, self._find_key_names, only)]

        question = _Question(("leaks", only), True, only=only)
        return reports.merge_leaks(self._report(question, first, last, build_part))

    def get_overview(self) -> LedgerOverview:
        """Return the present day and month in short, and what is damaged."""
        recent = self._recent.get_totals()
        return LedgerOverview(*recent, corrupt_days=self._corrupt.find(self._now()))

    def _get_times_of(
        self,
        by: TimedGroupBy,
        first: str,
        last: str,
        only: ReportFilter = EVERYTHING,
        names: frozenset[str] | None = None,
    ) -> ReportTable[ResponseTimes]:
        """Return the response times of some days, or those of some ``names`` alone."""

        def build_part(
            parts: ReportSources, before: ReportTable[ResponseTimes] | None = None
        ) -> ReportTable[ResponseTimes]:
            return reports.build_times(by, parts, only, before, names)

        each = needs_each_day(by, only, timed=True)
        question = _Question(("times", by, only, names), each, by, only)
        return self._report(question, first, last, build_part)

    @property
    def _utc_today(self) -> str:
        return self._now()[:10]

    def _find_key_names(self, keys: Collection[str], first: str, last: str) -> Mapping[str, str]:
        """Return the last name that each of some keys had in these days, or just beside them."""
        made = partial(reports.find_key_names, keys)
        question = _Question(("titles", frozenset(keys)), False)
        return self._report_utc(question, *_find_utc_days(first, last, self._zone()), made)

    def _report(self, question: "_Question", first: str, last: str, made: Callable[..., T]) -> T:
        """Return ``made`` of some days of the zone, from the cache if none of them changed."""
        zone = self._zone()
        begin, end = first, last
        if not is_utc(zone):
            begin, end = _find_utc_days(first, last, zone)
        if end < self._utc_today:
            return self._report_days(question, first, last, made)
        return self._get_cached(
            (*question.what, "now", str(zone), first, last),
            begin,
            end,
            lambda: self._report_days(question, first, last, made),
        )

    def _report_days(
        self, question: "_Question", first: str, last: str, made: Callable[..., T]
    ) -> T:
        zone = self._zone()
        if is_utc(zone):
            return self._report_utc(question, first, last, made)
        begin, end = get_utc_range(first, last, zone)
        zoned = _ZonedQuestion(question, zone, first, last)
        if question.apart:
            return self._report_pieces(zoned, begin, end, made)
        return self._report_whole_days(zoned, begin, end, made)

    def _report_utc(
        self, question: "_Question", first: str, last: str, made: Callable[..., T]
    ) -> T:
        """Return ``made`` of the closed UTC days, from the cache, and then of the others."""
        today = self._utc_today
        before = None
        if first < today:
            end = min(last, get_day_before(today))
            before = self._get_cached(
                (*question.what, first, end),
                first,
                end,
                lambda: made(
                    self._days.iter_days(first, end)
                    if question.apart
                    else self._days.iter_sources(first, end)
                ),
            )
            if last < today:
                return before
        return made(self._days.iter_days(max(first, today), last), before)

    def _report_pieces(
        self, zoned: "_ZonedQuestion", begin: datetime, end: datetime, made: Callable[..., T]
    ) -> T:
        """Return ``made`` of each local day, from the parts of all UTC days that it overlaps."""
        first, last = begin.date().isoformat(), _find_last_day(end)
        known = [day for day in self._days.list_days() if first <= day <= last]
        closed = [day for day in known if day < self._utc_today]
        before = None
        if closed:
            what = (*zoned.question.what, "in", str(zoned.zone), zoned.first, zoned.last)
            before = self._get_cached(
                what, closed[0], closed[-1], lambda: made(self._cut_days(closed, zoned))
            )
            if closed == known:
                return before
        return made(self._cut_days(known[len(closed) :], zoned), before)

    def _report_whole_days(
        self, zoned: "_ZonedQuestion", begin: datetime, end: datetime, made: Callable[..., T]
    ) -> T:
        """Return ``made`` of the UTC days within these local ones, and then of the rest."""
        first, last = _find_first_day(begin), get_day_before(end.date().isoformat())
        edges = {begin.date().isoformat(), _find_last_day(end)}
        before = None
        if first <= last:
            before = self._report_utc(zoned.question, first, last, made)
            edges = {day for day in edges if not first <= day <= last}
        days = [day for day in self._days.list_days() if day in edges]
        return made(self._cut_days(days, zoned), before) if days or before is None else before

    def _cut_days(
        self, utc_days: Iterable[str], zoned: "_ZonedQuestion"
    ) -> list[tuple[str, DayFold]]:
        """Cut UTC days into local days; return each piece with its local date."""
        cut = split_utc_days(utc_days, zoned.first, zoned.last, zoned.zone)
        return [(piece.local_day, self._cut_piece(piece, zoned)) for piece in cut]

    def _cut_piece(self, piece: DayPiece, zoned: "_ZonedQuestion") -> DayFold:
        """Return the totals of a piece of a UTC day; those of closed days are cached."""
        day, question = self._days.get_day(piece.utc_day), zoned.question
        if piece.utc_day >= self._utc_today:
            return cut_day(day, piece, zoned.zone, question.only, by_hour=question.by_hour)
        what = ("piece", piece, str(zoned.zone), question.only, question.by_hour)
        return self._get_cached(
            what,
            piece.utc_day,
            piece.utc_day,
            lambda: cut_day(day, piece, zoned.zone, question.only, by_hour=question.by_hour),
        )

    def _get_cached(self, question: CacheKey, first: str, last: str, make: Callable[[], T]) -> T:
        """Return a result over closed UTC days from the cache while their reports are unchanged."""
        version = self._days.get_version(first, last)
        known = self._cache.get(question)
        if known and known[0] == version:
            self._cache.move_to_end(question)
            return cast("T", known[1])
        answer = make()
        self._cache[question] = version, answer, _get_weight(answer)
        while (
            len(self._cache) > 1 and sum(one[2] for one in self._cache.values()) > MAX_CACHED_ROWS
        ):
            self._cache.popitem(last=False)
        return answer


class _CorruptDays:
    """Finds the days with corrupt lines; in closed ones at most every 10 seconds."""

    def __init__(self, days: DailyReports) -> None:
        self._days = days
        self._known: tuple[str, list[CorruptDay]] | None = None

    def find(self, now: Timestamp) -> list[CorruptDay]:
        """Return the days that are damaged, in order."""
        moment, today = now[:TEN_SECONDS], now[:10]
        if self._known is None or self._known[0] != moment:
            closed = (day for day in self._days.list_days() if day < today)
            self._known = moment, list(self._iter_corrupt(closed))
        return [*self._known[1], *self._iter_corrupt((today,))]

    def _iter_corrupt(self, days: Iterable[str]) -> Iterator[CorruptDay]:
        for day in days:
            if count := len(self._days.get_day(day).position.corrupt_lines):
                yield CorruptDay(day, count)


class _Question(NamedTuple):
    """A query over days; ``apart``: to each day separately."""

    what: CacheKey
    apart: bool
    by: str = ""
    only: ReportFilter = EVERYTHING

    @property
    def by_hour(self) -> bool:
        """True if the hours of a day suffice for the question."""
        return self.only == EVERYTHING and self.by in ("total", "day", "hour")


class _ZonedQuestion(NamedTuple):
    """A question about the days of a zone."""

    question: _Question
    zone: tzinfo
    first: str
    last: str


def _find_first_day(begin: datetime) -> str:
    """Return the first day of UTC that begins at a moment or later."""
    whole = begin.time() == datetime.min.time()
    return (begin.date() + timedelta(days=not whole)).isoformat()


def _find_utc_days(first: str, last: str, zone: tzinfo) -> tuple[str, str]:
    """Return the first and the last day of UTC that some local days overlap."""
    begin, end = get_utc_range(first, last, zone)
    return begin.date().isoformat(), _find_last_day(end)


def _find_last_day(end: datetime) -> str:
    """Return the last day of UTC that begins before a moment."""
    return (end - timedelta(microseconds=1)).date().isoformat()


def _get_weight(answer: object) -> int:
    if isinstance(answer, DayFold):
        return len(answer.totals.cells)
    if not isinstance(answer, ReportTable):
        return len(cast("Sized", answer))
    return len(answer.rows) * (HISTOGRAM_WEIGHT if isinstance(answer.total, ResponseTimes) else 1)
