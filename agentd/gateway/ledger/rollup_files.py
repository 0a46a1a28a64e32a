"""Totals of rollups of closed days, cached in ``reports/YYYY-MM-DD+<days>.json``.

A report of many days then reads few files (``ledger.rollups``). A file is valid while the days
that it was built from are unchanged; a missing one is replaced by smaller ones. They are built in
the background, so no report waits for that. Everything here blocks.
"""

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec
from msgspec import Struct

from agentd.core.errors import AgentdError
from agentd.gateway.ledger.balances import get_stamp, stat_file
from agentd.gateway.ledger.columns import add_tables
from agentd.gateway.ledger.daily_totals import (
    GROUPS,
    Cell,
    Dimension,
    Figures,
    ResponseTimes,
    TimeTable,
    create_figures,
)
from agentd.gateway.ledger.day_report import DayFold, DayReportFile, StoredReport, encode_columns
from agentd.gateway.ledger.rollups import Rollup, cover_days, iter_rollups
from agentd.gateway.ledger.sliced_table import (
    Rows,
    SlicedTable,
    SliceIndex,
    encode_table,
    read_header,
)
from agentd.gateway.reports.reports import EVERYTHING, ReportFilter, ReportSource
from agentd.storage.checksummed_json import ChecksumMismatch, encode_checksummed
from agentd.storage.document import replace_document
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

FORMAT = 3

_DIMENSIONS: tuple[Dimension, ...] = ("model", "channel", "key", *GROUPS)
_TIMED_DIMENSIONS: tuple[Dimension, ...] = ("model", "channel")


class DayVersion(Struct, array_like=True, frozen=True):
    """Identifies the content of a day's file."""

    size: int
    sum: int


class RollupHead(Struct, frozen=True):
    """The first line of a rollup file."""

    format: int
    first: str
    of: dict[str, DayVersion]
    """The days that it was built from."""
    total: Figures
    parts: dict[str, SliceIndex]


_decoder = msgspec.json.Decoder(RollupHead)


class RollupFile(StoredReport):
    """The file of one rollup. Reading raises ``CorruptReport`` and ``OSError``."""

    def __init__(self, path: str) -> None:
        self.head, size = read_header(path, _decoder)
        if self.head.format != FORMAT:
            raise ChecksumMismatch("unknown format version")
        super().__init__(path, "", self.head.total, SlicedTable(path, size, self.head.parts))

    def iter_cells(self, only: ReportFilter = EVERYTHING) -> Iterator[tuple[Cell, Figures]]:
        """Return nothing: rollups do not contain them."""
        return iter(())

    def iter_leaks(self, only: ReportFilter = EVERYTHING) -> Iterator[tuple[str, str, int]]:
        """Return nothing: rollups do not contain them."""
        return iter(())


class RollupStore:
    """The rollup files; ``known`` lists all days in order, ``day`` returns a closed one."""

    def __init__(
        self,
        layout: Layout,
        known: Callable[[], Sequence[str]],
        day: Callable[[str], DayFold | DayReportFile],
    ) -> None:
        self._layout = layout
        self._known = known
        self._day = day
        self._files: dict[Rollup, tuple[tuple[int, int], RollupFile]] = {}

    def iter_sources(self, first: str, last: str) -> Iterator[tuple[str, ReportSource]]:
        """Iterate over the closed days ``first`` to ``last``, in as few sources as possible."""
        known = self._known()
        if known:
            for stretch in cover_days(max(first, known[0]), min(last, known[-1])):
                yield from self._iter_parts(stretch, known)

    def iter_closed(self, today: str) -> Iterator[Rollup]:
        """Iterate over each closed day and then each rollup of them, the narrowest first."""
        known = self._known()
        closed = known[: bisect_left(known, today)]
        if closed:
            yield from (Rollup(day, 1) for day in closed)
            stretches = iter_rollups(closed[0], closed[-1])
            yield from (one for one in stretches if len(_find_days(one, closed)) > 1)

    def write(self, stretch: Rollup) -> bool:
        """Write this rollup if missing or stale; return False if the write failed."""
        known = self._known()
        of = self._get_versions(stretch, known)
        if len(of) < 2 or self._load_valid(stretch, of):
            return True
        sources = (self._iter_parts(part, known) for part in stretch.split())
        total, parts = _merge([part for _, part in chain.from_iterable(sources)])
        places, lines = encode_table(parts)
        head = RollupHead(FORMAT, stretch.first, of, total, places)
        try:
            replace_document(
                self._layout.get_ledger_rollup_path(*stretch),
                encode_checksummed(head) + b"".join(lines),
            )
        except AgentdError as error:
            log.warning(
                "cannot write the rollup of %d days from %s: %s", stretch.days, stretch.first, error
            )
            return False
        return True

    def _iter_parts(
        self, stretch: Rollup, known: Sequence[str]
    ) -> Iterator[tuple[str, ReportSource]]:
        """Iterate over the rollup's valid file, or else over its parts."""
        of = self._get_versions(stretch, known)
        if len(of) < 2:
            yield from ((day, self._day(day)) for day in of)
        elif found := self._load_valid(stretch, of):
            yield stretch.first, found
        else:
            for part in stretch.split():
                yield from self._iter_parts(part, known)

    def _get_versions(self, stretch: Rollup, known: Sequence[str]) -> dict[str, DayVersion]:
        """Return the version of each existing day of a rollup."""
        return {day: _get_version(self._day(day)) for day in _find_days(stretch, known)}

    def _load_valid(self, stretch: Rollup, of: Mapping[str, DayVersion]) -> "RollupFile | None":
        found = self._load(stretch)
        return found if found and found.head.of == of else None

    def _load(self, stretch: Rollup) -> RollupFile | None:
        path = self._layout.get_ledger_rollup_path(*stretch)
        try:
            now = get_stamp(stat_file(path))
            held = self._files.get(stretch)
            if held is None or held[0] != now:
                held = self._files[stretch] = now, RollupFile(path)
            return held[1]
        except FileNotFoundError:
            return None
        except (ChecksumMismatch, OSError) as error:
            log.info("%s is ignored and will be rebuilt: %s", path, error)
            return None


def _merge(of: Sequence[ReportSource]) -> tuple[Figures, dict[str, Rows]]:
    """Add up sources in date order; return the total and the file's parts."""
    total, names = create_figures(), dict[str, str]()
    for part in of:
        total.totals.add(part.total.totals)
        total.times.add(part.total.times)
        names |= part.get_key_names()
    rows: dict[str, Rows] = {"names": sorted(names.items())}
    for side in _DIMENSIONS:
        columns = add_tables([part.get_columns(side) for part in of])
        if side not in GROUPS or any(columns.names):
            rows |= {side: columns.iter_rows(), **encode_columns(side, columns)}
    return total, rows | {f"{side}/times": _merge_times(side, of) for side in _TIMED_DIMENSIONS}


def _merge_times(side: Dimension, of: Iterable[ReportSource]) -> Rows:
    """Merge the response times of one dimension."""
    table: TimeTable = {}
    for part in of:
        for name, times in part.iter_times(side):
            table.setdefault(name, ResponseTimes()).add(times)
    return sorted(table.items(), key=lambda row: row[0])


def _find_days(stretch: Rollup, days: Sequence[str]) -> Sequence[str]:
    return days[bisect_left(days, stretch.first) : bisect_right(days, stretch.last)]


def _get_version(day: DayFold | DayReportFile) -> DayVersion:
    return DayVersion(day.position.size, day.position.sum)
