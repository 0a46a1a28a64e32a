"""The totals of a day's requests by each dimension: a fold that keeps no request.

Days and hours are those of UTC; where a zone's hours begin within them, they are cut into slots of
``30`` or ``15`` minutes. What is folded only ever adds up, so it may be merged in any order.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct, field

from agentd.core.clock import Timestamp
from agentd.core.quantile import Histogram, add_duration
from agentd.gateway.ledger.record import RequestRecord
from agentd.gateway.limits.spend_by_quarter_hour import (
    KeySpend,
    get_quarter,
    list_accounts,
)
from agentd.llm.price import add_amounts

Dimension: TypeAlias = Literal["hour", "model", "channel", "key", "owner", "tag"]
"""A dimension that a day's requests are grouped by."""

GROUPS: tuple[Dimension, ...] = ("owner", "tag")
"""Dimensions by what keys have in common, if they do: of a day on which no request's key had an
owner or tag, nothing is kept by them. A request counts in each tag that its key had."""

_NAMED_DIMENSIONS: tuple[Dimension, ...] = ("hour", "model", "channel", "key")
"""The others, by which each request has just one name: the first fields of ``Cell``."""

DIMENSIONS: tuple[Dimension, ...] = (*_NAMED_DIMENSIONS, *GROUPS)

TIMED_DIMENSIONS: tuple[Dimension, ...] = ("hour", "model", "channel")
"""Groupings whose response times are kept; not by key: there are many, and histograms are large."""

TotalsTable: TypeAlias = dict[str, "RequestTotals"]
"""Totals by the name of an hour (``00`` to ``23``, or a slot of it such as ``07:30``), a model, a
channel, a key (its id), an owner or a tag; the name is empty where a request has none of these."""

TimeTable: TypeAlias = dict[str, "ResponseTimes"]
"""Times by such a name."""


Name = TypeVar("Name", int, str)


class Cell(NamedTuple):
    """The key of a group of requests.

    Owner and tags are those of the key when the requests were made: what was spent stays with who
    answered for it then, and reports agree with budgets. Records from before the ledger knew them
    have neither: they are not given to the present owner, who may never have seen them.
    """

    hour: str
    model: str
    """The model as callers name it; empty where no channel was asked: it may be any name."""
    channel: str
    key: str
    owner: str = ""
    tags: tuple[str, ...] = ()

    def list_names(self, side: Dimension) -> Sequence[str]:
        """Return what these requests count in, from one side; only tags may be several."""
        return (self.tags or ("",)) if side == "tag" else (getattr(self, side),)


class RequestTotals(Struct, array_like=True, gc=False):
    """The totals of some requests. Part of no reference cycle, so exempt from ``gc``."""

    requests: int = 0
    ok: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    """Requests that did not go well, by the kind of error."""
    streams: int = 0
    estimated: int = 0
    """Requests whose cost is estimated."""
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

    def add_record(self, entry: RequestRecord) -> None:
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
        self.cost = add_amounts(self.cost, entry.cost)
        self.received += entry.received
        self.sent += entry.sent
        if entry.outcome == "ok":
            self.ok += 1
        else:
            kind = entry.error or entry.outcome
            self.errors[kind] = self.errors.get(kind, 0) + 1
        if entry.hidden:
            add_counts(self.hidden, entry.hidden)

    def copy(self) -> "RequestTotals":
        """Return the same, to be added to."""
        made = RequestTotals()
        made.add(self)
        return made

    def add(self, other: "RequestTotals") -> None:
        """Count the other in; a long report does so a million times, so what is rare is asked."""
        self.requests += other.requests
        self.ok += other.ok
        self.input += other.input
        self.output += other.output
        self.cost = add_amounts(self.cost, other.cost)
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
            add_counts(self.errors, other.errors)
        if other.hidden:
            add_counts(self.hidden, other.hidden)


class ResponseTimes(Struct, array_like=True, gc=False):
    """The response times of some requests: histograms of milliseconds (``core.quantile``)."""

    took: Histogram = field(default_factory=dict)
    """The times until the end of successful responses."""
    first: Histogram = field(default_factory=dict)
    """The times until the first piece of an answer."""

    def add_record(self, entry: RequestRecord) -> None:
        """Count a request in."""
        if entry.outcome == "ok":
            add_duration(self.took, round(entry.timings.total))
        if entry.timings.first > 0:
            add_duration(self.first, round(entry.timings.first))

    def copy(self) -> "ResponseTimes":
        """Return the same, to be added to."""
        return ResponseTimes(dict(self.took), dict(self.first))

    def add(self, other: "ResponseTimes") -> None:
        """Count the other in."""
        add_counts(self.took, other.took)
        add_counts(self.first, other.first)


class Figures(NamedTuple):
    """The figures of some requests."""

    totals: RequestTotals
    times: ResponseTimes

    def copy(self) -> "Figures":
        """Return the same, to be added to."""
        return Figures(self.totals.copy(), self.times.copy())

    def add_record(self, entry: RequestRecord) -> None:
        """Count a request in."""
        self.totals.add_record(entry)
        self.times.add_record(entry)

    def add(self, other: "Figures") -> None:
        """Count the other in."""
        self.totals.add(other.totals)
        self.times.add(other.times)


def create_figures() -> Figures:
    """Create empty figures, to be added to."""
    return Figures(RequestTotals(), ResponseTimes())


class DailyTotals:
    """The fold of a day's entries, from every side at once.

    An entry is counted in once, in its cell; what that adds to every side is worked out for many
    together, when somebody looks.
    """

    def __init__(self, slot: int = 60) -> None:
        self.slot = slot
        """Minutes of a slot."""
        self.quarters: dict[int, dict[str, KeySpend]] = {}
        """The spend of each account by quarter of an hour (``spend_by_quarter_hour``)."""
        self.names: dict[str, str] = {}
        """The last name of each key."""
        self.on_merged: Callable[[Cell, Figures], None] | None = None
        """Called with what each cell got since the tables were last read."""
        self._total = create_figures()
        self._cells: dict[Cell, Figures] = {}
        self._tables: dict[Dimension, TotalsTable] = {side: {} for side in DIMENSIONS}
        self._times: dict[Dimension, TimeTable] = {side: {} for side in TIMED_DIMENSIONS}
        self._unmerged: dict[Cell, Figures] = {}
        """The figures counted since the tables were last read."""

    @property
    def total(self) -> Figures:
        """All entries added up."""
        self._merge_new()
        return self._total

    @property
    def cells(self) -> dict[Cell, Figures]:
        """The cells: figures for each combination of dimensions."""
        self._merge_new()
        return self._cells

    @property
    def tables(self) -> dict[Dimension, TotalsTable]:
        """The totals by dimension."""
        self._merge_new()
        return self._tables

    @property
    def times(self) -> dict[Dimension, TimeTable]:
        """The response times by the dimensions in ``TIMED_DIMENSIONS``."""
        self._merge_new()
        return self._times

    def restore(
        self,
        total: Figures,
        cells: dict[Cell, Figures],
        tables: dict[Dimension, TotalsTable],
        times: dict[Dimension, TimeTable],
    ) -> None:
        """Go on from what another tally came to. It is this one's from now on."""
        self._total, self._cells, self._tables, self._times = total, cells, tables, times

    def add_record(self, entry: RequestRecord) -> None:
        """Count a request in."""
        model = entry.model if entry.channel else ""
        slot = self._format_slot(entry.at)
        cell = Cell(slot, model, entry.channel, entry.key, entry.owner, entry.tags)
        if cell not in self._unmerged:
            self._unmerged[cell] = create_figures()
        self._unmerged[cell].add_record(entry)
        for one in entry.failed_tries:
            if one.cost:
                self._move_cost(one.cost, cell, cell._replace(channel=one.channel))
        spent = self.quarters.setdefault(get_quarter(entry.at), {})
        for account in list_accounts(entry):
            if account not in spent:
                spent[account] = KeySpend()
            spent[account].add_record(entry)
        if entry.key_name:
            self.names[entry.key] = entry.key_name

    def add_cell(self, cell: Cell, figures: Figures) -> None:
        """Count in what is kept apart elsewhere."""
        known = self._unmerged.get(cell)
        if known is None:
            self._unmerged[cell] = figures.copy()
        else:
            known.add(figures)

    def _move_cost(self, cost: Decimal, cell: Cell, other: Cell) -> None:
        """Count the cost of a call that was given up for its own channel, which got no request."""
        if other not in self._unmerged:
            self._unmerged[other] = create_figures()
        for one, amount in ((cell, cost.copy_negate()), (other, cost)):
            totals = self._unmerged[one].totals
            totals.cost = add_amounts(totals.cost, amount)

    def _format_slot(self, at: Timestamp) -> str:
        if self.slot == 60:
            return at[11:13]
        return f"{at[11:13]}:{int(at[14:16]) // self.slot * self.slot:02d}"

    def _merge_new(self) -> None:
        fresh, self._unmerged = self._unmerged, {}
        for cell, figures in fresh.items():
            if self.on_merged:
                self.on_merged(cell, figures)
            if cell.owner or cell.tags or self._tables["owner"]:
                self._merge_groups(cell, figures.totals)
            self._total.add(figures)
            for side, name in zip(_NAMED_DIMENSIONS, cell[:4], strict=True):
                self._tables[side].setdefault(name, RequestTotals()).add(figures.totals)
            for side, name in zip(TIMED_DIMENSIONS, cell[:3], strict=True):
                self._times[side].setdefault(name, ResponseTimes()).add(figures.times)
            if cell in self._cells:
                self._cells[cell].add(figures)
            else:
                self._cells[cell] = figures

    def _merge_groups(self, cell: Cell, totals: RequestTotals) -> None:
        """Count in by owner and tag, where any is known; all requests before it had neither."""
        for side in GROUPS:
            table = self._tables[side]
            if not table and self._total.totals.requests:
                table[""] = self._total.totals.copy()
            for name in cell.list_names(side):
                table.setdefault(name, RequestTotals()).add(totals)


def to_spent(totals: RequestTotals) -> KeySpend:
    """Return the spend of some requests, as limits count it."""
    into = totals.input + totals.cache_read + totals.cache_write + totals.cache_write_1h
    return KeySpend(totals.cost, into + totals.output + totals.reasoning, totals.requests)


def add_counts(into: dict[Name, int], counts: Mapping[Name, int]) -> None:
    """Count the others in, name by name."""
    for name, count in counts.items():
        into[name] = into.get(name, 0) + count
