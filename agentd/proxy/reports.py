"""Reports of what went through the gateway: sums, shares and quantiles, for programs and people.

Days and hours are those of UTC. Where a report is narrowed down (``Only``), it is made from what is
kept apart of each day; else from what the day adds up to from one side, whatever its requests.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from agentd.chats.quantile import Histogram, quantile
from agentd.proxy.tally import SIDES, Cell, Side, Table, Totals, merge, sum_of, table
from agentd.wire.spreadsheet import Cell as Field
from agentd.wire.spreadsheet import comma_separated

By: TypeAlias = Literal["total", "day", "hour", "model", "channel", "key"]

_SIDES: Mapping[By, Side] = {side: side for side in SIDES}


class Day(Protocol):
    """What is asked of one day; ``disk.ledger_report`` answers it."""

    @property
    def total(self) -> Totals:
        """All requests of the day in one."""
        ...

    @property
    def names(self) -> dict[str, str]:
        """The last name of each key."""
        ...

    def table(self, side: Side) -> Table:
        """The day from one side."""
        ...

    def cells(self) -> Iterator[tuple[Cell, Totals]]:
        """All that is kept apart."""
        ...


Days: TypeAlias = Iterable[tuple[str, Day]]
"""Each with its date, such as ``2026-01-31``, in order."""


class Only(Struct, frozen=True):
    """What a report is narrowed down to; what is empty is not asked for."""

    model: str = ""
    channel: str = ""
    key: str = ""

    def fits(self, cell: Cell) -> bool:
        """Whether it is asked for."""
        return all(
            not asked or asked == is_
            for asked, is_ in (
                (self.model, cell.model),
                (self.channel, cell.channel),
                (self.key, cell.key),
            )
        )


EVERYTHING = Only()


class Quantiles(Struct, frozen=True):
    """Milliseconds, to within 1 %; ``None`` of nothing."""

    p50: float | None
    p95: float | None
    p99: float | None


class Line(Struct, frozen=True):
    """One line of a report: what some requests were, took and cost."""

    name: str
    """The day, the hour (``2026-01-31T07``), the model, the channel, the key's id; or empty."""
    title: str
    """A key's name."""
    requests: int
    ok: int
    streams: int
    estimated: int
    input: int
    cache_read: int
    cache_write: int
    output: int
    reasoning: int
    cost: Decimal
    """USD, exactly."""
    cache_share: float | None
    """Which part of all that the models read was known to the supplier; ``None`` of nothing."""
    received: int
    sent: int
    hidden: int
    """Secrets that were found."""
    latency: Quantiles
    """Until the end of answers that went well."""
    first_token: Quantiles


class ErrorLine(Struct, frozen=True):
    """How often a kind of error came up."""

    error: str
    requests: int


class LeakLine(Struct, frozen=True):
    """How many secrets a key's requests held on a day, by the rule that found them."""

    day: str
    key: str
    title: str
    rule: str
    count: int


def lines(by: By, days: Days, only: Only = EVERYTHING) -> list[Line]:
    """Times in their order, everything else by what it cost, the dearest first."""
    found: Table = {}
    names: dict[str, str] = {}
    for date, day in days:
        names |= day.names if by == "key" else {}
        for name, totals in _of_day(by, date, day, only):
            known = found.get(name)
            if known is None:
                found[name] = totals  # it is nobody else's
            else:
                known.add(totals)
    made = [_line(name, names.get(name, ""), totals) for name, totals in found.items()]
    if by in ("day", "hour"):
        return sorted(made, key=lambda line: line.name)
    return sorted(made, key=lambda line: (-line.cost, -line.requests, line.name))


def errors(days: Days, only: Only = EVERYTHING) -> list[ErrorLine]:
    """Errors by kind, the most frequent first."""
    found: dict[str, int] = {}
    for date, day in days:
        for _, totals in _of_day("total", date, day, only):
            merge(found, totals.errors)
    made = [ErrorLine(kind, count) for kind, count in found.items()]
    return sorted(made, key=lambda line: (-line.requests, line.error))


def leaks(days: Days, only: Only = EVERYTHING) -> list[LeakLine]:
    """Secrets found, by day, key and rule, in this order."""
    found = []
    for date, day in days:
        for key, totals in _of_day("key", date, day, only):
            for rule, count in totals.hidden.items():
                found.append(LeakLine(date, key, day.names.get(key, ""), rule, count))
    return sorted(found, key=lambda line: (line.day, line.key, line.rule))


def as_csv(rows: Sequence[Struct]) -> bytes:
    """Lines of one kind as CSV; a field that has fields of its own becomes several columns."""
    if not rows:
        return b""
    head = [name for name, _ in _fields(rows[0])]
    return comma_separated([head, *([value for _, value in _fields(row)] for row in rows)])


def _of_day(by: By, date: str, day: Day, only: Only) -> Iterator[tuple[str, Totals]]:
    side = _SIDES.get(by)
    if only == EVERYTHING:
        rows = day.table(side) if side else {"": day.total}
    else:
        cells = [(cell, totals) for cell, totals in day.cells() if only.fits(cell)]
        if not cells:
            return
        rows = table(cells, side) if side else {"": sum_of(totals for _, totals in cells)}
    for name, totals in rows.items():
        yield {"day": date, "hour": f"{date}T{name}"}.get(by, name), totals


def _line(name: str, title: str, totals: Totals) -> Line:
    written = totals.cache_write + totals.cache_write_1h
    read = totals.input + totals.cache_read + written
    return Line(
        name=name,
        title=title,
        requests=totals.requests,
        ok=totals.ok,
        streams=totals.streams,
        estimated=totals.estimated,
        input=totals.input,
        cache_read=totals.cache_read,
        cache_write=written,
        output=totals.output,
        reasoning=totals.reasoning,
        cost=totals.cost,
        cache_share=totals.cache_read / read if read else None,
        received=totals.received,
        sent=totals.sent,
        hidden=sum(totals.hidden.values()),
        latency=_quantiles(totals.took),
        first_token=_quantiles(totals.first),
    )


def _quantiles(histogram: Histogram) -> Quantiles:
    return Quantiles(*(quantile(histogram, part) for part in (0.5, 0.95, 0.99)))


def _fields(row: Struct) -> Iterator[tuple[str, Field]]:
    for name in row.__struct_fields__:
        value = getattr(row, name)
        if isinstance(value, Struct):
            yield from ((f"{name}_{inner}", one) for inner, one in _fields(value))
        else:
            yield name, value
