"""Totals of many names as columns: thousands of rows are added up in a few long steps then.

A row of them is made only where somebody looks at it.
"""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from operator import add
from typing import TypeVar, overload

from msgspec import Struct

from agentd.proxy.price import plus_each
from agentd.proxy.tally import Totals

T = TypeVar("T")

_COUNTS = (
    "requests", "ok", "streams", "estimated", "input", "cache_read", "cache_write",
    "cache_write_1h", "output", "reasoning", "received", "sent",
)  # fmt: skip
_KINDS = ("errors", "hidden")


class Columns(Struct, frozen=True):
    """Rows by name, in any order; nobody changes what is in them."""

    names: list[str]
    cost: list[Decimal]
    """USD, exactly, in the order of the names."""
    counts: dict[str, list[int]]
    """The other fields of ``Totals``, those by kind as ``errors/<kind>``; without zeros alone."""

    def row(self, number: int) -> tuple[str, Totals]:
        """One of the rows."""
        made = Totals(cost=self.cost[number])
        for name, column in self.counts.items():
            field, _, kind = name.partition("/")
            if not kind:
                setattr(made, field, column[number])
            elif column[number]:
                getattr(made, field)[kind] = column[number]
        return self.names[number], made


NOTHING = Columns([], [], {})


def columns(rows: Iterable[tuple[str, Totals]]) -> Columns:
    """Rows, each name once, as columns."""
    listed = list(rows)
    counts = {name: [getattr(row, name) for _, row in listed] for name in _COUNTS}
    for field in _KINDS:
        for kind in sorted({kind for _, row in listed for kind in getattr(row, field)}):
            counts[f"{field}/{kind}"] = [getattr(row, field).get(kind, 0) for _, row in listed]
    return Columns(
        [name for name, _ in listed],
        [row.cost for _, row in listed],
        {name: column for name, column in counts.items() if any(column)},
    )


def added(one: Columns, other: Columns) -> Columns:
    """The sum of both, name by name."""
    names = one.names
    if other.names != names:
        names = list(dict.fromkeys((*one.names, *other.names)))
    one, other = _spread(one, names), _spread(other, names)
    counts = {**one.counts, **other.counts}
    for name in one.counts.keys() & other.counts.keys():
        counts[name] = list(map(add, one.counts[name], other.counts[name]))
    return Columns(names, plus_each(one.cost, other.cost), counts)


class Ranked(Sequence[tuple[str, Totals]]):
    """The rows of columns, the dearest first."""

    def __init__(self, of: Columns) -> None:
        self.of = of
        requests = of.counts.get("requests") or [0] * len(of.names)
        order = sorted(range(len(of.names)), key=of.names.__getitem__)
        order.sort(key=requests.__getitem__, reverse=True)  # where that is equal, they stay
        self._order = sorted(order, key=of.cost.__getitem__, reverse=True)

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, at: int) -> tuple[str, Totals]: ...

    @overload
    def __getitem__(self, at: slice) -> list[tuple[str, Totals]]: ...

    def __getitem__(self, at: int | slice) -> tuple[str, Totals] | list[tuple[str, Totals]]:
        if isinstance(at, slice):
            return [self.of.row(number) for number in self._order[at]]
        return self.of.row(self._order[at])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


def _spread(of: Columns, names: list[str]) -> Columns:
    """The same in another order of names, with zeros where there is none."""
    if of.names == names:
        return of
    known = {name: number for number, name in enumerate(of.names)}
    places = [known.get(name, -1) for name in names]
    counts = {name: _placed(column, 0, places) for name, column in of.counts.items()}
    return Columns(names, _placed(of.cost, Decimal(0), places), counts)


def _placed(column: list[T], nothing: T, places: list[int]) -> list[T]:
    """The values at these places; at -1 there is nothing."""
    value: Callable[[int], T] = [*column, nothing].__getitem__
    return list(map(value, places))
