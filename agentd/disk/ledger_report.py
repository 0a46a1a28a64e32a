"""What a day of the ledger adds up to, as it is kept in ``reports/YYYY-MM-DD.json``.

The first line is the head; each line after it is a part, of which the head tells where it is, so
that a question reads only what it is about. Every line is sealed. Everything here blocks.
"""

import os
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from agentd.disk.document import replace
from agentd.disk.layout import Layout
from agentd.disk.ledger_file import Standing
from agentd.disk.lines import Broken, seal, unseal
from agentd.proxy.sums import Spent
from agentd.proxy.tally import SIDES, Cell, Side, Table, Tally, Totals, sum_of

T = TypeVar("T")

FORMAT = 1
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class BrokenReport(Broken):
    """A part of a day's report is not what was written."""

    def __init__(self, day: str, why: str) -> None:
        super().__init__(why)
        self.day = day


class Head(Struct, frozen=True):
    """The first line of a report."""

    format: int
    day: str
    standing: Standing
    """What of the day's file it was made from."""
    mtime_ns: int
    """The file's time of change when it had just that size; 0: it was being written to."""
    total: Totals
    names: dict[str, str]
    """The last name of each key."""
    parts: dict[str, tuple[int, int]]
    """Where each part begins, counted from the head's end, and its bytes."""


class Rows(Struct, Generic[T], frozen=True):
    """A part."""

    rows: T


_heads = msgspec.json.Decoder(Head)
_spent = msgspec.json.Decoder(Rows[dict[str, Spent]])
_quarters = msgspec.json.Decoder(Rows[dict[int, dict[str, Spent]]])
_tables = msgspec.json.Decoder(Rows[dict[str, Totals]])
_cells = msgspec.json.Decoder(Rows[list[tuple[str, str, str, Totals]]])


class Fold:
    """A day that is being added up, in memory."""

    def __init__(self, day: str) -> None:
        self.day = day
        self.standing = Standing()
        self.mtime_ns = 0
        self.inode = 0
        self.tally = Tally()
        self.saved = (0, 0)
        """Lines and time of change that its report covers."""

    @property
    def total(self) -> Totals:
        """All requests of the day in one."""
        return sum_of(self.tally.cells.values())

    @property
    def names(self) -> dict[str, str]:
        """The last name of each key."""
        return self.tally.names

    def spent(self) -> dict[str, Spent]:
        """What each key spent."""
        return self.tally.spent()

    def quarters(self) -> dict[int, dict[str, Spent]]:
        """What each key spent, by the quarter of an hour."""
        return self.tally.quarters

    def table(self, side: Side) -> Table:
        """The day from one side."""
        return self.tally.table(side)

    def cells(self) -> Iterator[tuple[Cell, Totals]]:
        """All that is kept apart."""
        yield from self.tally.cells.items()


class Report:
    """A day's report in its file; a part is read when it is asked for.

    What is read raises ``Broken`` where it was altered, and ``OSError``.
    """

    def __init__(self, layout: Layout, day: str) -> None:
        self._path = layout.ledger_report(day)
        with open(os.open(self._path, _READ), "rb") as file:
            line = file.readline()
        self.head = _decoded(_heads, line)
        self._end = len(line)
        if self.head.format != FORMAT or self.head.day != day:
            raise Broken("it is of another format or day")

    @property
    def total(self) -> Totals:
        """All requests of the day in one."""
        return self.head.total

    @property
    def names(self) -> dict[str, str]:
        """The last name of each key."""
        return self.head.names

    @property
    def standing(self) -> Standing:
        """What of the day's file it was made from."""
        return self.head.standing

    def spent(self) -> dict[str, Spent]:
        """What each key spent."""
        return self._part("spent", _spent)

    def quarters(self) -> dict[int, dict[str, Spent]]:
        """What each key spent, by the quarter of an hour."""
        return self._part("quarters", _quarters)

    def table(self, side: Side) -> Table:
        """The day from one side."""
        return self._part(side, _tables)

    def cells(self) -> Iterator[tuple[Cell, Totals]]:
        """All that is kept apart."""
        for name in self.head.parts:
            begin, _, hour = name.partition("/")
            if begin == "cells":
                for model, channel, key, totals in self._part(name, _cells):
                    yield Cell(hour, model, channel, key), totals

    def fold(self) -> Fold:
        """The same in memory, to be read on."""
        fold = Fold(self.head.day)
        fold.standing, fold.mtime_ns = self.head.standing, self.head.mtime_ns
        fold.saved = fold.standing.lines, fold.mtime_ns
        fold.tally.names = self.head.names
        fold.tally.quarters = self.quarters()
        fold.tally.cells = dict(self.cells())
        return fold

    def _part(self, name: str, decoder: "msgspec.json.Decoder[Rows[T]]") -> T:
        at, size = self.head.parts[name]
        fd = os.open(self._path, _READ)
        try:
            return _decoded(decoder, os.pread(fd, size, self._end + at)).rows
        except Broken as error:
            raise BrokenReport(self.head.day, f"its part {name}: {error}") from error
        finally:
            os.close(fd)


def _decoded(decoder: "msgspec.json.Decoder[T]", line: bytes) -> T:
    try:
        return decoder.decode(unseal(line))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Broken(f"it is of an unknown form: {error}") from error


def write_report(layout: Layout, fold: Fold) -> None:
    """Replace a day's report by what it adds up to now. Raises ``Unavailable``."""
    rows: dict[str, Any] = {"spent": fold.spent(), "quarters": fold.quarters()}
    rows |= {side: fold.table(side) for side in SIDES}
    for (hour, model, channel, key), totals in fold.cells():
        rows.setdefault(f"cells/{hour}", []).append((model, channel, key, totals))
    lines, parts, at = [], {}, 0
    for name, value in rows.items():
        lines.append(seal(Rows(value)))
        parts[name] = at, len(lines[-1])
        at += len(lines[-1])
    total = sum_of(rows["hour"].values())
    head = Head(FORMAT, fold.day, fold.standing, fold.mtime_ns, total, fold.names, parts)
    replace(layout.ledger_report(fold.day), seal(head) + b"".join(lines))
    fold.saved = fold.standing.lines, fold.mtime_ns
