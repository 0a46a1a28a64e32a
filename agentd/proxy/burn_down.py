"""When the limits of access keys will be used up, at the rate at which they are being used."""

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal

from msgspec import Struct

from agentd.clock import Timestamp, parse_iso
from agentd.proxy.access_key import AccessKey
from agentd.proxy.spend import LimitStanding, Windows

DAY = 86400.0
SOONEST = 60.0
"""Seconds: a rate is told of no shorter time."""


class BurnLine(Struct, frozen=True):
    """One limit in USD of one key."""

    key: str
    """Its id."""
    title: str
    """Its name."""
    window: str
    """``total``, ``day``, ``week`` or ``month``."""
    limit: Decimal
    """USD of the window, at most."""
    used: Decimal
    """USD that are spent."""
    reserved: Decimal
    """By requests under way."""
    resets: Timestamp | None
    """When ``used`` is 0 again; null: never."""
    days_left: float | None
    """Until it is used up, at the rate since its window began (``total``: since the key was
    made); null where nothing is used."""
    lasts: bool
    """Whether it then lasts until it resets."""


def burn_down(
    key: AccessKey, standing: tuple[LimitStanding, ...], windows: Windows, now: Timestamp
) -> Iterator[BurnLine]:
    """The limits in USD of one key, as they stand."""
    moment = parse_iso(now)
    begins = {
        "total": key.created,
        "day": windows.day.start,
        "week": windows.week.start,
        "month": windows.month.start,
    }
    for one in standing:
        if one.name not in begins:
            continue
        limit, used, reserved = (Decimal(each) for each in (one.limit, one.used, one.reserved))
        since = max((moment - parse_iso(begins[one.name])).total_seconds(), SOONEST)
        left = _days(limit - used - reserved, used, since)
        yield BurnLine(
            key=key.id,
            title=key.name,
            window=one.name,
            limit=limit,
            used=used,
            reserved=reserved,
            resets=one.resets,
            days_left=left,
            lasts=left is None or (one.resets is not None and left >= _until(one.resets, moment)),
        )


def _days(rest: Decimal, used: Decimal, seconds: float) -> float | None:
    if rest <= 0:
        return 0.0
    return round(float(rest / used) * seconds / DAY, 3) if used > 0 else None


def _until(resets: Timestamp, moment: datetime) -> float:
    return (parse_iso(resets) - moment).total_seconds() / DAY
