"""Days and hours of a time zone, and which parts of the days of UTC they are made of.

The ledger's files are of days of UTC. What is told of days and hours to people, and what limits
count, is of those of one zone.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple

from agentd.clock import Timestamp, parse_iso

_DAY = timedelta(days=1)
_YEARS = range(2020, 2038)
"""In which it is looked which offsets from UTC a zone has."""


class Piece(NamedTuple):
    """What of one day of UTC is in one local day: from ``begin`` on, and before ``end``."""

    utc_day: str
    local_day: str
    begin: datetime
    end: datetime

    @property
    def is_whole(self) -> bool:
        """Whether it is all of that day of UTC."""
        return self.end - self.begin == _DAY


def start_of(day: date, zone: tzinfo) -> datetime:
    """Return the first moment at which the zone's clocks show this date or a later one, in UTC."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    both = midnight.astimezone(UTC), midnight.replace(fold=1).astimezone(UTC)
    early, late = min(both), max(both)
    if early.astimezone(zone).date() >= day:
        return early
    while late - early > timedelta(seconds=1):  # no midnight: clocks are put forward over it
        middle = early + (late - early) // 2
        if middle.astimezone(zone).date() >= day:
            late = middle
        else:
            early = middle
    return late.replace(microsecond=0)


def day_at(moment: datetime, zone: tzinfo) -> date:
    """Return the last date of the zone that has begun; it never goes back, as a local date may."""
    day = moment.astimezone(zone).date() + _DAY
    while start_of(day, zone) > moment:
        day -= _DAY
    return day


def today_in(zone: tzinfo, now: Timestamp) -> str:
    """Return the zone's date of now, such as ``2026-01-31``."""
    return day_at(parse_iso(now), zone).isoformat()


def hour_at(moment: datetime, zone: tzinfo) -> str:
    """Return the hour that the zone's clocks show, ``00`` to ``23``."""
    return f"{moment.astimezone(zone).hour:02d}"


def utc_range(first: str, last: str, zone: tzinfo) -> tuple[datetime, datetime]:
    """Return when the first of some local days begins, and when the last one ends."""
    after = date.fromisoformat(last)
    end = start_of(after + _DAY, zone) if after < date.max - _DAY else datetime.max
    begin = date.fromisoformat(first)
    start = start_of(begin, zone) if begin > date.min + _DAY else datetime.min
    return start.replace(tzinfo=UTC), end.replace(tzinfo=UTC)


def pieces(utc_days: Iterable[str], first: str, last: str, zone: tzinfo) -> Iterator[Piece]:
    """Yield what of some days of UTC is in each of the local days ``first`` to ``last``."""
    for utc_day in utc_days:
        begin = datetime.fromisoformat(utc_day).replace(tzinfo=UTC)
        over = begin + _DAY
        while begin < over:
            local = day_at(begin, zone)
            end = min(start_of(local + _DAY, zone), over)
            if first <= local.isoformat() <= last:
                yield Piece(utc_day, local.isoformat(), begin, end)
            begin = end


@lru_cache(16)
def is_utc(zone: tzinfo) -> bool:
    """Whether the zone's clocks show UTC."""
    return not any(_offsets(zone))


@lru_cache(16)
def slot_minutes(zone: tzinfo) -> int:
    """Return the minutes of the longest slots of an hour at which all of a zone's hours begin."""
    minutes = {int(offset.total_seconds()) // 60 for offset in _offsets(zone)}
    return next(slot for slot in (60, 30, 15) if slot == 15 or all(not m % slot for m in minutes))


def _offsets(zone: tzinfo) -> set[timedelta]:
    """The zone's distances from UTC; they change on no other days than some weekend."""
    moments = (datetime(year, month, 15, tzinfo=UTC) for year in _YEARS for month in range(1, 13))
    return {moment.astimezone(zone).utcoffset() or timedelta() for moment in moments}
