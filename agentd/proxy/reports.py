"""Reports of what went through the gateway: sums, shares and quantiles, for programs and people.

Days and hours are those of the parts that a report is made of. It is folded as a whole and told
line by line, so that a page of a long one costs no more than a page of a short one. Where it is
narrowed down (``Only``) to more than one name of a side, it is made from what is kept apart of each
day.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from agentd.chats.quantile import Histogram, quantiles
from agentd.proxy.columns import Columns, Ranked, added
from agentd.proxy.tally import SIDES, TIMED, Cell, Figures, Side, Times, Totals

By: TypeAlias = Literal["total", "day", "hour", "model", "channel", "key"]
TimedBy: TypeAlias = Literal["total", "day", "hour", "model", "channel"]

_SIDES: Mapping[By, Side] = {side: side for side in SIDES}

R = TypeVar("R", Totals, Times)


class Part(Protocol):
    """What is asked of a day, or of several where it does not matter which.

    Nobody changes what is told: it may be what is still being counted.
    """

    @property
    def total(self) -> Figures:
        """All requests in one."""
        ...

    def names(self, keys: Collection[str] | None = None) -> Mapping[str, str]:
        """The last name of each key, or of some."""
        ...

    def rows(self, side: Side) -> Iterator[tuple[str, Totals]]:
        """All of it from one side, each name once."""
        ...

    def columns(self, side: Side) -> Columns:
        """The same as ``rows``, for the sides that may have many."""
        ...

    def times(
        self, side: Side, names: Collection[str] | None = None
    ) -> Iterator[tuple[str, Times]]:
        """How long it took, from a side that is ``TIMED``, or the rows of some names."""
        ...

    def row(self, side: Side, name: str) -> Totals | None:
        """One row of a side."""
        ...

    def cells(self, only: "Only") -> Iterator[tuple[Cell, Figures]]:
        """All that is asked for of what is kept apart; of several days there is none."""
        ...

    def leaks(self) -> Iterator[tuple[str, str, int]]:
        """Secrets that were found: the key, the rule and how many; only of a day."""
        ...


Parts: TypeAlias = Iterable[tuple[str, Part]]
"""Each with its (first) date, such as ``2026-01-31``, in order."""


class Only(Struct, frozen=True):
    """What a report is narrowed down to; what is empty is not asked for."""

    model: str = ""
    channel: str = ""
    key: str = ""

    def fits(self, cell: Cell) -> bool:
        """Whether it is asked for."""
        return (
            self.model in ("", cell.model)
            and self.channel in ("", cell.channel)
            and self.key in ("", cell.key)
        )

    def row(self, by: By) -> tuple[Side, str] | None:
        """The row that tells all that is asked for, if one does."""
        sides: tuple[Side, ...] = ("model", "channel", "key")
        asked = [(side, getattr(self, side)) for side in sides if getattr(self, side)]
        if len(asked) == 1 and by in ("total", "day", asked[0][0]):
            return asked[0]
        return None


EVERYTHING = Only()


class Report(Struct, Generic[R], frozen=True):
    """Rows in the order in which they are told, and what they add up to."""

    rows: Sequence[tuple[str, R]]
    total: R
    names: Mapping[str, str]
    """The last name of each key, where rows are keys."""


class TimePage(Struct, frozen=True):
    """Some rows of a report of times, and what all of them add up to."""

    rows: Sequence[tuple[str, Times]]
    total: Times
    of: int
    """How many rows there are in all."""


class Line(Struct, frozen=True):
    """One line of a report: what some requests were and cost."""

    name: str
    """The day, the hour (``2026-01-31T07``), the model, the channel, the key's id; or empty."""
    title: str
    """A key's name."""
    requests: int
    """How many there were, however they ended."""
    ok: int
    """How many of them went well."""
    streams: int
    """How many were streamed."""
    estimated: int
    """How many were counted or priced by a guess."""
    input: int
    """Tokens that were read anew."""
    cache_read: int
    """Tokens that suppliers knew already."""
    cache_write: int
    """Tokens that they remembered."""
    output: int
    """Tokens that were written."""
    reasoning: int
    """Tokens that were thought."""
    cost: Decimal
    """USD, exactly."""
    cache_share: float | None
    """Which part of all that the models read was known to the supplier; ``None`` of nothing."""
    received: int
    """Bytes of the requests."""
    sent: int
    """Bytes of the answers."""
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


class TimeLine(Struct, frozen=True):
    """How long answers took, of a day, an hour, a model, a channel, or in all."""

    name: str
    """What the row is of, as `by` tells."""
    answers: int
    """Those that went well."""
    latency: Quantiles
    """Until their end."""
    first_token: Quantiles
    """Until the first piece of an answer, however it ended."""


class ErrorLine(Struct, frozen=True):
    """How often a kind of error came up."""

    error: str
    """The kind, as in the request log."""
    requests: int
    """How many requests ended so."""


class LeakLine(Struct, frozen=True):
    """How many secrets a key's requests held on a day, by the rule that found them."""

    day: str
    """In the time zone of the limits."""
    key: str
    """The access key's id."""
    title: str
    """The key's name."""
    rule: str
    """What found them."""
    count: int
    """How many, in new text: what a key said before and sends along again counts once."""


def apart(by: By, only: Only = EVERYTHING) -> bool:
    """Whether a report is made from each day by itself: it must be, or is as cheap so."""
    if only == EVERYTHING:
        return by in ("total", "day", "hour")  # all of a day in one stands in its head
    return by in ("day", "hour") or only.row(by) is None


def totals(
    by: By,
    parts: Parts,
    only: Only = EVERYTHING,
    before: Report[Totals] | None = None,
) -> Report[Totals]:
    """Times in their order, everything else by what it cost, the dearest first.

    ``before`` is the same report of earlier days, which is left as it is. Names of keys are told
    of whole days; of a narrowed report, who asks for it adds them: ``titles``.
    """
    if only == EVERYTHING and by in ("model", "channel", "key"):
        return _ranked(by, parts, before)
    found = dict(before.rows) if before else {}
    total, own = (before.total if before else _NO_TOTALS).copied(), set[str]()
    for date, part in parts:
        for name, row in _of_part(by, date, part, only):
            if name not in own:
                found[name] = found.get(name, _NO_TOTALS).copied()
                own.add(name)
            found[name].add(row)
            if only != EVERYTHING:
                total.add(row)
        if only == EVERYTHING:
            total.add(part.total.totals)
    if by in ("day", "hour"):
        return Report(sorted(found.items()), total, {})
    ordered = sorted(found.items(), key=lambda row: (-row[1].cost, -row[1].requests, row[0]))
    return Report(ordered, total, {})


def titles(
    keys: Collection[str], parts: Parts, before: Mapping[str, str] | None = None
) -> Mapping[str, str]:
    """The last name of each of some keys; ``before`` are those of earlier days."""
    found, nameless = dict[str, str](), set(keys)
    for _, part in reversed(list(parts)):
        if nameless:
            found |= part.names(nameless)
            nameless -= found.keys()
    return {**(before or {}), **found}


def most_answered(report: Report[Totals]) -> list[str]:
    """The names of a report by model or channel in the order in which ``times`` tells them."""
    of = _columns_of(report)
    return [of.names[number] for number in of.ranked("ok")]  # each is an answer that took its time


def times(
    by: TimedBy,
    parts: Parts,
    only: Only = EVERYTHING,
    before: Report[Times] | None = None,
    names: Collection[str] | None = None,
) -> Report[Times]:
    """How long it took: times in their order, everything else by how many, the most first.

    Of a report of everything, the rows may be those of some ``names`` alone.
    """
    found = dict(before.rows) if before else {}
    total, own = (before.total if before else _NO_TIMES).copied(), set[str]()
    for date, part in parts:
        for name, row in _times_of(by, date, part, only, names):
            if name not in own:
                found[name] = found.get(name, _NO_TIMES).copied()
                own.add(name)
            found[name].add(row)
            if only != EVERYTHING:
                total.add(row)
        if only == EVERYTHING:
            total.add(part.total.times)
    if by in ("day", "hour"):
        return Report(sorted(found.items()), total, {})
    ordered = sorted(found.items(), key=lambda row: (-sum(row[1].took.values()), row[0]))
    return Report(ordered, total, {})


def errors(total: Totals) -> list[ErrorLine]:
    """Errors by kind, the most frequent first."""
    made = [ErrorLine(kind, count) for kind, count in total.errors.items()]
    return sorted(made, key=lambda line: (-line.requests, line.error))


def leaks(
    parts: Parts, named: Callable[[Collection[str], str, str], Mapping[str, str]]
) -> list[LeakLine]:
    """Secrets found, by day, key and rule, in this order.

    ``named`` tells the last name of each of some keys from a day to another.
    """
    counts: dict[tuple[str, str, str], int] = {}
    for date, part in parts:
        for key, rule, many in part.leaks():
            counts[date, key, rule] = counts.get((date, key, rule), 0) + many
    found = [(*place, many) for place, many in sorted(counts.items())]
    keys = frozenset(key for _, key, _, _ in found)
    names = named(keys, found[0][0], found[-1][0]) if found else {}
    return [LeakLine(day, key, names.get(key, ""), rule, many) for day, key, rule, many in found]


def merged(found: Iterable[LeakLine]) -> list[LeakLine]:
    """The same with one line for each day, key and rule, of which a day's parts tell one each."""
    known: dict[tuple[str, str, str], LeakLine] = {}
    for one in found:
        place = one.day, one.key, one.rule
        before = known[place].count if place in known else 0
        known[place] = LeakLine(one.day, one.key, one.title, one.rule, before + one.count)
    return [known[place] for place in sorted(known)]


def lines(report: Report[Totals], first: int = 0, count: int | None = None) -> list[Line]:
    """The lines of a report, or some of them from the one of a number on."""
    last = None if count is None else first + count
    return [line(name, row, report.names.get(name, "")) for name, row in report.rows[first:last]]


def time_lines(report: Report[Times] | TimePage) -> list[TimeLine]:
    """The lines of a report of times."""
    return [time_line(name, row) for name, row in report.rows]


def line(name: str, of: Totals, title: str = "") -> Line:
    """One line."""
    written = of.cache_write + of.cache_write_1h
    read = of.input + of.cache_read + written
    return Line(
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


def time_line(name: str, of: Times) -> TimeLine:
    """One line of a report of times."""
    return TimeLine(name, sum(of.took.values()), _quantiles(of.took), _quantiles(of.first))


def _ranked(side: Side, parts: Parts, before: Report[Totals] | None) -> Report[Totals]:
    """All of a side: with many names, nearly all the work is to add up rows that nobody reads."""
    listed, total = list(parts), (before.total if before else _NO_TOTALS).copied()
    for _, part in listed:
        total.add(part.total.totals)
    earlier = [_columns_of(before)] if before else []
    of = added([*earlier, *(part.columns(side) for _, part in listed)])
    if side != "key":
        return Report(Ranked(of), total, {})
    return Report(Ranked(of), total, titles(of.names, listed, before.names if before else None))


def _columns_of(report: Report[Totals]) -> Columns:
    assert isinstance(report.rows, Ranked)
    return report.rows.of


_NO_TOTALS, _NO_TIMES = Totals(), Times()


def _of_part(by: By, date: str, part: Part, only: Only) -> Iterator[tuple[str, Totals]]:
    side, one = _SIDES.get(by), only.row(by)
    if only == EVERYTHING:
        rows = part.rows(side) if side else iter([("", part.total.totals)])
        yield from ((_named(by, date, name), row) for name, row in rows)
    elif one:
        row = part.row(*one)
        if row:
            yield _named(by, date, one[1] if by == one[0] else ""), row
    else:
        for cell, figures in part.cells(only):
            yield _named(by, date, getattr(cell, side) if side else ""), figures.totals


def _times_of(
    by: TimedBy, date: str, part: Part, only: Only, names: Collection[str] | None
) -> Iterator[tuple[str, Times]]:
    side = _SIDES.get(by)
    assert side is None or side in TIMED
    if only == EVERYTHING:
        rows = part.times(side, names) if side else iter([("", part.total.times)])
        yield from ((_named(by, date, name), row) for name, row in rows)
    else:
        for cell, figures in part.cells(only):
            yield _named(by, date, getattr(cell, side) if side else ""), figures.times


def _named(by: By, date: str, name: str) -> str:
    """What a row is called in a report of many days."""
    return {"day": date, "hour": f"{date}T{name[:2]}"}.get(by, name)


def _quantiles(histogram: Histogram) -> Quantiles:
    return Quantiles(*quantiles(histogram, (0.5, 0.95, 0.99)))
