"""Quantiles of durations that can be added up: a histogram with buckets that grow.

A bucket is as wide as 2 % of what is in it, so a quantile is told to within 1 % of the true one
(and half a millisecond). Adding two histograms loses nothing: in whatever order they are merged,
the sum is the histogram of everything.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import ceil, log
from typing import TypeAlias

Histogram: TypeAlias = dict[int, int]
"""How many durations fell into each bucket."""

ERROR = 0.01
"""How far, of the true value, a quantile may be off."""
_GROWTH = (1 + ERROR) / (1 - ERROR)
_STEP = log(_GROWTH)
_NOTHING = -1
"""The bucket of what took no time at all."""


def note(histogram: Histogram, milliseconds: int) -> None:
    """One more duration, of 0 ms or more."""
    bucket = ceil(log(milliseconds) / _STEP) if milliseconds > 0 else _NOTHING
    histogram[bucket] = histogram.get(bucket, 0) + 1


def quantile(histogram: Mapping[int, int], part: float) -> float | None:
    """The least duration, in ms, that ``part`` (0 to 1) of all do not exceed; None of none."""
    return quantiles(histogram, (part,))[0]


def quantiles(histogram: Mapping[int, int], parts: Sequence[float]) -> list[float | None]:
    """Several of them, for hardly more than one."""
    buckets = sorted(histogram)
    passed = list(accumulate(map(histogram.__getitem__, buckets)))
    if not passed:
        return [None] * len(parts)
    ranks = [max(1, ceil(part * passed[-1])) for part in parts]
    return [_middle(buckets[bisect_left(passed, rank)]) for rank in ranks]


def _middle(bucket: int) -> float:
    """What is within 1 % of all durations in a bucket, in ms."""
    return 0.0 if bucket == _NOTHING else 2 * _GROWTH**bucket / (_GROWTH + 1)
