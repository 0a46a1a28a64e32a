"""Totals of many names as columns: thousands of rows are added up in a few long steps then.

A column is one long number in which every row has as many bytes as the largest value needs. So one
addition adds up two columns: they are made so wide before that no row runs over into the next one.
A row is made only where somebody looks at it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from itertools import groupby
from operator import add, itemgetter, or_
from struct import pack, unpack
from typing import overload

from msgspec import Struct

from agentd.proxy.price import decimals, from_units, in_units
from agentd.proxy.tally import Totals

_COUNTS = (
    "requests", "ok", "streams", "estimated", "input", "cache_read", "cache_write",
    "cache_write_1h", "output", "reasoning", "received", "sent",
)  # fmt: skip
_KINDS = ("errors", "hidden")
_COST = "cost"
"""In units of the last decimal that any cost of the columns has."""
_DECIMALS = "decimals"
"""A bit for each number of decimals that was added up: the highest tells how a sum is written."""
_FAST = 8
"""Bytes of the widest values for which there is a short way."""


class Column(Struct, array_like=True, frozen=True):
    """Whole numbers, none negative: as many bytes for each of them, the highest byte first."""

    bits: int
    """None of them has more."""
    packed: bytes

    @property
    def width(self) -> int:
        """The bytes of each."""
        return _width(self.bits)

    def __getitem__(self, number: int) -> int:
        """One of them."""
        width = self.width
        return int.from_bytes(self.packed[number * width : (number + 1) * width], "big")

    def values(self) -> Sequence[int]:
        """All of them."""
        count = len(self.packed) // self.width
        if self.width <= _FAST:
            return unpack(f">{count}Q", _resized(self.packed, self.width, _FAST))
        return [self[number] for number in range(count)]

    def as_one(self, width: int) -> int:
        """All of them as one number, in which each has so many bytes."""
        return int.from_bytes(_resized(self.packed, self.width, width), "big")


class Columns(Struct, frozen=True):
    """Rows by name, in the order of their names; nobody changes what is in them."""

    names: list[str]
    decimals: int
    """Those of the unit in which costs are told."""
    columns: dict[str, Column]
    """The fields of ``Totals``, those by kind as ``errors/<kind>``; without zeros alone."""

    def row(self, number: int) -> tuple[str, Totals]:
        """One of the rows."""
        made = Totals(cost=self._cost(number))
        for name, column in self.columns.items():
            field, _, kind = name.partition("/")
            if kind and (count := column[number]):
                getattr(made, field)[kind] = count
            elif field in _COUNTS:
                setattr(made, field, column[number])
        return self.names[number], made

    def rows(self) -> Iterator[tuple[str, Totals]]:
        """All of them."""
        return map(self.row, range(len(self.names)))

    def ranked(self, *fields: str) -> list[int]:
        """The numbers of the rows: those with the most of the first field first, then the next."""
        order = list(range(len(self.names)))
        for field in reversed(fields):
            if field in self.columns:  # where it is equal, they stay as they are
                order.sort(key=self.columns[field].values().__getitem__, reverse=True)
        return order

    def _cost(self, number: int) -> Decimal:
        places = self._at(_DECIMALS, number).bit_length()
        units = self._at(_COST, number)
        return from_units(units // 10 ** (self.decimals - places), places)

    def _at(self, field: str, number: int) -> int:
        column = self.columns.get(field)
        return column[number] if column else 0


NOTHING = Columns([], 0, {})


def columns(rows: Iterable[tuple[str, Totals]]) -> Columns:
    """Rows, each name once, as columns."""
    listed = sorted(rows, key=itemgetter(0))
    places = [decimals(row.cost) for _, row in listed]
    most = max(places, default=0)
    values = {name: [getattr(row, name) for _, row in listed] for name in _COUNTS}
    values[_COST] = [in_units(row.cost, most) for _, row in listed]
    values[_DECIMALS] = [1 << one >> 1 for one in places]
    for field in _KINDS:
        for kind in sorted({kind for _, row in listed for kind in getattr(row, field)}):
            values[f"{field}/{kind}"] = [getattr(row, field).get(kind, 0) for _, row in listed]
    found = {name: _column(column) for name, column in values.items() if any(column)}
    return Columns([name for name, _ in listed], most, found)


def added(parts: Sequence[Columns]) -> Columns:
    """The sum of them all, name by name."""
    names = parts[0].names if parts else []
    if not all(_same(part.names, names) for part in parts):
        names = sorted({name for part in parts for name in part.names})
    most = max((part.decimals for part in parts), default=0)
    found: dict[str, list[tuple[Column, int]]] = {}
    for part in parts:
        for field, column in _spread(part, names).items():
            times = 10 ** (most - part.decimals) if field == _COST else 1
            found.setdefault(field, []).append((column, times))
    how = {_DECIMALS: or_}
    summed = {field: _sum(each, how.get(field, add)) for field, each in found.items()}
    return Columns(names, most, summed)


class Ranked(Sequence[tuple[str, Totals]]):
    """The rows of columns, the dearest first."""

    def __init__(self, of: Columns) -> None:
        self.of = of
        self._order = of.ranked(_COST, "requests")

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


def _column(values: Sequence[int]) -> Column:
    bits = max(values).bit_length()
    width = _width(bits)
    if width > _FAST:
        return Column(bits, b"".join(value.to_bytes(width, "big") for value in values))
    return Column(bits, _resized(pack(f">{len(values)}Q", *values), _FAST, width))


def _width(bits: int) -> int:
    return (bits + 7) // 8


def _resized(packed: bytes, width: int, wanted: int) -> bytes:
    """The same numbers with more bytes for each, or with fewer, where what goes is zeros."""
    if width == wanted:
        return packed
    made = bytearray(len(packed) // width * wanted)
    for place in range(1, min(width, wanted) + 1):
        made[wanted - place :: wanted] = packed[width - place :: width]
    return bytes(made)


def _sum(columns: Sequence[tuple[Column, int]], how: Callable[[int, int], int]) -> Column:
    """The sum of columns, each so many times; so wide that no row can run over."""
    bits = sum(times << column.bits for column, times in columns).bit_length()
    width, (one, _) = _width(bits), columns[0]
    each = (column.as_one(width) * times for column, times in columns)
    size = len(one.packed) // one.width * width
    return Column(bits, reduce(how, each).to_bytes(size, "big"))


def _spread(of: Columns, names: list[str]) -> Mapping[str, Column]:
    """The columns with rows of zeros where there is none of a name; all own names are in there."""
    if _same(of.names, names):
        return of.columns
    own = set(of.names)
    runs = [(there, len(list(run))) for there, run in groupby(map(own.__contains__, names))]
    return {field: _stretched(column, runs) for field, column in of.columns.items()}


def _same(names: list[str], others: list[str]) -> bool:
    return names is others or names == others


def _stretched(column: Column, runs: Iterable[tuple[bool, int]]) -> Column:
    """The next so many values, or so many zeros, one run after the other."""
    pieces, at = [], 0
    for there, count in runs:
        size = count * column.width
        pieces.append(column.packed[at : at + size] if there else bytes(size))
        at += size if there else 0
    return Column(column.bits, b"".join(pieces))
