"""Reports of the gateway's requests: sums, shares and quantiles.

Days and hours are those of the parts that a report is made of. A report is computed as a whole and
rendered line by line, so that a page of a long one costs no more than a page of a short one. A
report filtered (``ReportFilter``) by more than one side is made from the cells of each day.

Owners and tags are those that keys had when the requests were made (``ledger.daily_totals.Cell``).
A request counts in each tag of its key, so rows by tag may add up to more than the total, which
counts it once.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from agentd.core.quantile import Histogram, estimate_quantiles
from agentd.gateway.ledger.columns import ColumnTable, RankedRows, add_tables
from agentd.gateway.ledger.daily_totals import (
    DIMENSIONS,
    GROUPS,
    Cell,
    Dimension,
    Figures,
    RequestTotals,
    ResponseTimes,
)

GroupBy: TypeAlias = Literal["total", "day", "hour", "model", "channel", "key", "owner", "tag"]
TimedGroupBy: TypeAlias = Literal["total", "day", "hour", "model", "channel", "owner", "tag"]

_DIMENSIONS: Mapping[GroupBy, Dimension] = {side: side for side in DIMENSIONS}
_FILTERED: tuple[Dimension, ...] = ("model", "channel", "key", *GROUPS)
"""The sides that a report can be filtered by, and the groupings whose rows are ranked."""

R = TypeVar("R", RequestTotals, ResponseTimes)


class ReportSource(Protocol):
    """A query of a day, or of several days if it does not matter which.

    The result must not be changed: it may be an object that is still being counted.
    """

    @property
    def total(self) -> Figures:
        """All requests, added up."""
        ...

    def get_key_names(self, keys: Collection[str] | None = None) -> Mapping[str, str]:
        """Return the last name of each key, or of some."""
        ...

    def iter_rows(self, side: Dimension) -> Iterator[tuple[str, RequestTotals]]:
        """Iterate over all rows of one dimension, each name once."""
        ...

    def get_columns(self, side: Dimension) -> ColumnTable:
        """Return the same as ``rows``, for the sides that may have many."""
        ...

    def iter_times(
        self, side: Dimension, names: Collection[str] | None = None
    ) -> Iterator[tuple[str, ResponseTimes]]:
        """Iterate over response times by a dimension of ``TIMED_DIMENSIONS``, or of some names."""
        ...

    def get_row(self, side: Dimension, name: str) -> RequestTotals | None:
        """Return a row of a dimension."""
        ...

    def iter_cells(self, only: "ReportFilter") -> Iterator[tuple[Cell, Figures]]:
        """Iterate over the cells of the filter; a source of several days has none."""
        ...

    def iter_leaks(self, only: "ReportFilter") -> Iterator[tuple[str, str, int]]:
        """Iterate over the secrets that were found: key, rule and how many; only of a day."""
        ...


ReportSources: TypeAlias = Iterable[tuple[str, ReportSource]]
"""Each with its (first) date, such as ``2026-01-31``, in order."""


class ReportFilter(Struct, frozen=True):
    """The filter of a report; empty fields match everything."""

    model: str = ""
    channel: str = ""
    key: str = ""
    owner: str = ""
    tag: str = ""

    def matches(self, cell: Cell) -> bool:
        """Return whether the row is requested."""
        return (
            self.model in ("", cell.model)
            and self.channel in ("", cell.channel)
            and self.key in ("", cell.key)
            and self.owner in ("", cell.owner)
            and self.tag in ("", *cell.tags)
        )

    def find_row(self, by: GroupBy) -> tuple[Dimension, str] | None:
        """Return the row that answers this filter alone, if there is one."""
        filters = [(side, getattr(self, side)) for side in _FILTERED if getattr(self, side)]
        if len(filters) == 1 and by in ("total", "day", filters[0][0]):
            return filters[0]
        return None


EVERYTHING = ReportFilter()


class ReportTable(Struct, Generic[R], frozen=True):
    """Rows in order, and their total."""

    rows: Sequence[tuple[str, R]]
    total: R
    names: Mapping[str, str]
    """The last name of each key, where rows are keys."""


class TimePage(Struct, frozen=True):
    """A page of rows of a report of times, and what all of them add up to."""

    rows: Sequence[tuple[str, ResponseTimes]]
    total: ResponseTimes
    of: int
    """The total number of rows."""


class ReportRow(Struct, frozen=True):
    """A row of a report: the number, usage and cost of some requests."""

    name: str
    """The day, the hour (``2026-01-31T07``), the model, the channel, the key's id, the owner or the
    tag; empty: all, or none."""
    title: str
    """A key's name."""
    requests: int
    """The number of requests, whatever their outcome."""
    ok: int
    """The number of successful requests."""
    streams: int
    """The number of streamed requests."""
    estimated: int
    """The number of requests whose usage or price is estimated."""
    input: int
    """Uncached input tokens."""
    cache_read: int
    """Input tokens read from suppliers' caches."""
    cache_write: int
    """Input tokens written to suppliers' caches."""
    output: int
    """Tokens that were written."""
    reasoning: int
    """Tokens that were thought."""
    cost: Decimal
    """USD, exactly."""
    cache_share: float | None
    """The share of input tokens that were in the supplier's cache; ``None`` if there were none."""
    received: int
    """Bytes of the requests."""
    sent: int
    """Bytes of the responses."""
    hidden: int
    """Secrets that were found."""


class Quantiles(Struct, frozen=True):
    """Milliseconds, to within 1 %; ``None`` of nothing."""

    p50: float | None
    """Half took no longer."""
    p95: float | None
    """95 of 100 took no longer."""
    p99: float | None
    """99 of 100 took no longer."""


class LatencyRow(Struct, frozen=True):
    """The response times of a day, an hour, a model, a channel, an owner, a tag, or in total."""

    name: str
    """The name of the row's group, according to `by`."""
    answers: int
    """The number of successful requests."""
    latency: Quantiles
    """The times until the end of the response."""
    first_token: Quantiles
    """The times until the first piece of an answer, however it ended."""


class ErrorRow(Struct, frozen=True):
    """The number of errors of one kind."""

    error: str
    """The kind, as in the request log."""
    requests: int
    """The number of requests with this error."""


class LeakRow(Struct, frozen=True):
    """The number of secrets in a key's requests on a day, by the rule that found them."""

    day: str
    """The day in the time zone of the limits."""
    key: str
    """The access key's id."""
    title: str
    """The key's name."""
    rule: str
    """The rule that found them."""
    count: int
    """The number found in new text: a text that a key sends repeatedly counts once."""


def needs_each_day(by: GroupBy, only: ReportFilter = EVERYTHING, *, timed: bool = False) -> bool:
    """Return whether a report is made from each day separately: by need, or as cheaply."""
    if timed and (by in GROUPS or only != EVERYTHING):
        return True  # their times stand in cells alone
    if only == EVERYTHING:
        return by in ("total", "day", "hour")  # all of a day in one stands in its head
    return by in ("day", "hour") or only.find_row(by) is None


def build_totals(
    by: GroupBy,
    parts: ReportSources,
    only: ReportFilter = EVERYTHING,
    before: ReportTable[RequestTotals] | None = None,
) -> ReportTable[RequestTotals]:
    """Build a report: days and hours in order, everything else by cost, highest first.

    ``before`` is the same report of earlier days; it is not modified. A filtered report has no
    names of keys: the caller adds them with ``find_key_names``.
    """
    if only == EVERYTHING and by in _FILTERED:
        return _build_ranked(_DIMENSIONS[by], parts, before)
    groups = (
        (_iter_totals(by, date, part, only), part.total.totals if only == EVERYTHING else None)
        for date, part in parts
    )
    found, total = _add_up(groups, before, _NO_TOTALS)
    if by in ("day", "hour"):
        return ReportTable(sorted(found.items()), total, {})
    ordered = sorted(found.items(), key=lambda row: (-row[1].cost, -row[1].requests, row[0]))
    return ReportTable(ordered, total, {})


def find_key_names(
    keys: Collection[str], parts: ReportSources, before: Mapping[str, str] | None = None
) -> Mapping[str, str]:
    """Return the last name of each of some keys; ``before`` are those of earlier days."""
    found, nameless = dict[str, str](), set(keys)
    for _, part in reversed(list(parts)):
        if nameless:
            found |= part.get_key_names(nameless)
            nameless -= found.keys()
    return {**(before or {}), **found}


def rank_by_answers(report: ReportTable[RequestTotals]) -> list[str]:
    """Return the names of a report by model or channel in the order of ``build_times``."""
    of = _get_columns(report)
    return [of.names[number] for number in of.rank("ok")]  # each is an answer that took its time


def build_times(
    by: TimedGroupBy,
    parts: ReportSources,
    only: ReportFilter = EVERYTHING,
    before: ReportTable[ResponseTimes] | None = None,
    names: Collection[str] | None = None,
) -> ReportTable[ResponseTimes]:
    """Build the report of times: hours in order, everything else by number of requests, descending.

    Of a report of everything, the rows may be those of some ``names`` alone.
    """
    groups = (
        (_iter_times(by, date, part, only, names), part.total.times if only == EVERYTHING else None)
        for date, part in parts
    )
    found, total = _add_up(groups, before, _NO_TIMES)
    if by in ("day", "hour"):
        return ReportTable(sorted(found.items()), total, {})
    ordered = sorted(found.items(), key=lambda row: (-sum(row[1].took.values()), row[0]))
    return ReportTable(ordered, total, {})


def list_errors(total: RequestTotals) -> list[ErrorRow]:
    """List the errors by kind, the most frequent first."""
    made = [ErrorRow(kind, count) for kind, count in total.errors.items()]
    return sorted(made, key=lambda line: (-line.requests, line.error))


def list_leaks(
    parts: ReportSources,
    named: Callable[[Collection[str], str, str], Mapping[str, str]],
    only: ReportFilter = EVERYTHING,
) -> list[LeakRow]:
    """List the secrets found by day, key and rule, in this order.

    ``named`` returns the last name of each of some keys in a span of days.
    """
    counts: dict[tuple[str, str, str], int] = {}
    for date, part in parts:
        for key, rule, many in part.iter_leaks(only):
            counts[date, key, rule] = counts.get((date, key, rule), 0) + many
    found = [(*place, many) for place, many in sorted(counts.items())]
    keys = frozenset(key for _, key, _, _ in found)
    names = named(keys, found[0][0], found[-1][0]) if found else {}
    return [LeakRow(day, key, names.get(key, ""), rule, many) for day, key, rule, many in found]


def merge_leaks(found: Iterable[LeakRow]) -> list[LeakRow]:
    """Merge the rows of the same day, key and rule, which come from parts of a day."""
    known: dict[tuple[str, str, str], LeakRow] = {}
    for one in found:
        place = one.day, one.key, one.rule
        before = known[place].count if place in known else 0
        known[place] = LeakRow(one.day, one.key, one.title, one.rule, before + one.count)
    return [known[place] for place in sorted(known)]


def build_rows(
    report: ReportTable[RequestTotals], first: int = 0, count: int | None = None
) -> list[ReportRow]:
    """Return the lines of a report, or some of them from the one of a number on."""
    last = None if count is None else first + count
    return [
        build_row(name, row, report.names.get(name, "")) for name, row in report.rows[first:last]
    ]


def build_latency_rows(report: ReportTable[ResponseTimes] | TimePage) -> list[LatencyRow]:
    """Return the lines of a report of times."""
    return [build_latency_row(name, row) for name, row in report.rows]


def build_row(name: str, of: RequestTotals, title: str = "") -> ReportRow:
    """Build a row."""
    written = of.cache_write + of.cache_write_1h
    read = of.input + of.cache_read + written
    return ReportRow(
        name=name,
        title=title,
        requests=of.requests,
        ok=of.ok,
        streams=of.streams,
        estimated=of.estimated,
        input=of.input,
        cache_read=of.cache_read,
        cache_write=written,
        output=of.output,
        reasoning=of.reasoning,
        cost=of.cost,
        cache_share=of.cache_read / read if read else None,
        received=of.received,
        sent=of.sent,
        hidden=sum(of.hidden.values()),
    )


def build_latency_row(name: str, of: ResponseTimes) -> LatencyRow:
    """Build a row of a report of times."""
    return LatencyRow(
        name, sum(of.took.values()), _compute_quantiles(of.took), _compute_quantiles(of.first)
    )


def _build_ranked(
    side: Dimension, parts: ReportSources, before: ReportTable[RequestTotals] | None
) -> ReportTable[RequestTotals]:
    """Build a table whose rows are ranked first: most of many rows are never read."""
    listed, total = list(parts), (before.total if before else _NO_TOTALS).copy()
    for _, part in listed:
        total.add(part.total.totals)
    earlier = [_get_columns(before)] if before else []
    of = add_tables([*earlier, *(part.get_columns(side) for _, part in listed)])
    if side != "key":
        return ReportTable(RankedRows(of), total, {})
    return ReportTable(
        RankedRows(of), total, find_key_names(of.names, listed, before.names if before else None)
    )


def _get_columns(report: ReportTable[RequestTotals]) -> ColumnTable:
    assert isinstance(report.rows, RankedRows)
    return report.rows.of


_NO_TOTALS, _NO_TIMES = RequestTotals(), ResponseTimes()


def _add_up(
    parts: Iterable[tuple[Iterable[tuple[Sequence[str], R]], R | None]],
    before: ReportTable[R] | None,
    nothing: R,
) -> tuple[dict[str, R], R]:
    """Return the sums of all rows by name, and of all parts; no row is modified.

    A row may count in several names. A part is its rows and its total; None: they add up to that.
    """
    found = dict(before.rows) if before else {}
    total, own = (before.total if before else nothing).copy(), set[str]()
    for rows, part_total in parts:
        for names, row in rows:
            for name in names:
                if name not in own:
                    found[name] = found.get(name, nothing).copy()
                    own.add(name)
                found[name].add(row)
            if part_total is None:
                total.add(row)
        if part_total is not None:
            total.add(part_total)
    return found, total


def _iter_totals(
    by: GroupBy, date: str, part: ReportSource, only: ReportFilter
) -> Iterator[tuple[Sequence[str], RequestTotals]]:
    side, one = _DIMENSIONS.get(by), only.find_row(by)
    if only == EVERYTHING:
        rows = part.iter_rows(side) if side else iter(_list_total(part, part.total.totals))
        yield from (((_format_name(by, date, name),), row) for name, row in rows)
    elif one:
        row = part.get_row(*one)
        if row:
            yield (_format_name(by, date, one[1] if by == one[0] else ""),), row
    else:
        for cell, figures in part.iter_cells(only):
            yield _list_names(by, date, cell, only), figures.totals


def _iter_times(
    by: TimedGroupBy,
    date: str,
    part: ReportSource,
    only: ReportFilter,
    names: Collection[str] | None,
) -> Iterator[tuple[Sequence[str], ResponseTimes]]:
    side = _DIMENSIONS.get(by)
    if only == EVERYTHING and side not in GROUPS:
        whole = _list_total(part, part.total.times)
        rows = part.iter_times(side, names) if side else iter(whole)
        yield from (((_format_name(by, date, name),), row) for name, row in rows)
    else:
        for cell, figures in part.iter_cells(only):
            yield _list_names(by, date, cell, only), figures.times


def _list_total(part: ReportSource, row: R) -> list[tuple[str, R]]:
    """Return the only row of a part; none if it is a piece of a day without requests."""
    return [("", row)] if part.total.totals.requests else []


def _list_names(by: GroupBy, date: str, cell: Cell, only: ReportFilter) -> Sequence[str]:
    """Return the names of the rows that a cell counts in."""
    if by == "tag" and only.tag:
        return (only.tag,)
    side = _DIMENSIONS.get(by)
    names = cell.list_names(side) if side else ("",)
    return [_format_name(by, date, name) for name in names]


def _format_name(by: GroupBy, date: str, name: str) -> str:
    """Return the name of a row in a report of many days."""
    return {"day": date, "hour": f"{date}T{name[:2]}"}.get(by, name)


def _compute_quantiles(histogram: Histogram) -> Quantiles:
    return Quantiles(*estimate_quantiles(histogram, (0.5, 0.95, 0.99)))
