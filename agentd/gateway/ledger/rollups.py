"""Rollups of days: a long report reads a few of them instead of every day's report.

A rollup spans 4, 8, 16, 32 or 64 days and starts at a day whose number (``date.toordinal``) is a
multiple of that. Once its days are over it never changes; it is built from two smaller rollups, or
from four days; and a year is covered by about a dozen.
"""

from collections.abc import Iterator
from datetime import date
from typing import NamedTuple

WIDTHS = (64, 32, 16, 8, 4)
"""Widths in days, the widest first."""


class Rollup(NamedTuple):
    """A number of consecutive days; ``days`` is 1 for a single day."""

    first: str
    days: int

    @property
    def last(self) -> str:
        """The last day, inclusive."""
        return _from_ordinal(_to_ordinal(self.first) + self.days - 1)

    def split(self) -> Iterator["Rollup"]:
        """Iterate over the next smaller rollups, or days, that it is built from."""
        return cover_days(self.first, self.last, narrower_than=self.days)


def cover_days(first: str, last: str, narrower_than: int = 1000) -> Iterator[Rollup]:
    """Cover the days ``first`` to ``last`` with as few rollups as possible, in order."""
    day, end = _to_ordinal(first), _to_ordinal(last)
    widths = [width for width in WIDTHS if width < narrower_than]
    while day <= end:
        fitting = (width for width in widths if day % width == 0 and day + width - 1 <= end)
        width = next(fitting, 1)
        yield Rollup(_from_ordinal(day), width)
        day += width


def iter_rollups(first: str, last: str) -> Iterator[Rollup]:
    """Iterate over every rollup within the days ``first`` to ``last``, the narrowest first."""
    begin, end = _to_ordinal(first), _to_ordinal(last)
    for width in reversed(WIDTHS):
        for number in range(-(-begin // width) * width, end - width + 2, width):
            yield Rollup(_from_ordinal(number), width)


def _to_ordinal(day: str) -> int:
    return date.fromisoformat(day).toordinal()


def _from_ordinal(number: int) -> str:
    return date.fromordinal(number).isoformat()
