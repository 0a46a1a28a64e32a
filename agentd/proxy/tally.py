"""What the requests of a day add up to, from every side: a fold that keeps no request.

Days and hours are those of UTC; where a zone's hours begin within them, they are cut into slots of
``30`` or ``15`` minutes. What is folded only ever adds up, so it may be merged in any order.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct, field

from agentd.chats.quantile import Histogram, note
from agentd.clock import Timestamp
from agentd.proxy.entry import Entry
from agentd.proxy.price import plus
from agentd.proxy.sums import Spent, quarter

Side: TypeAlias = Literal["hour", "model", "channel", "key"]
"""By what the requests of a day are told apart."""

SIDES: tuple[Side, ...] = ("hour", "model", "channel", "key")

TIMED: tuple[Side, ...] = ("hour", "model", "channel")
"""Sides from which it is told how long answers took. Keys are many, and their histograms large."""

Table: TypeAlias = dict[str, "Totals"]
"""Totals by the name of an hour (``00`` to ``23``, or a slot of it such as ``07:30``), a model, a
channel or a key (its id)."""

TimeTable: TypeAlias = dict[str, "Times"]
"""Times by such a name."""


Name = TypeVar("Name", int, str)


class Cell(NamedTuple):
    """What is kept apart."""

    hour: str
    model: str
    """As callers name it; empty where no channel was asked, for that may be any name at all."""
    channel: str
    key: str


class Totals(Struct, array_like=True, gc=False):
    """What some requests were and cost. It can be in no cycle, so nobody looks for one (``gc``)."""

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
        else:
            kind = entry.error or entry.outcome
            self.errors[kind] = self.errors.get(kind, 0) + 1
        if entry.hidden:
            merge(self.hidden, entry.hidden)

    def copied(self) -> "Totals":
        """The same, to be added to."""
        made = Totals()
        made.add(self)
        return made

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


class Times(Struct, array_like=True, gc=False):
    """How long some requests took: histograms of milliseconds (``chats.quantile``)."""

    took: Histogram = field(default_factory=dict)
    """Until the end of an answer that went well."""
    first: Histogram = field(default_factory=dict)
    """Until the first piece of an answer."""

    def book(self, entry: Entry) -> None:
        """Count a request in."""
        if entry.outcome == "ok":
            note(self.took, round(entry.timings.total))
        if entry.timings.first > 0:
            note(self.first, round(entry.timings.first))

    def copied(self) -> "Times":
        """The same, to be added to."""
        return Times(dict(self.took), dict(self.first))

    def add(self, other: "Times") -> None:
        """Count the other in."""
        merge(self.took, other.took)
        merge(self.first, other.first)


class Figures(NamedTuple):
    """What some requests add up to."""

    totals: Totals
    times: Times

    def copied(self) -> "Figures":
        """The same, to be added to."""
        return Figures(self.totals.copied(), self.times.copied())

    def book(self, entry: Entry) -> None:
        """Count a request in."""
        self.totals.book(entry)
        self.times.book(entry)

    def add(self, other: "Figures") -> None:
        """Count the other in."""
        self.totals.add(other.totals)
        self.times.add(other.times)


def nothing() -> Figures:
    """Of no request, to be added to."""
    return Figures(Totals(), Times())


class Tally:
    """The fold of a day's entries, from every side at once.

    An entry is counted in once, in its cell; what that adds to every side is worked out for many
    together, when somebody looks.
    """

    def __init__(self, slot: int = 60) -> None:
        self.slot = slot
        """Minutes of the slots that are told apart."""
        self.quarters: dict[int, dict[str, Spent]] = {}
        """What each key spent, by the quarter of an hour (``sums.quarter``)."""
        self.names: dict[str, str] = {}
        """The last name of each key."""
        self._total = nothing()
        self._cells: dict[Cell, Figures] = {}
        self._tables: dict[Side, Table] = {side: {} for side in SIDES}
        self._times: dict[Side, TimeTable] = {side: {} for side in TIMED}
        self._fresh: dict[Cell, Figures] = {}
        """What was counted in since somebody looked."""

    @property
    def total(self) -> Figures:
        """All entries in one."""
        self._settle()
        return self._total

    @property
    def cells(self) -> dict[Cell, Figures]:
        """All that is kept apart."""
        self._settle()
        return self._cells

    @property
    def tables(self) -> dict[Side, Table]:
        """What the entries add up to from each side."""
        self._settle()
        return self._tables

    @property
    def times(self) -> dict[Side, TimeTable]:
        """How long they took, from the sides that are ``TIMED``."""
        self._settle()
        return self._times

    def take_up(
        self,
        total: Figures,
        cells: dict[Cell, Figures],
        tables: dict[Side, Table],
        times: dict[Side, TimeTable],
    ) -> None:
        """Go on from what another tally came to. It is this one's from now on."""
        self._total, self._cells, self._tables, self._times = total, cells, tables, times

    def book(self, entry: Entry) -> None:
        """Count a request in."""
        model = entry.model if entry.channel else ""
        cell = Cell(self._slot_of(entry.at), model, entry.channel, entry.key)
        if cell not in self._fresh:
            self._fresh[cell] = nothing()
        self._fresh[cell].book(entry)
        spent = self.quarters.setdefault(quarter(entry.at), {})
        if entry.key not in spent:
            spent[entry.key] = Spent()
        spent[entry.key].book(entry)
        if entry.key_name:
            self.names[entry.key] = entry.key_name

    def count(self, cell: Cell, figures: Figures) -> None:
        """Count in what is kept apart elsewhere."""
        known = self._fresh.get(cell)
        if known is None:
            self._fresh[cell] = figures.copied()
        else:
            known.add(figures)

    def _slot_of(self, at: Timestamp) -> str:
        if self.slot == 60:
            return at[11:13]
        return f"{at[11:13]}:{int(at[14:16]) // self.slot * self.slot:02d}"

    def _settle(self) -> None:
        fresh, self._fresh = self._fresh, {}
        for cell, figures in fresh.items():
            self._total.add(figures)
            for side, name in zip(SIDES, cell, strict=True):
                self._tables[side].setdefault(name, Totals()).add(figures.totals)
            for side, name in zip(TIMED, cell, strict=False):
                self._times[side].setdefault(name, Times()).add(figures.times)
            if cell in self._cells:
                self._cells[cell].add(figures)
            else:
                self._cells[cell] = figures


def spent(totals: Totals) -> Spent:
    """What some requests spent, as limits count it."""
    into = totals.input + totals.cache_read + totals.cache_write + totals.cache_write_1h
    return Spent(totals.cost, into + totals.output + totals.reasoning, totals.requests)


def merge(into: dict[Name, int], counts: Mapping[Name, int]) -> None:
    """Count the others in, name by name."""
    for name, count in counts.items():
        into[name] = into.get(name, 0) + count
