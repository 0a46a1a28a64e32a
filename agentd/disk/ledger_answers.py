"""What is asked of the ledger's days, and for how long an answer is remembered.

A report of closed days is the same for as long as these are: it is made once, and told page by
page from memory. What the present day adds is counted in each time. Days are asked for as those of
a time zone; where they begin at other moments than those of UTC, the days of UTC are taken apart by
the hour. Everything here blocks, and belongs to one thread.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sized
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial
from heapq import nlargest
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from msgspec import structs

from agentd.clock import Timestamp
from agentd.disk.ledger_days import Day, Days
from agentd.disk.ledger_report import Fold
from agentd.proxy import reports
from agentd.proxy.local_days import Piece, hour_at, is_utc, pieces, today_in, utc_range
from agentd.proxy.overview import Damaged, Overview
from agentd.proxy.reports import (
    EVERYTHING,
    By,
    ErrorLine,
    LeakLine,
    Only,
    Parts,
    Report,
    TimedBy,
    TimePage,
    apart,
)
from agentd.proxy.tally import Cell, Figures, Times, Totals

T = TypeVar("T")

Question: TypeAlias = tuple[object, ...]

REMEMBERED = 50_000
"""Rows of all answers that are remembered, about 20 MB; the one that was asked for longest ago
is forgotten first."""

HISTOGRAMS = 50
"""Other rows for which there is room where two full histograms are."""

TOP = 5
"""Models that an overview tells."""

ALL = slice(None)
"""All rows of a report."""


class Answers:
    """Answers questions about ``days``, which are those of a ``zone``; ``now`` is the present."""

    def __init__(
        self, days: Days, now: Callable[[], Timestamp], zone: Callable[[], tzinfo] = lambda: UTC
    ) -> None:
        self._days = days
        self._now = now
        self._zone = zone
        self._known: OrderedDict[Question, tuple[object, Any, int]] = OrderedDict()

    def totals(self, by: By, first: str, last: str, only: Only = EVERYTHING) -> Report[Totals]:
        """What the days from ``first`` to ``last`` add up to."""

        def made(parts: Parts, before: Report[Totals] | None = None) -> Report[Totals]:
            return reports.totals(by, parts, only, before)

        question = _Question(("totals", by, only), apart(by, only), by, only)
        report = self._reported(question, first, last, made)
        if by == "key" and only != EVERYTHING:
            keys = frozenset(key for key, _ in report.rows)
            return structs.replace(report, names=self._titles(keys, first, last))
        return report

    def times(
        self,
        by: TimedBy,
        first: str,
        last: str,
        only: Only = EVERYTHING,
        rows: slice = ALL,
    ) -> TimePage:
        """How long answers took: ``rows`` of the report.

        How often something answered stands elsewhere, so histograms are read of these rows alone.
        """
        each = only != EVERYTHING or apart(by)
        order = [] if each else reports.most_answered(self.totals(by, first, last))
        names = None if each else frozenset(order[rows])

        def made(parts: Parts, before: Report[Times] | None = None) -> Report[Times]:
            return reports.times(by, parts, only, before, names)

        question = _Question(("times", by, only, names), each, by, only)
        report = self._reported(question, first, last, made)
        if each:
            return TimePage(report.rows[rows], report.total, len(report.rows))
        return TimePage(report.rows, report.total, len(order))

    def errors(self, first: str, last: str, only: Only = EVERYTHING) -> list[ErrorLine]:
        """Errors by kind, the most frequent first."""
        return reports.errors(self.totals("total", first, last, only).total)

    def leaks(self, first: str, last: str) -> list[LeakLine]:
        """Secrets found, by day, key and rule, in this order."""

        def made(parts: Parts, before: list[LeakLine] | None = None) -> list[LeakLine]:
            return [*(before or ()), *reports.leaks(parts, self._titles)]

        return reports.merged(self._reported(_Question(("leaks",), True), first, last, made))

    def overview(self) -> Overview:
        """The present day and month in short, and what is damaged."""
        zone = self._zone()
        today = today_in(zone, self._now())
        if is_utc(zone):
            now = self._days.day(today)
            totals, rows = now.total.totals.copied(), now.rows("model")
        else:
            report = self.totals("model", today, today)
            totals, rows = report.total.copied(), iter(report.rows)
        top = nlargest(TOP, rows, key=lambda row: (row[1].cost, row[1].requests))
        month = self.totals("total", f"{today[:8]}01", today).total
        return Overview(
            day=today,
            today=totals,
            month=month,
            models=[(name, totals.copied()) for name, totals in top],
            damaged=[
                Damaged(day, count)
                for day in self._days.known()
                if (count := len(self._days.day(day).standing.damaged))
            ],
        )

    @property
    def _utc_today(self) -> str:
        return self._now()[:10]

    def _titles(self, keys: Collection[str], first: str, last: str) -> Mapping[str, str]:
        """The last name that each of some keys had in these days, or just beside them."""
        made = partial(reports.titles, keys)
        begin, end = utc_range(first, last, self._zone())
        question = _Question(("titles", frozenset(keys)), False)
        return self._of_utc(question, begin.date().isoformat(), _last_before(end), made)

    def _reported(self, question: "_Question", first: str, last: str, made: Callable[..., T]) -> T:
        """``made`` of some days of the zone."""
        zone = self._zone()
        if is_utc(zone):
            return self._of_utc(question, first, last, made)
        begin, end = utc_range(first, last, zone)
        asked = _Asked(question, zone, first, last)
        if question.apart:
            return self._of_pieces(asked, begin, end, made)
        return self._of_whole_days(asked, begin, end, made)

    def _of_utc(self, question: "_Question", first: str, last: str, made: Callable[..., T]) -> T:
        """``made`` of the closed days of UTC, as remembered, and then of the others."""
        today = self._utc_today
        before = None
        if first < today:
            end = min(last, _day_before(today))
            before = self._remembered(
                (*question.what, first, end),
                first,
                end,
                lambda: made(
                    self._days.between(first, end)
                    if question.apart
                    else self._days.cover(first, end)
                ),
            )
            if last < today:
                return before
        return made(self._days.between(max(first, today), last), before)

    def _of_pieces(
        self, asked: "_Asked", begin: datetime, end: datetime, made: Callable[..., T]
    ) -> T:
        """``made`` of each local day by itself: of the parts of all days of UTC that it is in."""
        first, last = begin.date().isoformat(), _last_before(end)
        known = [day for day in self._days.known() if first <= day <= last]
        closed = [day for day in known if day < self._utc_today]
        before = None
        if closed:
            what = (*asked.question.what, "in", str(asked.zone), asked.first, asked.last)
            before = self._remembered(
                what, closed[0], closed[-1], lambda: made(self._cut(closed, asked))
            )
            if closed == known:
                return before
        return made(self._cut(known[len(closed) :], asked), before)

    def _of_whole_days(
        self, asked: "_Asked", begin: datetime, end: datetime, made: Callable[..., T]
    ) -> T:
        """``made`` of the days of UTC that are whole in these local ones, and then of the rest."""
        first, last = _first_from(begin), _day_before(end.date().isoformat())
        edges = {begin.date().isoformat(), _last_before(end)}
        before = None
        if first <= last:
            before = self._of_utc(asked.question, first, last, made)
            edges = {day for day in edges if not first <= day <= last}
        days = [day for day in self._days.known() if day in edges]
        return made(self._cut(days, asked), before) if days or before is None else before

    def _cut(self, utc_days: Iterable[str], asked: "_Asked") -> list[tuple[str, Fold]]:
        """What of some days of UTC is in the local ones, each piece with its local date."""
        cut = pieces(utc_days, asked.first, asked.last, asked.zone)
        return [(piece.local_day, self._piece(piece, asked)) for piece in cut]

    def _piece(self, piece: Piece, asked: "_Asked") -> Fold:
        """What of a day of UTC is in a piece of it; that of closed days is remembered."""
        day, question = self._days.day(piece.utc_day), asked.question
        if piece.utc_day >= self._utc_today:
            return cut_out(day, piece, asked.zone, question.only, by_hour=question.by_hour)
        what = ("piece", piece, str(asked.zone), question.only, question.by_hour)
        return self._remembered(
            what,
            piece.utc_day,
            piece.utc_day,
            lambda: cut_out(day, piece, asked.zone, question.only, by_hour=question.by_hour),
        )

    def _remembered(self, question: Question, first: str, last: str, make: Callable[[], T]) -> T:
        """What was made of closed days of UTC, as long as these are what they were."""
        version = self._days.version(first, last)
        known = self._known.get(question)
        if known and known[0] == version:
            self._known.move_to_end(question)
            return cast("T", known[1])
        answer = make()
        self._known[question] = version, answer, _size(answer)
        while len(self._known) > 1 and sum(one[2] for one in self._known.values()) > REMEMBERED:
            self._known.popitem(last=False)
        return answer


class _Question(NamedTuple):
    """What is asked of days; ``apart``: of each by itself."""

    what: Question
    apart: bool
    by: str = ""
    only: Only = EVERYTHING

    @property
    def by_hour(self) -> bool:
        """Whether the hours of a day tell all that is asked."""
        return self.only == EVERYTHING and self.by in ("total", "day", "hour")


class _Asked(NamedTuple):
    """A question about the days of a zone."""

    question: _Question
    zone: tzinfo
    first: str
    last: str


def cut_out(day: Day, piece: Piece, zone: tzinfo, only: Only, *, by_hour: bool) -> Fold:
    """What of a day of UTC is in a piece of it, by the hours of the zone.

    ``by_hour`` tells the totals alone, from little. A slot that began before belongs to what it
    began in: so where a day's requests are gone that were counted for a zone of other hours.
    """
    fold = Fold(piece.local_day)
    for cell, figures in _hours(day) if by_hour else day.cells(only):
        hour, _, minute = cell.hour.partition(":")
        midnight = datetime.fromisoformat(piece.utc_day).replace(tzinfo=UTC)
        at = midnight + timedelta(hours=int(hour), minutes=int(minute or 0))
        if piece.begin <= at < piece.end:
            fold.tally.count(cell._replace(hour=hour_at(at, zone)), figures)
    fold.tally.names = dict(day.names())
    return fold


def _hours(day: Day) -> Iterator[tuple[Cell, Figures]]:
    times = dict(day.times("hour"))
    for hour, totals in day.rows("hour"):
        yield Cell(hour, "", "", ""), Figures(totals, times.get(hour, Times()))


def _first_from(begin: datetime) -> str:
    """The first day of UTC that begins at a moment or later."""
    whole = begin.time() == datetime.min.time()
    return (begin.date() + timedelta(days=not whole)).isoformat()


def _last_before(end: datetime) -> str:
    """The last day of UTC that begins before a moment."""
    return (end - timedelta(microseconds=1)).date().isoformat()


def _day_before(day: str) -> str:
    return (date.fromisoformat(day) - timedelta(days=1)).isoformat()


def _size(answer: object) -> int:
    if isinstance(answer, Fold):
        return len(answer.tally.cells)
    if not isinstance(answer, Report):
        return len(cast("Sized", answer))
    return len(answer.rows) * (HISTOGRAMS if isinstance(answer.total, Times) else 1)
