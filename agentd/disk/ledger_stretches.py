"""What stretches of closed days add up to, remembered in ``reports/YYYY-MM-DD+<days>.json``.

A report of many days is then made from few files (``proxy.stretches``). They are caches: one is
believed while the days that it was made from are what they were. Everything here blocks.
"""

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from agentd.disk.document import replace
from agentd.disk.layout import Layout
from agentd.disk.ledger_balance import look, stamp_of
from agentd.disk.ledger_parts import Parts, Place, Rows, head_of, laid_out
from agentd.disk.ledger_report import Fold, Report, Stored
from agentd.disk.lines import Broken, seal
from agentd.errors import AgentdError
from agentd.proxy.reports import EVERYTHING, Only, Part
from agentd.proxy.stretches import Stretch, cover
from agentd.proxy.tally import Cell, Figures, Side, Table, Times, TimeTable, Totals, nothing

log = logging.getLogger(__name__)

FORMAT = 1

_SIDES: tuple[Side, ...] = ("model", "channel", "key")
_TIMED: tuple[Side, ...] = ("model", "channel")


class Version(Struct, array_like=True, frozen=True):
    """What tells one content of a day's file from another."""

    size: int
    sum: int


class Head(Struct, frozen=True):
    """The first line of a file."""

    format: int
    first: str
    of: dict[str, Version]
    """The days that it was made from."""
    total: Figures
    parts: dict[str, Place]


_heads = msgspec.json.Decoder(Head)


class Stretched(Stored):
    """Some days in one file. What is read raises ``BrokenReport``, and ``OSError``."""

    def __init__(self, path: str) -> None:
        self.head, size = head_of(path, _heads)
        if self.head.format != FORMAT:
            raise Broken("it is of another format")
        super().__init__(path, "", Parts(path, size, self.head.parts))

    @property
    def total(self) -> Figures:
        """All requests in one."""
        return self.head.total

    def cells(self, only: Only = EVERYTHING) -> Iterator[tuple[Cell, Figures]]:
        """There are none."""
        return iter(())

    def leaks(self) -> Iterator[tuple[str, str, int]]:
        """There are none."""
        return iter(())


class Stretches:
    """The files. ``known`` are all days that there are, in order; ``day`` tells a closed one.

    What reads beside a running daemon ``keeps`` nothing.
    """

    def __init__(
        self,
        layout: Layout,
        known: Callable[[], Sequence[str]],
        day: Callable[[str], Fold | Report],
        *,
        keeps: bool,
    ) -> None:
        self._layout = layout
        self._known = known
        self._day = day
        self._keeps = keeps
        self._files: dict[Stretch, tuple[tuple[int, int], Stretched]] = {}

    def cover(self, first: str, last: str) -> Iterator[tuple[str, Part]]:
        """The days from ``first`` to ``last``, which are closed, in as few parts as can be."""
        known = self._known()
        if known:
            for stretch in cover(max(first, known[0]), min(last, known[-1])):
                yield from self._told(stretch, known)

    def _told(self, stretch: Stretch, known: Sequence[str]) -> Iterator[tuple[str, Part]]:
        begin, end = bisect_left(known, stretch.first), bisect_right(known, stretch.last)
        days = known[begin:end]
        if len(days) < 2:
            yield from ((day, self._day(day)) for day in days)
            return
        of = {day: _version(self._day(day)) for day in days}
        found = self._stored(stretch)
        if found and found.head.of == of:
            yield stretch.first, found
            return
        merged = Merged()
        for part in stretch.parts():
            for _, one in self._told(part, known):
                merged.add(one)
        self._keep(stretch, of, merged)
        yield stretch.first, merged

    def _stored(self, stretch: Stretch) -> Stretched | None:
        path = self._layout.ledger_stretch(*stretch)
        try:
            now = stamp_of(look(path))
            held = self._files.get(stretch)
            if held is None or held[0] != now:
                held = self._files[stretch] = now, Stretched(path)
            return held[1]
        except FileNotFoundError:
            return None
        except (Broken, OSError) as error:
            log.info("%s is not used, it is made anew: %s", path, error)
            return None

    def _keep(self, stretch: Stretch, of: dict[str, Version], merged: "Merged") -> None:
        if not self._keeps:
            return
        places, lines = laid_out(merged.parts())
        head = Head(FORMAT, stretch.first, of, merged.total, places)
        try:
            replace(self._layout.ledger_stretch(*stretch), seal(head) + b"".join(lines))
        except AgentdError as error:
            log.warning("%d days from %s on were not kept: %s", stretch.days, stretch.first, error)


class Merged:
    """Some days in memory."""

    def __init__(self) -> None:
        self.total = nothing()
        self._names: dict[str, str] = {}
        self._tables: dict[Side, Table] = {side: {} for side in _SIDES}
        self._times: dict[Side, TimeTable] = {side: {} for side in _TIMED}

    def add(self, part: Part) -> None:
        """Count days in that follow."""
        self.total.totals.add(part.total.totals)
        self.total.times.add(part.total.times)
        self._names |= part.names()
        for side, table in self._tables.items():
            for name, totals in part.rows(side):
                table.setdefault(name, Totals()).add(totals)
        for side, timed in self._times.items():
            for name, times in part.times(side):
                timed.setdefault(name, Times()).add(times)

    def parts(self) -> dict[str, Rows]:
        """As they are kept."""
        rows: dict[str, Rows] = {"names": sorted(self._names.items())}
        rows |= {side: _sorted(table) for side, table in self._tables.items()}
        rows |= {f"{side}/times": _sorted(timed) for side, timed in self._times.items()}
        return rows

    def names(self) -> Mapping[str, str]:
        """The last name of each key."""
        return self._names

    def rows(self, side: Side) -> Iterator[tuple[str, Totals]]:
        """All of it from one side."""
        yield from self._tables[side].items()

    def times(self, side: Side) -> Iterator[tuple[str, Times]]:
        """How long it took."""
        yield from self._times[side].items()

    def row(self, side: Side, name: str) -> Totals | None:
        """One row of a side."""
        return self._tables[side].get(name)

    def cells(self, only: Only = EVERYTHING) -> Iterator[tuple[Cell, Figures]]:
        """There are none."""
        return iter(())

    def leaks(self) -> Iterator[tuple[str, str, int]]:
        """There are none."""
        return iter(())


def _sorted(table: Mapping[str, object]) -> list[tuple[str, object]]:
    return sorted(table.items(), key=lambda row: row[0])


def _version(day: Fold | Report) -> Version:
    return Version(day.standing.size, day.standing.sum)
