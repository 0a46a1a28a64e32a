"""What is asked of the ledger's days, and for how long an answer is remembered.

A report of closed days is the same for as long as these are: it is made once, and told page by
page from memory. What the present day adds is counted in each time. Everything here blocks, and
belongs to one thread.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sized
from datetime import date, timedelta
from functools import partial
from heapq import nlargest
from typing import Any, TypeAlias, TypeVar, cast

from msgspec import structs

from agentd.disk.ledger_days import Days
from agentd.proxy import reports
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
from agentd.proxy.tally import Times, Totals

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
    """Answers questions about ``days``; the present one is ``today``."""

    def __init__(self, days: Days, today: Callable[[], str]) -> None:
        self._days = days
        self._today = today
        self._known: OrderedDict[Question, tuple[object, Any, int]] = OrderedDict()

    def totals(self, by: By, first: str, last: str, only: Only = EVERYTHING) -> Report[Totals]:
        """What the days from ``first`` to ``last`` add up to."""

        def made(parts: Parts, before: Report[Totals] | None = None) -> Report[Totals]:
            return reports.totals(by, parts, only, before)

        report = self._reported(("totals", by, only), first, last, made, apart=apart(by, only))
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

        report = self._reported(("times", by, only, names), first, last, made, apart=each)
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

        return self._reported(("leaks",), first, last, made, apart=True)

    def overview(self) -> Overview:
        """The present day and month in short, and what is damaged."""
        today = self._today()
        now = self._days.day(today)
        top = nlargest(TOP, now.rows("model"), key=lambda row: (row[1].cost, row[1].requests))
        month = self.totals("total", f"{today[:8]}01", today).total
        return Overview(
            day=today,
            today=now.total.totals.copied(),
            month=month,
            models=[(name, totals.copied()) for name, totals in top],
            damaged=[
                Damaged(day, count)
                for day in self._days.known()
                if (count := len(self._days.day(day).standing.damaged))
            ],
        )

    def _titles(self, keys: Collection[str], first: str, last: str) -> Mapping[str, str]:
        """The last name that each of some keys had in these days."""
        made = partial(reports.titles, keys)
        return self._reported(("titles", frozenset(keys)), first, last, made, apart=False)

    def _reported(
        self, what: Question, first: str, last: str, made: Callable[..., T], *, apart: bool
    ) -> T:
        """``made`` of the closed days, as remembered, and then of those that are not closed."""
        today = self._today()
        if last < today:
            return self._closed((*what, first, last), first, last, made, apart=apart)
        before = None
        if first < today:
            end = _day_before(today)
            before = self._closed((*what, first, end), first, end, made, apart=apart)
        return made(self._days.between(max(first, today), last), before)

    def _closed(
        self, question: Question, first: str, last: str, made: Callable[..., T], *, apart: bool
    ) -> T:
        version = self._days.version(first, last)
        known = self._known.get(question)
        if known and known[0] == version:
            self._known.move_to_end(question)
            return cast("T", known[1])
        answer = made(self._days.between(first, last) if apart else self._days.cover(first, last))
        self._known[question] = version, answer, _size(answer)
        while len(self._known) > 1 and sum(one[2] for one in self._known.values()) > REMEMBERED:
            self._known.popitem(last=False)
        return answer


def _day_before(day: str) -> str:
    return (date.fromisoformat(day) - timedelta(days=1)).isoformat()


def _size(answer: object) -> int:
    if not isinstance(answer, Report):
        return len(cast("Sized", answer))
    return len(answer.rows) * (HISTOGRAMS if isinstance(answer.total, Times) else 1)
