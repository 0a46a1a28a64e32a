"""What stretches of closed days add up to, remembered in ``reports/YYYY-MM-DD+<days>.json``.

A report of many days is then made from few files (``proxy.stretches``). They are caches: one is
believed while the days that it was made from are what they were, and what lacks is told by smaller
ones. They are made ahead, one by one: nobody who asks waits for that. Everything here blocks.
"""

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec
from msgspec import Struct

from agentd.disk.document import replace
from agentd.disk.layout import Layout
from agentd.disk.ledger_balance import look, stamp_of
from agentd.disk.ledger_parts import Parts, Place, Rows, head_of, laid_out
from agentd.disk.ledger_report import Fold, Report, Stored, in_columns
from agentd.disk.lines import Broken, seal
from agentd.errors import AgentdError
from agentd.proxy.columns import added
from agentd.proxy.reports import EVERYTHING, Only, Part
from agentd.proxy.stretches import Stretch, cover, inside
from agentd.proxy.tally import Cell, Figures, Side, Times, TimeTable, nothing

log = logging.getLogger(__name__)

FORMAT = 2

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
    """The files. ``known`` are all days that there are, in order; ``day`` tells a closed one."""

    def __init__(
        self,
        layout: Layout,
        known: Callable[[], Sequence[str]],
        day: Callable[[str], Fold | Report],
    ) -> None:
        self._layout = layout
        self._known = known
        self._day = day
        self._files: dict[Stretch, tuple[tuple[int, int], Stretched]] = {}

    def cover(self, first: str, last: str) -> Iterator[tuple[str, Part]]:
        """The days from ``first`` to ``last``, which are closed, in as few parts as can be."""
        known = self._known()
        if known:
            for stretch in cover(max(first, known[0]), min(last, known[-1])):
                yield from self._told(stretch, known)

    def closed(self, today: str) -> Iterator[Stretch]:
        """Each closed day that there is, and then each stretch of them, the narrowest first."""
        known = self._known()
        closed = known[: bisect_left(known, today)]
        if closed:
            yield from (Stretch(day, 1) for day in closed)
            stretches = inside(closed[0], closed[-1])
            yield from (one for one in stretches if len(_within(one, closed)) > 1)

    def make(self, stretch: Stretch) -> bool:
        """Keep a stretch that is not kept yet, or no more; whether the disk took it."""
        known = self._known()
        of = self._versions(stretch, known)
        if len(of) < 2 or self._believed(stretch, of):
            return True
        told = (self._told(part, known) for part in stretch.parts())
        total, parts = _merged([part for _, part in chain.from_iterable(told)])
        places, lines = laid_out(parts)
        head = Head(FORMAT, stretch.first, of, total, places)
        try:
            replace(self._layout.ledger_stretch(*stretch), seal(head) + b"".join(lines))
        except AgentdError as error:
            log.warning("%d days from %s on were not kept: %s", stretch.days, stretch.first, error)
            return False
        return True

    def _told(self, stretch: Stretch, known: Sequence[str]) -> Iterator[tuple[str, Part]]:
        """The stretch as it is kept, or else what it is made of."""
        of = self._versions(stretch, known)
        if len(of) < 2:
            yield from ((day, self._day(day)) for day in of)
        elif found := self._believed(stretch, of):
            yield stretch.first, found
        else:
            for part in stretch.parts():
                yield from self._told(part, known)

    def _versions(self, stretch: Stretch, known: Sequence[str]) -> dict[str, Version]:
        """The days of a stretch that there are."""
        return {day: _version(self._day(day)) for day in _within(stretch, known)}

    def _believed(self, stretch: Stretch, of: Mapping[str, Version]) -> "Stretched | None":
        found = self._stored(stretch)
        return found if found and found.head.of == of else None

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


def _merged(of: Sequence[Part]) -> tuple[Figures, dict[str, Rows]]:
    """What days in their order add up to, as it is kept: the total, and the parts."""
    total, names = nothing(), dict[str, str]()
    for part in of:
        total.totals.add(part.total.totals)
        total.times.add(part.total.times)
        names |= part.names()
    rows: dict[str, Rows] = {"names": sorted(names.items())}
    for side in _SIDES:
        columns = added([part.columns(side) for part in of])
        rows |= {side: columns.rows(), **in_columns(side, columns)}
    return total, rows | {f"{side}/times": _times(side, of) for side in _TIMED}


def _times(side: Side, of: Iterable[Part]) -> Rows:
    """How long it took from a side."""
    table: TimeTable = {}
    for part in of:
        for name, times in part.times(side):
            table.setdefault(name, Times()).add(times)
    return sorted(table.items(), key=lambda row: row[0])


def _within(stretch: Stretch, days: Sequence[str]) -> Sequence[str]:
    return days[bisect_left(days, stretch.first) : bisect_right(days, stretch.last)]


def _version(day: Fold | Report) -> Version:
    return Version(day.standing.size, day.standing.sum)
