"""What the requests of a day add up to, from every side: a fold that keeps no request.

Days and hours are those of UTC. What is folded only ever adds up, so it may be merged in any order.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct, field

from agentd.chats.quantile import Histogram, note
from agentd.proxy.entry import Entry
from agentd.proxy.price import plus
from agentd.proxy.sums import Spent, quarter

Side: TypeAlias = Literal["hour", "model", "channel", "key"]
"""By what the requests of a day are told apart."""

SIDES: tuple[Side, ...] = ("hour", "model", "channel", "key")

Table: TypeAlias = dict[str, "Totals"]
"""Totals by the name of an hour (``00`` to ``23``), a model, a channel or a key (its id)."""


Name = TypeVar("Name", int, str)


class Cell(NamedTuple):
    """What is kept apart."""

    hour: str
    model: str
    """As callers name it; empty where no channel was asked, for that may be any name at all."""
    channel: str
    key: str


class Totals(Struct, array_like=True):
    """What some requests were, took and cost."""

    requests: int = 0
    ok: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    """Requests that did not go well, by the kind of error."""
    streams: int = 0
    estimated: int = 0
    """Requests whose cost is not told but assumed."""
    input: int = 0
    """Tokens, by bucket (``price.Usage``)."""
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    output: int = 0
    reasoning: int = 0
    cost: Decimal = Decimal(0)
    """USD, exactly."""
    received: int = 0
    """Bytes of bodies."""
    sent: int = 0
    hidden: dict[str, int] = field(default_factory=dict)
    """Secrets that were found, by the rule."""
    took: Histogram = field(default_factory=dict)
    """Milliseconds until the end of an answer that went well (``chats.quantile``)."""
    first: Histogram = field(default_factory=dict)
    """Milliseconds until the first piece of an answer."""

    def book(self, entry: Entry) -> None:
        """Count a request in."""
        usage = entry.usage
        self.requests += 1
        self.streams += entry.stream
        self.estimated += entry.estimated
        self.input += usage.input
        self.cache_read += usage.cache_read
        self.cache_write += usage.cache_write
        self.cache_write_1h += usage.cache_write_1h
        self.output += usage.output
        self.reasoning += usage.reasoning
        self.cost = plus(self.cost, entry.cost)
        self.received += entry.received
        self.sent += entry.sent
        if entry.outcome == "ok":
            self.ok += 1
            note(self.took, round(entry.timings.total))
        else:
            kind = entry.error or entry.outcome
            self.errors[kind] = self.errors.get(kind, 0) + 1
        if entry.timings.first > 0:
            note(self.first, round(entry.timings.first))
        if entry.hidden:
            merge(self.hidden, entry.hidden)

    def add(self, other: "Totals") -> None:
        """Count the other in; a long report does so a million times, so what is rare is asked."""
        self.requests += other.requests
        self.ok += other.ok
        self.input += other.input
        self.output += other.output
        self.cost = plus(self.cost, other.cost)
        self.received += other.received
        self.sent += other.sent
        if other.streams:
            self.streams += other.streams
        if other.estimated:
            self.estimated += other.estimated
        if other.cache_read:
            self.cache_read += other.cache_read
        if other.cache_write or other.cache_write_1h:
            self.cache_write += other.cache_write
            self.cache_write_1h += other.cache_write_1h
        if other.reasoning:
            self.reasoning += other.reasoning
        if other.errors:
            merge(self.errors, other.errors)
        if other.hidden:
            merge(self.hidden, other.hidden)
        if other.took:
            merge(self.took, other.took)
        if other.first:
            merge(self.first, other.first)


class Tally:
    """The fold of a day's entries."""

    def __init__(self) -> None:
        self.cells: dict[Cell, Totals] = {}
        self.quarters: dict[int, dict[str, Spent]] = {}
        """What each key spent, by the quarter of an hour (``sums.quarter``)."""
        self.names: dict[str, str] = {}
        """The last name of each key."""

    def book(self, entry: Entry) -> None:
        """Count a request in."""
        model = entry.model if entry.channel else ""
        cell = Cell(entry.at[11:13], model, entry.channel, entry.key)
        totals = self.cells.get(cell)
        if totals is None:
            totals = self.cells[cell] = Totals()
        totals.book(entry)
        spent = self.quarters.setdefault(quarter(entry.at), {})
        if entry.key not in spent:
            spent[entry.key] = Spent()
        spent[entry.key].book(entry)
        if entry.key_name:
            self.names[entry.key] = entry.key_name

    def spent(self) -> dict[str, Spent]:
        """What each key spent on the day."""
        found: dict[str, Spent] = {}
        for keys in self.quarters.values():
            for key, spent in keys.items():
                found.setdefault(key, Spent()).add(spent)
        return found

    def table(self, side: Side) -> Table:
        """The day from one side."""
        return table(self.cells.items(), side)


def table(cells: Iterable[tuple[Cell, Totals]], side: Side) -> Table:
    """What some cells add up to from one side."""
    place = Cell._fields.index(side)
    found: Table = {}
    for cell, totals in cells:
        found.setdefault(cell[place], Totals()).add(totals)
    return found


def sum_of(many: Iterable[Totals]) -> Totals:
    """All in one."""
    found = Totals()
    for totals in many:
        found.add(totals)
    return found


def merge(into: dict[Name, int], counts: Mapping[Name, int]) -> None:
    """Count the others in, name by name."""
    for name, count in counts.items():
        into[name] = into.get(name, 0) + count
