"""Time. Nobody else asks the system what time it is.

A moment is written in exactly one way everywhere, on disk and in answers: UTC, ISO 8601,
milliseconds, ``Z``. The width is fixed, so the order of the texts is the order of the moments.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Annotated, Protocol, TypeAlias

from msgspec import Meta

Timestamp: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""Such as ``2026-11-21T07:50:00.123Z``.

Records write an absent one as an empty text; answers and events as ``null``.
"""


class Clock(Protocol):
    """Where the present comes from."""

    def now(self) -> Timestamp:
        """The wall clock. It may jump, back too: order things by sequence, not by time."""
        ...

    def monotonic(self) -> float:
        """Seconds that only rise, from an arbitrary start: for deadlines."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def __init__(self) -> None:
        self._second = (-1, "")
        self._millisecond = (-1, "")

    def now(self) -> Timestamp:
        """The wall clock now."""
        millisecond = time.time_ns() // 1_000_000
        known, text = self._millisecond
        if millisecond != known:  # each request asks several times
            text = self._written(millisecond)
            self._millisecond = (millisecond, text)
        return text

    def _written(self, millisecond: int) -> Timestamp:
        second, rest = divmod(millisecond, 1000)
        known, text = self._second
        if second != known:  # the date is written once a second
            text = iso(datetime.fromtimestamp(second, UTC))[: -len("000Z")]
            self._second = (second, text)
        return f"{text}{rest:03d}Z"

    def monotonic(self) -> float:
        """The system's monotonic clock."""
        return time.monotonic()


class FrozenClock:
    """A clock that stands until it is moved, for tests."""

    def __init__(self, at: Timestamp = "2026-01-01T00:00:00.000Z") -> None:
        self._at = parse_iso(at)
        self._monotonic = 0.0

    def now(self) -> Timestamp:
        """The moment at which it stands."""
        return iso(self._at)

    def monotonic(self) -> float:
        """Seconds by which it was moved forward."""
        return self._monotonic

    def move(self, seconds: float) -> None:
        """Move the wall clock by ``seconds``; the monotonic one never goes back."""
        self._at += timedelta(seconds=seconds)
        self._monotonic += max(seconds, 0.0)


def iso(moment: datetime) -> Timestamp:
    """Write a moment; what is finer than a millisecond is cut off."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def parse_iso(text: str) -> datetime:
    """Read any ISO 8601 moment; without a zone it is taken as UTC.

    A ``+`` that arrived as a space (it was not escaped in an address) is understood.
    Raises ``ValueError`` for anything else.
    """
    text = text.strip()
    head, blank, offset = text.rpartition(" ")
    if blank and "T" in head:
        text = f"{head}+{offset}"
    moment = datetime.fromisoformat(text)
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} is out of range") from error


def iso_of_unix(seconds: int) -> Timestamp:
    """Write a moment of Unix time; one that no calendar of ours has is the nearest that it has."""
    try:
        return iso(datetime.fromtimestamp(seconds, UTC))
    except (OverflowError, ValueError, OSError):
        return iso((datetime.max if seconds > 0 else datetime.min).replace(tzinfo=UTC))


def not_before(moment: datetime) -> Timestamp:
    """The first writable moment that is not before this one (milliseconds, rounded up)."""
    try:
        return iso(moment + timedelta(microseconds=-moment.microsecond % 1000))
    except OverflowError:
        return iso(moment)
