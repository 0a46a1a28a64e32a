"""Estimates of when limits will be used up, at the current rate of use."""

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal

from msgspec import Struct

from agentd.core.clock import Timestamp, parse_iso
from agentd.gateway.limits.events import LimitScope
from agentd.gateway.limits.meters import LimitsStatus
from agentd.gateway.limits.spend import Windows

DAY_SECONDS = 86400.0
MIN_RATE_SECONDS = 60.0
"""Minimum seconds for computing a rate."""


class BurnLine(Struct, frozen=True):
    """A limit in USD of a key, of models within one, or of what keys share."""

    key: str
    """The access key's id; empty: keys share it."""
    title: str
    """The name of the access key, the owner or the tag."""
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
    was made, or of a budget since the month began); null where nothing is used."""
    lasts: bool
    """True if it then lasts until it resets."""
    scope: LimitScope
    """``key``, ``model``, ``owner`` or ``tag``."""
    model: str
    """The model's name or a pattern of names; empty: all models."""
    budget: str
    """Name of the budget; empty: it is the key's own."""


def compute_burn_down(
    status: LimitsStatus, created: Timestamp | None, windows: Windows, now: Timestamp
) -> Iterator[BurnLine]:
    """Yield the limits in USD as they stand; ``created`` is when what never resets began.

    ``None``: as of a budget, which knows what was spent before it was made.
    """
    moment = parse_iso(now)
    begins = {
        "total": created or windows.month.start,
        "day": windows.day.start,
        "week": windows.week.start,
        "month": windows.month.start,
    }
    for one in status.limits:
        if one.name not in begins:
            continue
        limit, used, reserved = (Decimal(each) for each in (one.limit, one.used, one.reserved))
        since = status.used.month if one.name == "total" and created is None else used
        left = _count_days_left(limit - used - reserved, since, begins[one.name], moment)
        yield BurnLine(
            key=status.holder.key,
            title=status.holder.name,
            window=one.name,
            limit=limit,
            used=used,
            reserved=reserved,
            resets=one.resets,
            days_left=left,
            lasts=left is None
            or (one.resets is not None and left >= _count_days_until(one.resets, moment)),
            scope=status.holder.scope,
            model=status.holder.model,
            budget=status.holder.budget,
        )


def _count_days_left(
    rest: Decimal, used: Decimal, begin: Timestamp, moment: datetime
) -> float | None:
    """Return the days that the rest lasts at the rate of what was used since a moment."""
    if rest <= 0:
        return 0.0
    if used <= 0:
        return None
    seconds = max((moment - parse_iso(begin)).total_seconds(), MIN_RATE_SECONDS)
    return round(float(rest / used) * seconds / DAY_SECONDS, 3)


def _count_days_until(resets: Timestamp, moment: datetime) -> float:
    return (parse_iso(resets) - moment).total_seconds() / DAY_SECONDS
