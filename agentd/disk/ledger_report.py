"""What a day of the ledger adds up to, as it is kept in ``reports/YYYY-MM-DD.json``.

The first line is the head; then come its parts (``ledger_parts``), so that a question reads only
what it is about. Everything here blocks.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from agentd.disk.document import replace
from agentd.disk.layout import Layout
from agentd.disk.ledger_file import Standing
from agentd.disk.ledger_parts import Decoder, Parts, Place, Rows, decoder, head_of, laid_out
from agentd.disk.lines import Broken, seal
from agentd.proxy.columns import Column, Columns, columns
from agentd.proxy.reports import EVERYTHING, Only
from agentd.proxy.sums import Spent
from agentd.proxy.tally import SIDES, TIMED, Cell, Figures, Side, Tally, Times, Totals, spent

T = TypeVar("T")

FORMAT = 2


class BrokenReport(Broken):
    """A part of a report is not what was written; ``day`` is empty where it is of several."""

    def __init__(self, path: str, day: str, why: str) -> None:
        super().__init__(why)
        self.path = path
        self.day = day


class Head(Struct, frozen=True):
    """The first line of a report."""

    format: int
    day: str
    standing: Standing
    """What of the day's file it was made from."""
    mtime_ns: int
    """The file's time of change when it had just that size; 0: it was being written to."""
    total: Figures
    parts: dict[str, Place]
    slot: int = 60
    """Minutes of the slots into which its hours are cut."""


class Fold:
    """A day that is being added up, in memory."""

    def __init__(self, day: str, slot: int = 60) -> None:
        self.day = day
        self.standing = Standing()
        self.mtime_ns = 0
        self.inode = 0
        self.tally = Tally(slot)
        self.saved = (0, 0)
        """Lines and time of change that its report covers."""

    @property
    def slot(self) -> int:
        """Minutes of the slots into which its hours are cut."""
        return self.tally.slot

    @property
    def total(self) -> Figures:
        """All requests of the day in one."""
        return self.tally.total

    def names(self, keys: Collection[str] | None = None) -> Mapping[str, str]:
        """The last name of each key, or of some."""
        return _some(self.tally.names, keys)

    def rows(self, side: Side) -> Iterator[tuple[str, Totals]]:
        """The day from one side."""
        yield from self.tally.tables[side].items()

    def columns(self, side: Side) -> Columns:
        """The same, as columns."""
        return columns(self.rows(side))

    def times(
        self, side: Side, names: Collection[str] | None = None
    ) -> Iterator[tuple[str, Times]]:
        """How long it took, from a side that is ``TIMED``, or the rows of some names."""
        yield from _some(self.tally.times[side], names).items()

    def row(self, side: Side, name: str) -> Totals | None:
        """One row of a side."""
        return self.tally.tables[side].get(name)

    def cells(self, only: Only = EVERYTHING) -> Iterator[tuple[Cell, Figures]]:
        """All that is kept apart, or what is asked for of it."""
        for cell, figures in self.tally.cells.items():
            if only.fits(cell):
                yield cell, figures

    def leaks(self) -> Iterator[tuple[str, str, int]]:
        """Secrets that were found: the key, the rule and how many."""
        for key, totals in self.tally.tables["key"].items():
            for rule, count in totals.hidden.items():
                yield key, rule, count

    def spent(self) -> dict[str, Spent]:
        """What each key spent."""
        return {key: spent(totals) for key, totals in self.tally.tables["key"].items()}

    def quarters(self) -> dict[int, dict[str, Spent]]:
        """What each key spent, by the quarter of an hour."""
        return self.tally.quarters


class _Listed(Struct, frozen=True):
    """What the columns of a side have in common."""

    names: Raw
    decimals: int


_heads = msgspec.json.Decoder(Head)


def report_standing(layout: Layout, day: str) -> Standing:
    """What of a day's file its report was made from. Raises ``Broken`` or ``OSError``."""
    return head_of(layout.ledger_report(day), _heads)[0].standing


_names = decoder(str)
_totals = decoder(Totals)
_times = decoder(Times)
_cells = decoder(tuple[str, str, str, Totals, Times])
_leaks = decoder(tuple[str, int])
_quarters = decoder(dict[str, Spent])
_listed = decoder(_Listed)
_packed = decoder(Column)
_raw = decoder(Raw)
_one_times = msgspec.json.Decoder(Times)


class Stored:
    """The sides of one or more days in a file; ``day`` is the day of a single one."""

    def __init__(self, path: str, day: str, parts: Parts) -> None:
        self._path = path
        self._day = day
        self._parts = parts

    def names(self, keys: Collection[str] | None = None) -> Mapping[str, str]:
        """The last name of each key, or of some: little is read then."""
        return dict(self._read("names", _names, keys))

    def rows(self, side: Side) -> Iterator[tuple[str, Totals]]:
        """All of it from one side."""
        return self._read(side, _totals)

    def columns(self, side: Side) -> Columns:
        """The same, as columns; what an earlier agentd wrote has others, or none."""
        if f"{side}/listed" not in self._parts:
            return columns(self.rows(side))
        listed = dict(self._read(f"{side}/listed", _listed))[""]
        packed = dict(self._read(f"{side}/packed", _packed))
        return Columns(_names_of(bytes(listed.names)), listed.decimals, packed)

    def times(
        self, side: Side, names: Collection[str] | None = None
    ) -> Iterator[tuple[str, Times]]:
        """How long it took, from a side that is ``TIMED``, or the rows of some names."""
        if names is None:
            yield from self._read(f"{side}/times", _times)
            return
        for name, row in self._read(f"{side}/times", _raw, names):
            try:
                yield name, _one_times.decode(row)
            except msgspec.DecodeError as error:
                why = f"how long {name} took is of an unknown form: {error}"
                raise BrokenReport(self._path, self._day, why) from error

    def row(self, side: Side, name: str) -> Totals | None:
        """One row of a side."""
        return dict(self._read(side, _totals, {name})).get(name)

    def _read(
        self, part: str, kind: "Decoder[T]", names: Collection[str] | None = None
    ) -> Iterator[tuple[str, T]]:
        """The rows of a part, or those of some names."""
        return chain.from_iterable(self._slices(part, kind, names))

    def _slices(
        self, part: str, kind: "Decoder[T]", names: Collection[str] | None
    ) -> Iterator[list[tuple[str, T]]]:
        try:
            yield from self._parts.slices(part, kind, names)
        except Broken as error:
            raise BrokenReport(self._path, self._day, str(error)) from error


class Report(Stored):
    """A day's report in its file; a part is read when it is asked for.

    What is read raises ``BrokenReport`` where it was altered, and ``OSError``.
    """

    def __init__(self, layout: Layout, day: str) -> None:
        path = layout.ledger_report(day)
        self.head, size = head_of(path, _heads)
        if self.head.format != FORMAT or self.head.day != day:
            raise Broken("it is of another format or day")
        super().__init__(path, day, Parts(path, size, self.head.parts))

    @property
    def total(self) -> Figures:
        """All requests of the day in one."""
        return self.head.total

    @property
    def standing(self) -> Standing:
        """What of the day's file it was made from."""
        return self.head.standing

    @property
    def slot(self) -> int:
        """Minutes of the slots into which its hours are cut."""
        return self.head.slot

    def cells(self, only: Only = EVERYTHING) -> Iterator[tuple[Cell, Figures]]:
        """All that is kept apart, or what is asked for of it."""
        for cell, figures in self._of_models(only) if self._by_model(only) else self._of_keys(only):
            if only.fits(cell):
                yield cell, figures

    def _by_model(self, only: Only) -> bool:
        """Whether few models are asked for; a report of earlier days may not tell them apart."""
        return bool(only.model or only.channel) and not only.key and "cells/model" in self._parts

    def _of_models(self, only: Only) -> Iterator[tuple[Cell, Figures]]:
        ways = self._read("ways", _names, {only.channel})
        models = {only.model} if only.model else {model for _, model in ways}
        for model, row in self._read("cells/model", _cells, models):
            hour, channel, key, totals, times = row
            yield Cell(hour, model, channel, key), Figures(totals, times)

    def _of_keys(self, only: Only) -> Iterator[tuple[Cell, Figures]]:
        keys = {only.key} if only.key else None
        for key, (hour, model, channel, totals, times) in self._read("cells", _cells, keys):
            yield Cell(hour, model, channel, key), Figures(totals, times)

    def leaks(self) -> Iterator[tuple[str, str, int]]:
        """Secrets that were found: the key, the rule and how many."""
        for key, (rule, count) in self._read("leaks", _leaks):
            yield key, rule, count

    def spent(self) -> dict[str, Spent]:
        """What each key spent."""
        return {key: spent(totals) for key, totals in self.rows("key")}

    def quarters(self) -> dict[int, dict[str, Spent]]:
        """What each key spent, by the quarter of an hour."""
        return {int(number): keys for number, keys in self._read("quarters", _quarters)}

    def fold(self) -> Fold:
        """The same in memory, to be read on."""
        fold = Fold(self.head.day, self.head.slot)
        fold.standing, fold.mtime_ns = self.head.standing, self.head.mtime_ns
        fold.saved = fold.standing.lines, fold.mtime_ns
        tally = fold.tally
        tally.names, tally.quarters = dict(self.names()), self.quarters()
        tally.take_up(
            self.head.total.copied(),
            dict(self.cells()),
            {side: dict(self.rows(side)) for side in SIDES},
            {side: dict(self.times(side)) for side in TIMED},
        )
        return fold


def write_report(layout: Layout, fold: Fold) -> None:
    """Replace a day's report by what it adds up to now. Raises ``Unavailable``."""
    tally = fold.tally
    parts: dict[str, Rows] = {"names": sorted(tally.names.items())}
    parts["quarters"] = ((f"{one:02d}", keys) for one, keys in sorted(tally.quarters.items()))
    parts |= {side: sorted(tally.tables[side].items(), key=_name) for side in SIDES}
    for side in ("model", "channel", "key"):
        parts |= in_columns(side, fold.columns(side))
    parts |= {f"{side}/times": sorted(tally.times[side].items(), key=_name) for side in TIMED}
    parts["cells"], parts["cells/model"] = _cells_by(tally, "key"), _cells_by(tally, "model")
    parts["ways"] = sorted({(cell.channel, cell.model) for cell in tally.cells})
    parts["leaks"] = sorted((key, (rule, count)) for key, rule, count in fold.leaks())
    places, lines = laid_out(parts)
    head = Head(FORMAT, fold.day, fold.standing, fold.mtime_ns, tally.total, places, fold.slot)
    replace(layout.ledger_report(fold.day), seal(head) + b"".join(lines))
    fold.saved = fold.standing.lines, fold.mtime_ns


def in_columns(side: Side, of: Columns) -> dict[str, Rows]:
    """The columns of a side as they are kept."""
    listed = {"names": of.names, "decimals": of.decimals}
    return {
        f"{side}/listed": [("", listed)],
        f"{side}/packed": sorted(of.columns.items(), key=_name),
    }


@lru_cache(8)
def _names_of(listed: bytes) -> list[str]:
    """The names of columns, which are the same from day to day, mostly."""
    return msgspec.json.decode(listed, type=list[str])


def _some(rows: Mapping[str, T], names: Collection[str] | None) -> Mapping[str, T]:
    return rows if names is None else {name: rows[name] for name in names if name in rows}


def _name(row: tuple[str, object]) -> str:
    return row[0]


def _cells_by(tally: Tally, side: Literal["model", "key"]) -> Iterator[tuple[str, object]]:
    """The cells of each name together: to sort them all would take long in one piece."""
    names: dict[str, list[tuple[Cell, Figures]]] = {}
    for cell, figures in tally.cells.items():
        names.setdefault(getattr(cell, side), []).append((cell, figures))
    for name, cells in sorted(names.items(), key=_name):
        for (hour, model, channel, key), figures in cells:
            others = (hour, channel, key) if side == "model" else (hour, model, channel)
            yield name, (*others, *figures)
