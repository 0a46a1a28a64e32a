"""A day's totals, as stored in ``reports/YYYY-MM-DD.json``.

The first line is the head; then come its parts (``sliced_table``), so that a question reads only
what it is about. Everything here blocks.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from agentd.gateway.ledger.columns import ColumnTable, PackedColumn, pack_rows
from agentd.gateway.ledger.daily_totals import (
    DIMENSIONS,
    GROUPS,
    TIMED_DIMENSIONS,
    Cell,
    DailyTotals,
    Dimension,
    Figures,
    RequestTotals,
    ResponseTimes,
    TotalsTable,
    to_spent,
)
from agentd.gateway.ledger.day_file import ReadPosition
from agentd.gateway.ledger.sliced_table import (
    Decoder,
    Rows,
    SlicedTable,
    SliceIndex,
    create_decoder,
    encode_table,
    read_header,
)
from agentd.gateway.limits.spend_by_quarter_hour import KeySpend, format_shared_account
from agentd.gateway.reports.reports import EVERYTHING, ReportFilter
from agentd.storage.checksummed_json import ChecksumMismatch, encode_checksummed
from agentd.storage.document import replace_document
from agentd.storage.layout import Layout

T = TypeVar("T")

FORMAT = 2


class CorruptReport(ChecksumMismatch):
    """A part of a report is not what was written; ``day`` is empty where it is of several."""

    def __init__(self, path: str, day: str, why: str) -> None:
        super().__init__(why)
        self.path = path
        self.day = day


class DayReportHead(Struct, frozen=True):
    """The first line of a report."""

    format: int
    day: str
    position: ReadPosition
    """The part of the day's file that the report covers."""
    mtime_ns: int
    """The file's time of change when it had just that size; 0 if it was being written to."""
    total: Figures
    parts: dict[str, SliceIndex]
    slot: int = 60
    """Minutes of the slots into which its hours are cut."""


class DayFold:
    """A day that is being added up, in memory."""

    def __init__(self, day: str, slot: int = 60) -> None:
        self.day = day
        self.position = ReadPosition()
        self.mtime_ns = 0
        self.inode = 0
        self.totals = DailyTotals(slot)
        self.saved = (0, 0)
        """Lines and time of change that its report covers."""

    @property
    def slot(self) -> int:
        """Minutes of the slots into which its hours are cut."""
        return self.totals.slot

    @property
    def total(self) -> Figures:
        """All requests of the day, added up."""
        return self.totals.total

    def get_key_names(self, keys: Collection[str] | None = None) -> Mapping[str, str]:
        """Return the last name of each key, or of some."""
        return _select(self.totals.names, keys)

    def iter_rows(self, side: Dimension) -> Iterator[tuple[str, RequestTotals]]:
        """Yield the day from one side."""
        yield from _list_rows(side, self.totals.tables[side], self.total.totals)

    def get_columns(self, side: Dimension) -> ColumnTable:
        """Return the same, as columns."""
        return pack_rows(self.iter_rows(side))

    def iter_times(
        self, side: Dimension, names: Collection[str] | None = None
    ) -> Iterator[tuple[str, ResponseTimes]]:
        """Iterate over response times by a dimension of ``TIMED_DIMENSIONS``, or of some names."""
        yield from _select(self.totals.times[side], names).items()

    def get_row(self, side: Dimension, name: str) -> RequestTotals | None:
        """Return a row of a dimension."""
        return self.totals.tables[side].get(name)

    def iter_cells(self, only: ReportFilter = EVERYTHING) -> Iterator[tuple[Cell, Figures]]:
        """Iterate over the cells, all or those of the filter."""
        for cell, figures in self.totals.cells.items():
            if only.matches(cell):
                yield cell, figures

    def iter_leaks(self, only: ReportFilter = EVERYTHING) -> Iterator[tuple[str, str, int]]:
        """Iterate over the secrets that were found: key, rule and how many."""
        if only != EVERYTHING:
            yield from _iter_cell_leaks(self.iter_cells(only))
            return
        for key, totals in self.totals.tables["key"].items():
            for rule, count in totals.hidden.items():
                yield key, rule, count

    def get_spent(self) -> dict[str, KeySpend]:
        """Return each account's spend."""
        return _get_spent(self)

    def get_quarters(self) -> dict[int, dict[str, KeySpend]]:
        """Return each account's spend by quarter hour."""
        return self.totals.quarters


class _CellRow(Struct, array_like=True, frozen=True, gc=False):
    """A cell by one of its names: the others, its figures, and owner and tags if there are any."""

    hour: str
    second: str
    """The model, or of cells by model the channel."""
    third: str
    """The channel, or the key."""
    totals: RequestTotals
    times: ResponseTimes
    owner: str = ""
    tags: tuple[str, ...] = ()


class _ColumnHeader(Struct, frozen=True):
    """The header that the columns of a dimension share."""

    names: Raw
    decimals: int


_heads = msgspec.json.Decoder(DayReportHead)


def read_report_position(layout: Layout, day: str) -> ReadPosition:
    """Return the position in the day's file up to which its report was made.

    Raises ``ChecksumMismatch`` or ``OSError``.
    """
    return read_header(layout.get_ledger_report_path(day), _heads)[0].position


_names = create_decoder(str)
_totals = create_decoder(RequestTotals)
_times = create_decoder(ResponseTimes)
_cells = create_decoder(_CellRow)
_leaks = create_decoder(tuple[str, int])
_quarters = create_decoder(dict[str, KeySpend])
_headers = create_decoder(_ColumnHeader)
_packed_columns = create_decoder(PackedColumn)
_raw = create_decoder(Raw)
_one_times = msgspec.json.Decoder(ResponseTimes)


class StoredReport:
    """The sides of one or more days in a file; ``day`` is the day of a single one."""

    def __init__(self, path: str, day: str, total: Figures, parts: SlicedTable) -> None:
        self._path = path
        self._day = day
        self._total = total
        self._parts = parts

    @property
    def total(self) -> Figures:
        """All requests, added up."""
        return self._total

    def get_key_names(self, keys: Collection[str] | None = None) -> Mapping[str, str]:
        """Return the last name of each key, or of some: little is read then."""
        return dict(self._read("names", _names, keys))

    def iter_rows(self, side: Dimension) -> Iterator[tuple[str, RequestTotals]]:
        """Iterate over all rows of one dimension."""
        if side in GROUPS and side not in self._parts:
            return iter(_list_rows(side, {}, self._total.totals))
        return self._read(side, _totals)

    def get_columns(self, side: Dimension) -> ColumnTable:
        """Return the same, as columns; what an earlier agentd wrote has others, or none."""
        if f"{side}/listed" not in self._parts:
            return pack_rows(self.iter_rows(side))
        listed = dict(self._read(f"{side}/listed", _headers))[""]
        packed = dict(self._read(f"{side}/packed", _packed_columns))
        return ColumnTable(_decode_names(bytes(listed.names)), listed.decimals, packed)

    def iter_times(
        self, side: Dimension, names: Collection[str] | None = None
    ) -> Iterator[tuple[str, ResponseTimes]]:
        """Iterate over response times by a dimension of ``TIMED_DIMENSIONS``, or of some names."""
        if names is None:
            yield from self._read(f"{side}/times", _times)
            return
        for name, row in self._read(f"{side}/times", _raw, names):
            try:
                yield name, _one_times.decode(row)
            except msgspec.DecodeError as error:
                why = f"how long {name} took is of an unknown form: {error}"
                raise CorruptReport(self._path, self._day, why) from error

    def get_row(self, side: Dimension, name: str) -> RequestTotals | None:
        """Return a row of a dimension."""
        if side in GROUPS and side not in self._parts:
            return None
        return dict(self._read(side, _totals, {name})).get(name)

    def _read(
        self, part: str, kind: "Decoder[T]", names: Collection[str] | None = None
    ) -> Iterator[tuple[str, T]]:
        """Yield the rows of a part, or those of some names."""
        return chain.from_iterable(self._iter_slices(part, kind, names))

    def _iter_slices(
        self, part: str, kind: "Decoder[T]", names: Collection[str] | None
    ) -> Iterator[list[tuple[str, T]]]:
        try:
            yield from self._parts.iter_slices(part, kind, names)
        except ChecksumMismatch as error:
            raise CorruptReport(self._path, self._day, str(error)) from error


class DayReportFile(StoredReport):
    """A day's report in its file; a part is read when it is asked for.

    What is read raises ``CorruptReport`` where it was altered, and ``OSError``.
    """

    def __init__(self, layout: Layout, day: str) -> None:
        path = layout.get_ledger_report_path(day)
        self.head, size = read_header(path, _heads)
        has_old_groups = "shared" in self.head.parts  # owners and tags that no cell has
        if self.head.format != FORMAT or self.head.day != day or has_old_groups:
            raise ChecksumMismatch("it is of another format or day")
        super().__init__(path, day, self.head.total, SlicedTable(path, size, self.head.parts))

    @property
    def position(self) -> ReadPosition:
        """The part of the day's file that the report covers."""
        return self.head.position

    @property
    def slot(self) -> int:
        """Minutes of the slots into which its hours are cut."""
        return self.head.slot

    def iter_cells(self, only: ReportFilter = EVERYTHING) -> Iterator[tuple[Cell, Figures]]:
        """Iterate over the cells, all or those of the filter."""
        if not self._has_groups(only):
            return
        for cell, figures in (
            self._iter_model_cells(only) if self._is_by_model(only) else self._iter_key_cells(only)
        ):
            if only.matches(cell):
                yield cell, figures

    def _has_groups(self, only: ReportFilter) -> bool:
        """Return whether the owner and the tag of the filter are known on this day."""
        wanted: tuple[tuple[Dimension, str], ...] = (("owner", only.owner), ("tag", only.tag))
        return all(not name or self.get_row(side, name) for side, name in wanted)

    def _is_by_model(self, only: ReportFilter) -> bool:
        """Return whether few models are requested; an older report may lack cells by model."""
        return bool(only.model or only.channel) and not only.key and "cells/model" in self._parts

    def _iter_model_cells(self, only: ReportFilter) -> Iterator[tuple[Cell, Figures]]:
        pairs = self._read("ways", _names, {only.channel})
        models = {only.model} if only.model else {model for _, model in pairs}
        for model, row in self._read("cells/model", _cells, models):
            cell = Cell(row.hour, model, row.second, row.third, row.owner, row.tags)
            yield cell, Figures(row.totals, row.times)

    def _iter_key_cells(self, only: ReportFilter) -> Iterator[tuple[Cell, Figures]]:
        keys = {only.key} if only.key else None
        for key, row in self._read("cells", _cells, keys):
            cell = Cell(row.hour, row.second, row.third, key, row.owner, row.tags)
            yield cell, Figures(row.totals, row.times)

    def iter_leaks(self, only: ReportFilter = EVERYTHING) -> Iterator[tuple[str, str, int]]:
        """Iterate over the secrets that were found: key, rule and how many."""
        if only != EVERYTHING:
            yield from _iter_cell_leaks(self.iter_cells(only))
            return
        for key, (rule, count) in self._read("leaks", _leaks):
            yield key, rule, count

    def get_spent(self) -> dict[str, KeySpend]:
        """Return each account's spend."""
        return _get_spent(self)

    def get_quarters(self) -> dict[int, dict[str, KeySpend]]:
        """Return each account's spend by quarter hour."""
        return {int(number): keys for number, keys in self._read("quarters", _quarters)}

    def to_fold(self) -> DayFold:
        """Return the same in memory, to be read on."""
        fold = DayFold(self.head.day, self.head.slot)
        fold.position, fold.mtime_ns = self.head.position.copy(), self.head.mtime_ns
        fold.saved = fold.position.lines, fold.mtime_ns
        tally = fold.totals
        tally.names, tally.quarters = dict(self.get_key_names()), self.get_quarters()
        sides = [side for side in DIMENSIONS if side in self._parts]
        tally.restore(
            self.head.total.copy(),
            dict(self.iter_cells()),
            {side: dict(self.iter_rows(side)) if side in sides else {} for side in DIMENSIONS},
            {side: dict(self.iter_times(side)) for side in TIMED_DIMENSIONS},
        )
        return fold


def write_report(layout: Layout, fold: DayFold) -> None:
    """Replace a day's report by what it adds up to now. Raises ``Unavailable``."""
    tally = fold.totals
    parts: dict[str, Rows] = {"names": sorted(tally.names.items())}
    parts["quarters"] = ((f"{one:02d}", keys) for one, keys in sorted(tally.quarters.items()))
    sides = [side for side in DIMENSIONS if side not in GROUPS or tally.tables[side]]
    parts |= {side: sorted(tally.tables[side].items(), key=_get_name) for side in sides}
    for side in sides[1:]:  # those that may have many names
        parts |= encode_columns(side, fold.get_columns(side))
    parts |= {
        f"{side}/times": sorted(tally.times[side].items(), key=_get_name)
        for side in TIMED_DIMENSIONS
    }
    parts["cells"], parts["cells/model"] = _group_cells(tally, "key"), _group_cells(tally, "model")
    parts["ways"] = sorted({(cell.channel, cell.model) for cell in tally.cells})
    parts["leaks"] = sorted((key, (rule, count)) for key, rule, count in fold.iter_leaks())
    places, lines = encode_table(parts)
    head = DayReportHead(
        FORMAT, fold.day, fold.position, fold.mtime_ns, tally.total, places, fold.slot
    )
    replace_document(
        layout.get_ledger_report_path(fold.day), encode_checksummed(head) + b"".join(lines)
    )
    fold.saved = fold.position.lines, fold.mtime_ns


def encode_columns(side: Dimension, of: ColumnTable) -> dict[str, Rows]:
    """Return the columns of a side as they are kept."""
    listed = {"names": of.names, "decimals": of.decimals}
    return {
        f"{side}/listed": [("", listed)],
        f"{side}/packed": sorted(of.columns.items(), key=_get_name),
    }


@lru_cache(8)
def _decode_names(listed: bytes) -> list[str]:
    """Return the names of columns, which are the same from day to day, mostly."""
    return msgspec.json.decode(listed, type=list[str])


def _select(rows: Mapping[str, T], names: Collection[str] | None) -> Mapping[str, T]:
    return rows if names is None else {name: rows[name] for name in names if name in rows}


def _get_name(row: tuple[str, object]) -> str:
    return row[0]


def _group_cells(tally: DailyTotals, side: Literal["model", "key"]) -> Iterator[tuple[str, object]]:
    """Yield the cells of each name together: to sort them all would take long in one piece."""
    names: dict[str, list[tuple[Cell, Figures]]] = {}
    for cell, figures in tally.cells.items():
        names.setdefault(getattr(cell, side), []).append((cell, figures))
    for name, cells in sorted(names.items(), key=_get_name):
        for (hour, model, channel, key, owner, tags), figures in cells:
            others = (hour, channel, key) if side == "model" else (hour, model, channel)
            groups = (owner, tags) if owner or tags else ()
            yield name, (*others, *figures, *groups)


def _list_rows(
    side: Dimension, table: TotalsTable, total: RequestTotals
) -> Iterable[tuple[str, RequestTotals]]:
    """Return a table's rows; where no owner or tag is known, all requests have none."""
    is_known = side not in GROUPS or table or not total.requests
    return table.items() if is_known else [("", total)]


def _iter_cell_leaks(
    cells: Iterable[tuple[Cell, Figures]],
) -> Iterator[tuple[str, str, int]]:
    for cell, figures in cells:
        for rule, count in figures.totals.hidden.items():
            yield cell.key, rule, count


def _get_spent(day: DayFold | StoredReport) -> dict[str, KeySpend]:
    spent = {key: to_spent(totals) for key, totals in day.iter_rows("key")}
    for side in GROUPS:
        for name, totals in day.iter_rows(side):
            if name:
                spent[format_shared_account(side, name)] = to_spent(totals)
    return spent
