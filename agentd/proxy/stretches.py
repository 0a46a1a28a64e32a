"""Stretches of days: a long report is made from few of them instead of from every day.

A stretch has 4, 8, 16, 32 or 64 days, and begins at a day whose number (``date.toordinal``) is a
multiple of that. So once its days are over it never changes; it is made of two smaller ones, or of
four days; and a year is covered by a dozen or so.
"""

from collections.abc import Iterator
from datetime import date
from typing import NamedTuple

WIDTHS = (64, 32, 16, 8, 4)
"""Days, the widest first."""


class Stretch(NamedTuple):
    """So many days from the first one on; ``days`` is 1 for a day by itself."""

    first: str
    days: int

    @property
    def last(self) -> str:
        """Its last day."""
        return _day(_number(self.first) + self.days - 1)

    def parts(self) -> Iterator["Stretch"]:
        """The stretches and days that it is made of, the next smaller."""
        return cover(self.first, self.last, narrower_than=self.days)


def cover(first: str, last: str, narrower_than: int = 1000) -> Iterator[Stretch]:
    """The fewest stretches that are the days from ``first`` to ``last``, in order."""
    day, end = _number(first), _number(last)
    widths = [width for width in WIDTHS if width < narrower_than]
    while day <= end:
        fitting = (width for width in widths if day % width == 0 and day + width - 1 <= end)
        width = next(fitting, 1)
        yield Stretch(_day(day), width)
        day += width


def inside(first: str, last: str) -> Iterator[Stretch]:
    """Every stretch of the days from ``first`` to ``last``, the narrowest ones first."""
    begin, end = _number(first), _number(last)
    for width in reversed(WIDTHS):
        for number in range(-(-begin // width) * width, end - width + 2, width):
            yield Stretch(_day(number), width)


def _number(day: str) -> int:
    return date.fromisoformat(day).toordinal()


def _day(number: int) -> str:
    return date.fromordinal(number).isoformat()
