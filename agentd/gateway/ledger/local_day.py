"""Days of a time zone, cut out of the days of UTC that they overlap."""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial

from agentd.core.local_days import DayPiece, get_local_hour
from agentd.gateway.ledger.daily_reports import DayReport
from agentd.gateway.ledger.daily_totals import Cell, Figures, ResponseTimes
from agentd.gateway.ledger.day_report import DayFold
from agentd.gateway.reports.reports import EVERYTHING, ReportFilter


class GrowingDay:
    """A local day by hour, model and channel, to which new requests are added as they are read.

    It is cut once; then only what its UTC days got since is added. ``total`` is to be read of each
    of them before it is looked at.
    """

    def __init__(
        self, day: str, zone: tzinfo, pieces: Iterable[tuple[DayReport, DayPiece]]
    ) -> None:
        self.fold = DayFold(day)
        self.late = 0
        """The number of times that its UTC days got requests of another local day."""
        for report, piece in pieces:
            for cell, figures in report.iter_cells():
                self._add(piece, zone, cell, figures)
            if isinstance(report, DayFold):
                report.totals.on_merged = partial(self._add, piece, zone)
        self.late = 0

    def _add(self, piece: DayPiece, zone: tzinfo, cell: Cell, figures: Figures) -> None:
        hour = find_local_hour(cell.hour, piece, zone)
        if hour is None:
            self.late += 1
        else:
            self.fold.totals.add_cell(Cell(hour, cell.model, cell.channel, ""), figures)


def cut_day(
    day: DayReport,
    piece: DayPiece,
    zone: tzinfo,
    only: ReportFilter = EVERYTHING,
    *,
    by_hour: bool,
) -> DayFold:
    """Return the totals of a piece of a UTC day, by the hours of the time zone.

    ``by_hour`` gives the totals alone, cheaply.
    """
    fold = DayFold(piece.local_day)
    for cell, figures in _iter_hours(day) if by_hour else day.iter_cells(only):
        hour = find_local_hour(cell.hour, piece, zone)
        if hour is not None:
            fold.totals.add_cell(cell._replace(hour=hour), figures)
    fold.totals.names = dict(day.get_key_names())
    return fold


def find_local_hour(slot: str, piece: DayPiece, zone: tzinfo) -> str | None:
    """Return the zone's hour of a slot of a UTC day; ``None``: it is outside of the piece.

    A slot that began before belongs to what it began in: so where a day's requests are gone that
    were counted for a zone of other hours.
    """
    hour, _, minute = slot.partition(":")
    midnight = datetime.fromisoformat(piece.utc_day).replace(tzinfo=UTC)
    at = midnight + timedelta(hours=int(hour), minutes=int(minute or 0))
    return get_local_hour(at, zone) if piece.begin <= at < piece.end else None


def get_day_before(day: str) -> str:
    """Return the date before another one."""
    return (date.fromisoformat(day) - timedelta(days=1)).isoformat()


def _iter_hours(day: DayReport) -> Iterator[tuple[Cell, Figures]]:
    times = dict(day.iter_times("hour"))
    for hour, totals in day.iter_rows("hour"):
        yield Cell(hour, "", "", ""), Figures(totals, times.get(hour, ResponseTimes()))
