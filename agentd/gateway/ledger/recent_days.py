"""The current day beside the one before, and the month up to now: what a first look shows.

It is asked for after each request, so nothing is added up twice: sums of closed days are kept, the
current day grows with its requests, and a median is computed anew only where a request was added.
Everything here blocks, and belongs to one thread.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import tzinfo
from heapq import nlargest
from operator import itemgetter
from typing import NamedTuple, TypeAlias, TypeVar

from agentd.core.clock import Timestamp
from agentd.core.local_days import get_today, get_utc_range, is_utc, split_utc_days
from agentd.core.quantile import estimate_quantiles
from agentd.gateway.ledger.daily_reports import DailyReports, DayReport
from agentd.gateway.ledger.daily_totals import RequestTotals, ResponseTimes
from agentd.gateway.ledger.day_report import DayFold
from agentd.gateway.ledger.local_day import GrowingDay, get_day_before
from agentd.gateway.reports import reports
from agentd.gateway.reports.overview import DayFigures
from agentd.gateway.reports.reports import GroupBy, ReportTable

TOP_MODELS = 5
"""Number of models in an overview."""

TEN_SECONDS = len("2026-01-31T07:30:0")
"""The length of a moment without its last digit of seconds."""

T = TypeVar("T", RequestTotals, ResponseTimes)

GetTotals: TypeAlias = Callable[[GroupBy, str, str], ReportTable[RequestTotals]]


class TodayTotals(NamedTuple):
    """The current day and month."""

    day: str
    today: RequestTotals
    month: RequestTotals
    models: list[tuple[str, RequestTotals]]
    """The models with the highest cost."""


class RecentDays:
    """The recent days of ``days``; ``get_totals`` makes reports of closed ones."""

    def __init__(
        self,
        days: DailyReports,
        now: Callable[[], Timestamp],
        zone: Callable[[], tzinfo],
        get_totals: GetTotals,
    ) -> None:
        self._days = days
        self._now = now
        self._zone = zone
        self._get_totals = get_totals
        self._current: _CurrentDay | None = None

    def get_totals(self) -> TodayTotals:
        """Return the current day and month."""
        current = self._find_current()
        today, month = (current.report.total.totals.copy() for _ in range(2))
        month.add(self._get_closed(current).month)
        models = current.report.iter_rows("model")
        top = nlargest(TOP_MODELS, models, key=lambda row: (row[1].cost, row[1].requests))
        return TodayTotals(current.day, today, month, [(name, row.copy()) for name, row in top])

    def get_figures(self) -> DayFigures:
        """Return the current day beside the one before."""
        current = self._find_current()
        before = self._get_closed(current).yesterday
        report, day = current.report, current.day
        hours = _merge_slots(day, report.iter_rows("hour"), RequestTotals)
        channels = {name: row.copy() for name, row in report.iter_rows("channel")}
        return DayFigures(
            day=day,
            yesterday=before.total.copy(),
            hours=[*((name, row.copy()) for name, row in before.rows), *hours.items()],
            hour_medians=current.hour_medians.find(
                hours,
                lambda names: _merge_slots(day, report.iter_times("hour"), ResponseTimes, names),
            ),
            first_token=reports.build_latency_row("", report.total.times).first_token,
            channels=sorted(channels.items(), key=lambda row: -row[1].requests),
            channel_medians=current.channel_medians.find(
                channels, lambda names: dict(report.iter_times("channel", names))
            ),
        )

    def _find_current(self) -> "_CurrentDay":
        """Return the current day, as it is now; cut anew once its UTC days are other ones."""
        zone, now = self._zone(), self._now()
        today = get_today(zone, now)
        sources = self._find_sources(today, zone, now[:10])
        known = self._current
        if known is None or not known.is_of(today, zone, sources):
            known = self._current = _CurrentDay(today, zone, sources)
        for one in sources.values():
            _ = one.total  # what was read of it is added to what grows with it
        return known

    def _find_sources(self, today: str, zone: tzinfo, utc_today: str) -> dict[str, DayReport]:
        """Return the UTC days that the current day and the one before overlap, if they exist."""
        begin, end = get_utc_range(get_day_before(today), today, zone)
        first, last = begin.date().isoformat(), end.date().isoformat()
        days = {day for day in self._days.list_days() if first <= day <= last}
        return {day: self._days.get_day(day) for day in sorted({*days, utc_today})}

    def _get_closed(self, current: "_CurrentDay") -> "_ClosedDays":
        """Return the days before the current one.

        What repricing and requests that began on the day before change there is known at once;
        whether somebody replaced a file is looked at every 10 seconds.
        """
        version = self._now()[:TEN_SECONDS], current.late, self._days.replacements
        if current.closed is None or current.closed[0] != version:
            before, begin = get_day_before(current.day), f"{current.day[:8]}01"
            month = RequestTotals()
            if begin < current.day:
                month = self._get_totals("total", begin, before).total
            hours = self._get_totals("hour", before, before)
            current.closed = version, _ClosedDays(hours, month)
        return current.closed[1]


class _ClosedDays(NamedTuple):
    """Totals of closed days, which only late requests change."""

    yesterday: ReportTable[RequestTotals]
    """The hours of the day before."""
    month: RequestTotals
    """The totals of the current month before the current day."""


class _CurrentDay:
    """The current day of a zone; ``sources`` are the UTC days of it and of the day before."""

    def __init__(self, day: str, zone: tzinfo, sources: Mapping[str, DayReport]) -> None:
        self.day = day
        self.hour_medians, self.channel_medians = _Medians(), _Medians()
        self.closed: tuple[object, _ClosedDays] | None = None
        """The days before it, and the version that they have."""
        self._zone = zone
        self._sources = sources
        self._growing: GrowingDay | None = None
        for one in sources.values():
            if isinstance(one, DayFold):
                one.totals.on_merged = None
        if not is_utc(zone):
            pieces = split_utc_days(sources, day, day, zone)
            self._growing = GrowingDay(day, zone, [(sources[one.utc_day], one) for one in pieces])

    def is_of(self, day: str, zone: tzinfo, sources: Mapping[str, DayReport]) -> bool:
        """Return whether it is this day of the zone, made of the same objects."""
        return (
            (self.day, self._zone) == (day, zone)
            and self._sources.keys() == sources.keys()
            and all(sources[one] is self._sources[one] for one in sources)
        )

    @property
    def report(self) -> DayReport:
        """The day; its hours may be slots where the zone is UTC."""
        return self._growing.fold if self._growing else self._sources[self.day]

    @property
    def late(self) -> int:
        """Differs once its UTC days got requests of the day before."""
        return self._growing.late if self._growing else 0


class _Medians:
    """The medians of the times to the first token in rows of a day, which only grow."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, float | None]] = {}

    def find(
        self,
        rows: Mapping[str, RequestTotals],
        get_times: Callable[[Collection[str]], Mapping[str, ResponseTimes]],
    ) -> dict[str, float | None]:
        """Return the median of each row; those to which no request was added are known."""
        grown = [name for name, row in rows.items() if self._count(name) != row.requests]
        if grown:
            times = get_times(grown)
            for name in grown:
                first = times[name].first if name in times else {}
                median = estimate_quantiles(first, (0.5,))[0]
                self._known[name] = rows[name].requests, median
        return {name: self._known[name][1] for name in rows}

    def _count(self, name: str) -> int:
        return self._known[name][0] if name in self._known else -1


def _merge_slots(
    day: str,
    rows: Iterable[tuple[str, T]],
    make: Callable[[], T],
    only: Collection[str] | None = None,
) -> dict[str, T]:
    """Return the hours of a day, such as ``2026-01-31T07``, of hours or of slots of them."""
    hours: dict[str, T] = {}
    for slot, row in sorted(rows, key=itemgetter(0)):
        name = f"{day}T{slot[:2]}"
        if only is None or name in only:
            hours.setdefault(name, make()).add(row)
    return hours
