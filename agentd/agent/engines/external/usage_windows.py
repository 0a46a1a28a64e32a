"""Reads usage windows as programs tell them; what has another shape is ignored."""

from datetime import UTC, datetime, timedelta

from agentd.agent.text import sanitize
from agentd.core.clock import Timestamp, format_iso
from agentd.models.program_state import UsageWindow

LONGEST_NAME = 60
"""Characters of a window's name."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAR = 32_503_680_000
"""Seconds until the year 3000; anything beyond is invalid."""


def make_window(name: str, percent: object, resets_at: object) -> UsageWindow | None:
    """Return a window of which ``percent`` is used; None if that is no sensible number."""
    if isinstance(percent, bool) or not isinstance(percent, int | float):
        return None
    if not percent >= 0:
        return None
    used = 100 if percent >= 100 else min(round(percent), 99)  # only what is used up is full
    return UsageWindow(sanitize(name)[:LONGEST_NAME], used, parse_moment(resets_at) or None)


def parse_moment(value: object) -> Timestamp:
    """Convert seconds since 1970, or a time as ISO 8601, to a timestamp; empty for others."""
    if isinstance(value, int | float) and 0 < value < _FAR:
        return format_iso(_EPOCH + timedelta(seconds=value))
    if not isinstance(value, str) or len(value) > LONGEST_NAME:
        return ""
    try:
        moment = datetime.fromisoformat(value)
        return format_iso(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return ""


def describe_span(minutes: object) -> str:
    """Return a window's length in words; empty if it is unknown."""
    if isinstance(minutes, bool) or not isinstance(minutes, int) or not 0 < minutes < _FAR:
        return ""
    for unit, size in (("day", 1440), ("hour", 60), ("minute", 1)):
        if minutes % size == 0:
            count = minutes // size
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return ""
