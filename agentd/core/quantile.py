"""Mergeable quantiles of durations: a histogram with exponentially growing buckets.

A bucket spans 2 % of its value, so a quantile is within 1 % of the true one (and half a
millisecond). Merging histograms loses nothing: in whatever order they are added, the sum is the
histogram of all durations.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import ceil, log
from typing import TypeAlias

Histogram: TypeAlias = dict[int, int]
"""Number of durations in each bucket."""

RELATIVE_ERROR = 0.01
"""Maximum relative error of a quantile."""
_GROWTH = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_STEP = log(_GROWTH)
_ZERO_BUCKET = -1
"""The bucket of durations of 0 ms."""


def add_duration(histogram: Histogram, milliseconds: int) -> None:
    """Add one duration of 0 ms or more."""
    bucket = ceil(log(milliseconds) / _STEP) if milliseconds > 0 else _ZERO_BUCKET
    histogram[bucket] = histogram.get(bucket, 0) + 1


def estimate_quantile(histogram: Mapping[int, int], part: float) -> float | None:
    """Return the quantile ``part`` (0 to 1) in ms; ``None`` for an empty histogram."""
    return estimate_quantiles(histogram, (part,))[0]


def estimate_quantiles(histogram: Mapping[int, int], parts: Sequence[float]) -> list[float | None]:
    """Return several quantiles, at hardly more cost than one."""
    buckets = sorted(histogram)
    passed = list(accumulate(map(histogram.__getitem__, buckets)))
    if not passed:
        return [None] * len(parts)
    ranks = [max(1, ceil(part * passed[-1])) for part in parts]
    return [_get_midpoint(buckets[bisect_left(passed, rank)]) for rank in ranks]


def _get_midpoint(bucket: int) -> float:
    """Return the value in ms that is within 1 % of all durations in a bucket."""
    return 0.0 if bucket == _ZERO_BUCKET else 2 * _GROWTH**bucket / (_GROWTH + 1)
