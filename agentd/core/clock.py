"""Wall clock and monotonic clock; no other module reads the system time.

A time is written in exactly one way everywhere, on disk and in responses: UTC, ISO 8601,
milliseconds, ``Z``. The width is fixed, so text order is chronological order.
"""

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Annotated, Protocol, TypeAlias

from msgspec import Meta

Timestamp: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""A time such as ``2026-11-21T07:50:00.123Z``.

A missing timestamp is an empty string in records and ``null`` in responses and events.
"""


_TOO_LATE = "9000"
_HAS_ZONE = re.compile(r"[Tt].*(?:[Zz]|[+ -]\d\d(?::?\d\d){0,2})$")


class Clock(Protocol):
    """Source of the current time."""

    def now(self) -> Timestamp:
        """Return the wall clock time. It may jump backwards: order by sequence, not by time."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start that never decrease; for deadlines."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def __init__(self) -> None:
        self._second = (-1, "")
        self._millisecond = (-1, "")

    def now(self) -> Timestamp:
        """Return the wall clock time."""
        millisecond = time.time_ns() // 1_000_000
        known, text = self._millisecond
        if millisecond != known:  # a request asks several times within one millisecond
            text = self._format(millisecond)
            self._millisecond = (millisecond, text)
        return text

    def _format(self, millisecond: int) -> Timestamp:
        second, rest = divmod(millisecond, 1000)
        known, text = self._second
        if second != known:  # formatting the date is the slow part: once a second
            text = format_iso(datetime.fromtimestamp(second, UTC))[: -len("000Z")]
            self._second = (second, text)
        return f"{text}{rest:03d}Z"

    def monotonic(self) -> float:
        """Return the system's monotonic time."""
        return time.monotonic()


class FrozenClock:
    """A clock for tests that stops until it is moved."""

    def __init__(self, at: Timestamp = "2026-01-01T00:00:00.000Z") -> None:
        self._at = parse_iso(at)
        self._monotonic = 0.0

    def now(self) -> Timestamp:
        """Return the time at which the clock stands."""
        return format_iso(self._at)

    def monotonic(self) -> float:
        """Return the seconds by which the clock was moved forward."""
        return self._monotonic

    def move(self, seconds: float) -> None:
        """Move the wall clock by ``seconds``; the monotonic one never goes back."""
        self.jump(seconds)
        self._monotonic += max(seconds, 0.0)

    def jump(self, seconds: float) -> None:
        """Set the wall clock to another time, as a person or a time server does."""
        self._at += timedelta(seconds=seconds)


def format_iso(moment: datetime) -> Timestamp:
    """Format a time; anything finer than a millisecond is cut off."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def parse_iso(text: str) -> datetime:
    """Parse an ISO 8601 time; without an offset it is taken as UTC.

    A ``+`` that arrived as a space (it was not escaped in a URL) is accepted, and a space before
    the offset. Raises ``ValueError`` for anything else.
    """
    text = text.strip().upper()
    head, blank, offset = text.rpartition(" ")
    if blank and ("T" in head or " " in head):
        text = f"{head}{'' if offset.startswith(('+', '-', 'Z')) else '+'}{offset}"
    moment = datetime.fromisoformat(text)
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} is out of range") from error


def require_timestamps(*texts: str) -> None:
    """Raise ``ValueError`` unless all are times as ``format_iso`` writes them.

    For what is read from files, where such a time is to be computed with: one so late that nothing
    can be added to it is refused, too.
    """
    for text in texts:
        if format_iso(parse_iso(text)) != text or text >= _TOO_LATE:
            raise ValueError(f"{text[:40]!r} is not a time like 2026-01-31T09:00:00.000Z")


def parse_iso_with_zone(text: str) -> datetime:
    """Parse an ISO 8601 time as ``parse_iso`` does; ``ValueError`` without a time and an offset."""
    moment = parse_iso(text)
    if not _HAS_ZONE.search(text.strip()):
        raise ValueError("it has no time of day with an offset from UTC")
    return moment


def format_unix(seconds: int) -> Timestamp:
    """Format Unix seconds; a time outside ``datetime``'s range becomes its nearest limit."""
    try:
        return format_iso(datetime.fromtimestamp(seconds, UTC))
    except (OverflowError, ValueError, OSError):
        return format_iso((datetime.max if seconds > 0 else datetime.min).replace(tzinfo=UTC))


def format_iso_rounded_up(moment: datetime) -> Timestamp:
    """Format a time rounded up to the next millisecond, so that it is never before ``moment``."""
    try:
        return format_iso(moment + timedelta(microseconds=-moment.microsecond % 1000))
    except OverflowError:
        return format_iso(moment)
