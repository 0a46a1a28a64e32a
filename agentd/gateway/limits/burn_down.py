"""Estimates of when access keys' limits will be used up, at the current rate of use."""

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal

from msgspec import Struct

from agentd.core.clock import Timestamp, parse_iso
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.limits.spend import LimitStatus, Windows

DAY_SECONDS = 86400.0
MIN_RATE_SECONDS = 60.0
"""Minimum seconds for computing a rate."""


class BurnLine(Struct, frozen=True):
    """A limit in USD of a key."""

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
    """The amount reserved by requests under way."""
    resets: Timestamp | None
    """When ``used`` is 0 again; null: never."""
    days_left: float | None
    """The days until it is used up, at the rate since its window began (``total``: since the key
    was made); null where nothing is used."""
    lasts: bool
    """True if it then lasts until it resets."""


def compute_burn_down(
    key: AccessKey, limits: tuple[LimitStatus, ...], windows: Windows, now: Timestamp
) -> Iterator[BurnLine]:
    """Yield the limits in USD of one key, as they stand."""
    moment = parse_iso(now)
    begins = {
        "total": key.created,
        "day": windows.day.start,
        "week": windows.week.start,
        "month": windows.month.start,
    }
    for one in limits:
        if one.name not in begins:
            continue
        limit, used, reserved = (Decimal(each) for each in (one.limit, one.used, one.reserved))
        since = max((moment - parse_iso(begins[one.name])).total_seconds(), MIN_RATE_SECONDS)
        left = _count_days_left(limit - used - reserved, used, since)
        yield BurnLine(
            key=key.id,
            title=key.name,
            window=one.name,
            limit=limit,
            used=used,
            reserved=reserved,
            resets=one.resets,
            days_left=left,
            lasts=left is None
            or (one.resets is not None and left >= _count_days_until(one.resets, moment)),
        )


def _count_days_left(rest: Decimal, used: Decimal, seconds: float) -> float | None:
    if rest <= 0:
        return 0.0
    return round(float(rest / used) * seconds / DAY_SECONDS, 3) if used > 0 else None


def _count_days_until(resets: Timestamp, moment: datetime) -> float:
    return (parse_iso(resets) - moment).total_seconds() / DAY_SECONDS
