"""Days and hours of a time zone, and the parts of UTC days that make them up.

The ledger keeps one file per UTC day, while reports and limits use the days and hours of one
configured time zone.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple

from agentd.core.clock import Timestamp, parse_iso

_DAY = timedelta(days=1)
_YEARS = range(2020, 2038)
"""Years that are searched for the UTC offsets of a zone."""


class DayPiece(NamedTuple):
    """The part of one UTC day that lies in one local day: ``begin`` inclusive, ``end`` not."""

    utc_day: str
    local_day: str
    begin: datetime
    end: datetime

    @property
    def is_whole(self) -> bool:
        """True if the piece is the whole UTC day."""
        return self.end - self.begin == _DAY


def get_day_start(day: date, zone: tzinfo) -> datetime:
    """Return the first moment at which the zone's clocks show this date or a later one, in UTC."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    both = midnight.astimezone(UTC), midnight.replace(fold=1).astimezone(UTC)
    early, late = min(both), max(both)
    if early.astimezone(zone).date() >= day:
        return early
    while late - early > timedelta(seconds=1):  # no midnight: clocks go forward over it
        middle = early + (late - early) // 2
        if middle.astimezone(zone).date() >= day:
            late = middle
        else:
            early = middle
    return late.replace(microsecond=0)


def get_local_day(moment: datetime, zone: tzinfo) -> date:
    """Return the last date of the zone that has begun; unlike a local date it never goes back."""
    day = moment.astimezone(zone).date() + _DAY
    while get_day_start(day, zone) > moment:
        day -= _DAY
    return day


def get_today(zone: tzinfo, now: Timestamp) -> str:
    """Return the current date in the zone, such as ``2026-01-31``."""
    return get_local_day(parse_iso(now), zone).isoformat()


def get_local_hour(moment: datetime, zone: tzinfo) -> str:
    """Return the hour that the zone's clocks show, ``00`` to ``23``."""
    return f"{moment.astimezone(zone).hour:02d}"


def get_utc_range(first: str, last: str, zone: tzinfo) -> tuple[datetime, datetime]:
    """Return when local day ``first`` begins and local day ``last`` ends, in UTC."""
    after = date.fromisoformat(last)
    end = get_day_start(after + _DAY, zone) if after < date.max - _DAY else datetime.max
    begin = date.fromisoformat(first)
    start = get_day_start(begin, zone) if begin > date.min + _DAY else datetime.min
    return start.replace(tzinfo=UTC), end.replace(tzinfo=UTC)


def split_utc_days(
    utc_days: Iterable[str], first: str, last: str, zone: tzinfo
) -> Iterator[DayPiece]:
    """Yield the parts of UTC days that lie in the local days ``first`` to ``last``."""
    for utc_day in utc_days:
        begin = datetime.fromisoformat(utc_day).replace(tzinfo=UTC)
        over = begin + _DAY
        while begin < over:
            local = get_local_day(begin, zone)
            end = min(get_day_start(local + _DAY, zone), over)
            if first <= local.isoformat() <= last:
                yield DayPiece(utc_day, local.isoformat(), begin, end)
            begin = end


@lru_cache(16)
def is_utc(zone: tzinfo) -> bool:
    """Return whether the zone has no offset from UTC."""
    return not any(_list_offsets(zone))


@lru_cache(16)
def get_slot_minutes(zone: tzinfo) -> int:
    """Return the longest slot (60, 30 or 15 minutes) on which all hours of the zone begin."""
    minutes = {int(offset.total_seconds()) // 60 for offset in _list_offsets(zone)}
    return next(slot for slot in (60, 30, 15) if slot == 15 or all(not m % slot for m in minutes))


def _list_offsets(zone: tzinfo) -> set[timedelta]:
    """Return the zone's UTC offsets, sampled mid-month: changes happen on weekends only."""
    moments = (datetime(year, month, 15, tzinfo=UTC) for year in _YEARS for month in range(1, 13))
    return {moment.astimezone(zone).utcoffset() or timedelta() for moment in moments}
