"""Parses when a usage limit ends from the prose of coding agents.

Claude Code writes "resets 3:20am (Asia/Calcutta)" or "resets Sep 15 at 7pm", Codex "try again at
3:28 PM" or "try again at Aug 8th, 2026 12:30 PM". A time without a zone is local time, since
these programs run on this machine.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

LONGEST_WAIT = timedelta(days=32)
"""Limits last a month at most: anything beyond this is misread or wrong."""
JUST_NOW = timedelta(minutes=15)
"""A time of day that passed within this is today's, not tomorrow's: the message came late."""

_MOST_TEXT = 4_000
"""Characters that are read."""

_BEFORE = re.compile(r"\b(?:try again|resets?|usage limit reached)(?: (?:at|on))?[ |]", re.I)
_ISO = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)"
    r" ?(?P<zone>Z|UTC|[+-]\d\d:\d\d)?",
    re.I,
)
_PROSE = re.compile(
    r"(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.? "
    r"(?P<day>\d{1,2})(?:st|nd|rd|th)?,?(?: (?P<year>\d{4}),?)?(?: at)? )?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?: ?(?P<half>[ap])\.?m\b\.?)?"
    r"(?: \(?(?P<zone>UTC|GMT|(?<=\()[A-Za-z][A-Za-z0-9_+/-]{1,60})\b)?",
    re.I,
)
_NEVER = re.compile(r"\bIt never resets\.")
"""How agentd's own gateway says so."""
_FOR_A_MOMENT = "reserved by requests under way"
"""With it that gateway says that there may be room again as soon as those have ended."""
_UNIX = re.compile(r"(\d{10})\b")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def parse_reset_time(
    message: str, now: datetime, local_zone: tzinfo | None = None
) -> datetime | None:
    """Return when a limit ends according to a message; None: no future time in it.

    ``now`` has a zone. ``local_zone`` is that of times without one; None: the machine's own.
    """
    text = " ".join(message[:_MOST_TEXT].split())  # some write a narrow space before "PM"
    for found in _iter_moments(text, now, local_zone):
        if now < found <= now + LONGEST_WAIT:
            return found.astimezone(UTC)
    return None


def lasts_longer(message: str, seconds: float, now: datetime) -> bool:
    """Return whether a limit, as its message says, ends only after so many seconds, or never."""
    if _FOR_A_MOMENT in message:
        return False
    end = parse_reset_time(message, now)
    return end - now > timedelta(seconds=seconds) if end else bool(_NEVER.search(message))


def _iter_moments(text: str, now: datetime, local_zone: tzinfo | None) -> Iterator[datetime]:
    for before in _BEFORE.finditer(text):
        place = before.end()
        try:
            if parts := _ISO.match(text, place):
                yield _read_iso(parts, local_zone)
            elif parts := _UNIX.match(text, place):
                yield datetime.fromtimestamp(int(parts[1]), UTC)
            elif parts := _PROSE.match(text, place):
                yield _read_prose(parts, now, local_zone)
        except (ValueError, OverflowError, OSError, KeyError):
            continue  # no such date, no such hour, no such zone


def _read_iso(parts: re.Match[str], local_zone: tzinfo | None) -> datetime:
    naive = datetime.fromisoformat(f"{parts['date']}T{parts['time']}")
    if not parts["zone"]:
        return _to_zone(naive, local_zone)
    if parts["zone"].upper() in ("Z", "UTC"):
        return naive.replace(tzinfo=UTC)
    return datetime.fromisoformat(f"{naive.isoformat()}{parts['zone']}")


def _read_prose(parts: re.Match[str], now: datetime, local_zone: tzinfo | None) -> datetime:
    name = parts["zone"]
    # Blocks shortly on a small file, which ZoneInfo caches; limits are reported rarely.
    zone = ZoneInfo("UTC" if name.upper() == "GMT" else name) if name else local_zone
    today = now.astimezone(zone)
    naive = today.replace(tzinfo=None, second=0, microsecond=0, fold=0)
    naive = naive.replace(hour=_parse_hour(parts), minute=int(parts["minute"] or 0))
    if parts["month"] is None:
        moment = _to_zone(naive, zone)
        return moment if moment > now - JUST_NOW else _to_zone(naive + timedelta(days=1), zone)
    month, day = _MONTHS.index(parts["month"].lower()) + 1, int(parts["day"])
    if parts["year"]:
        return _to_zone(naive.replace(year=int(parts["year"]), month=month, day=day), zone)
    moment = _to_zone(naive.replace(month=month, day=day), zone)
    if moment > now:  # only then: next year may have no February 29
        return moment
    return _to_zone(naive.replace(year=today.year + 1, month=month, day=day), zone)


def _parse_hour(parts: re.Match[str]) -> int:
    """Return the hour (0-23) of a time that has minutes, or am or pm."""
    hour, half = int(parts["hour"]), (parts["half"] or "").lower()
    if not half:
        if parts["minute"] is None:
            raise ValueError("a bare number is not a time")
        return hour
    if not 1 <= hour <= 12:
        raise ValueError("no such hour")
    return hour % 12 + (12 if half == "p" else 0)


def _to_zone(naive: datetime, zone: tzinfo | None) -> datetime:
    """Return a local time with its zone; without one, the machine's with summer time."""
    return naive.replace(tzinfo=zone) if zone else naive.astimezone()
