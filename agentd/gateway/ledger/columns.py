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

from agentd.gateway.ledger.daily_totals import RequestTotals
from agentd.llm.price import count_decimals, from_units, to_units

_COUNTS = (
    "requests", "ok", "streams", "estimated", "input", "cache_read", "cache_write",
    "cache_write_1h", "output", "reasoning", "received", "sent",
)  # fmt: skip
_KINDS = ("errors", "hidden")
_COST = "cost"
"""The column of costs, in units of the last decimal that any of them has."""
_DECIMALS = "decimals"
"""A bit for each number of decimals that was summed: the highest is that of the sum."""
_WORD_BYTES = 8
"""Bytes of the widest values for which there is a short way."""


class PackedColumn(Struct, array_like=True, frozen=True):
    """Whole numbers, none negative: as many bytes for each of them, the highest byte first."""

    bits: int
    """The most bits that any value has."""
    packed: bytes

    @property
    def width(self) -> int:
        """The bytes of each."""
        return _get_width(self.bits)

    def __getitem__(self, number: int) -> int:
        """Return an item."""
        width = self.width
        return int.from_bytes(self.packed[number * width : (number + 1) * width], "big")

    def unpack(self) -> Sequence[int]:
        """Iterate over all rows."""
        count = len(self.packed) // self.width
        if self.width <= _WORD_BYTES:
            return unpack(f">{count}Q", _resize(self.packed, self.width, _WORD_BYTES))
        return [self[number] for number in range(count)]

    def to_int(self, width: int) -> int:
        """Combine all values into one number, in which each has so many bytes."""
        return int.from_bytes(_resize(self.packed, self.width, width), "big")


class ColumnTable(Struct, frozen=True):
    """Rows by name, in the order of their names; nobody changes what is in them."""

    names: list[str]
    decimals: int
    """Decimals of the unit of costs."""
    columns: dict[str, PackedColumn]
    """The fields of ``RequestTotals``, those by kind as ``errors/<kind>``; without zeros alone."""

    def get_row(self, number: int) -> tuple[str, RequestTotals]:
        """Return a row."""
        made = RequestTotals(cost=self._get_cost(number))
        for name, column in self.columns.items():
            field, _, kind = name.partition("/")
            if kind and (count := column[number]):
                getattr(made, field)[kind] = count
            elif field in _COUNTS:
                setattr(made, field, column[number])
        return self.names[number], made

    def iter_rows(self) -> Iterator[tuple[str, RequestTotals]]:
        """Iterate over all rows."""
        return map(self.get_row, range(len(self.names)))

    def rank(self, *fields: str) -> list[int]:
        """Return the row numbers in descending order of the first field, then of the next."""
        order = list(range(len(self.names)))
        for field in reversed(fields):
            if field in self.columns:  # where it is equal, they stay as they are
                order.sort(key=self.columns[field].unpack().__getitem__, reverse=True)
        return order

    def _get_cost(self, number: int) -> Decimal:
        places = self._get_value(_DECIMALS, number).bit_length()
        units = self._get_value(_COST, number)
        return from_units(units // 10 ** (self.decimals - places), places)

    def _get_value(self, field: str, number: int) -> int:
        column = self.columns.get(field)
        return column[number] if column else 0


def pack_rows(rows: Iterable[tuple[str, RequestTotals]]) -> ColumnTable:
    """Convert rows with distinct names to columns."""
    listed = sorted(rows, key=itemgetter(0))
    places = [count_decimals(row.cost) for _, row in listed]
    most = max(places, default=0)
    values = {name: [getattr(row, name) for _, row in listed] for name in _COUNTS}
    values[_COST] = [to_units(row.cost, most) for _, row in listed]
    values[_DECIMALS] = [1 << one >> 1 for one in places]
    for field in _KINDS:
        for kind in sorted({kind for _, row in listed for kind in getattr(row, field)}):
            values[f"{field}/{kind}"] = [getattr(row, field).get(kind, 0) for _, row in listed]
    found = {name: _pack_column(column) for name, column in values.items() if any(column)}
    return ColumnTable([name for name, _ in listed], most, found)


def add_tables(parts: Sequence[ColumnTable]) -> ColumnTable:
    """Return the sum of them all, name by name."""
    names = parts[0].names if parts else []
    if not all(_is_same(part.names, names) for part in parts):
        names = sorted({name for part in parts for name in part.names})
    most = max((part.decimals for part in parts), default=0)
    found: dict[str, list[tuple[PackedColumn, int]]] = {}
    for part in parts:
        for field, column in _align(part, names).items():
            times = 10 ** (most - part.decimals) if field == _COST else 1
            found.setdefault(field, []).append((column, times))
    how = {_DECIMALS: or_}
    summed = {field: _add_columns(each, how.get(field, add)) for field, each in found.items()}
    return ColumnTable(names, most, summed)


class RankedRows(Sequence[tuple[str, RequestTotals]]):
    """The rows of columns, highest cost first."""

    def __init__(self, of: ColumnTable) -> None:
        self.of = of
        self._order = of.rank(_COST, "requests")

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, at: int) -> tuple[str, RequestTotals]: ...

    @overload
    def __getitem__(self, at: slice) -> list[tuple[str, RequestTotals]]: ...

    def __getitem__(
        self, at: int | slice
    ) -> tuple[str, RequestTotals] | list[tuple[str, RequestTotals]]:
        if isinstance(at, slice):
            return [self.of.get_row(number) for number in self._order[at]]
        return self.of.get_row(self._order[at])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


def _pack_column(values: Sequence[int]) -> PackedColumn:
    bits = max(values).bit_length()
    width = _get_width(bits)
    if width > _WORD_BYTES:
        return PackedColumn(bits, b"".join(value.to_bytes(width, "big") for value in values))
    return PackedColumn(bits, _resize(pack(f">{len(values)}Q", *values), _WORD_BYTES, width))


def _get_width(bits: int) -> int:
    return (bits + 7) // 8


def _resize(packed: bytes, width: int, wanted: int) -> bytes:
    """Return the same numbers with more bytes for each, or with fewer, where what goes is zeros."""
    if width == wanted:
        return packed
    made = bytearray(len(packed) // width * wanted)
    for place in range(1, min(width, wanted) + 1):
        made[wanted - place :: wanted] = packed[width - place :: width]
    return bytes(made)


def _add_columns(
    columns: Sequence[tuple[PackedColumn, int]], how: Callable[[int, int], int]
) -> PackedColumn:
    """Return the weighted sum of columns, wide enough that no row overflows."""
    bits = sum(times << column.bits for column, times in columns).bit_length()
    width, (one, _) = _get_width(bits), columns[0]
    each = (column.to_int(width) * times for column, times in columns)
    size = len(one.packed) // one.width * width
    return PackedColumn(bits, reduce(how, each).to_bytes(size, "big"))


def _align(of: ColumnTable, names: list[str]) -> Mapping[str, PackedColumn]:
    """Return the columns with zeros for the names they lack; ``names`` contains their own."""
    if _is_same(of.names, names):
        return of.columns
    own = set(of.names)
    runs = [(there, len(list(run))) for there, run in groupby(map(own.__contains__, names))]
    return {field: _fill_gaps(column, runs) for field, column in of.columns.items()}


def _is_same(names: list[str], others: list[str]) -> bool:
    return names is others or names == others


def _fill_gaps(column: PackedColumn, runs: Iterable[tuple[bool, int]]) -> PackedColumn:
    """Return the column with zeros inserted: ``runs`` are lengths of values or of zeros."""
    pieces, at = [], 0
    for there, count in runs:
        size = count * column.width
        pieces.append(column.packed[at : at + size] if there else bytes(size))
        at += size if there else 0
    return PackedColumn(column.bits, b"".join(pieces))
