"""Quantiles: within 1 % of the true ones, and merged in any order the same."""

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from agentd.core.quantile import RELATIVE_ERROR, Histogram, add_duration, estimate_quantile

spans = st.lists(st.integers(0, 10**8), min_size=1, max_size=200)


def build_histogram(durations: list[int]) -> Histogram:
    found: Histogram = {}
    for duration in durations:
        add_duration(found, duration)
    return found


@given(spans, st.sampled_from([0.0, 0.01, 0.5, 0.95, 1.0]))
def test_a_quantile_is_within_one_percent_of_the_true_one(
    durations: list[int], part: float
) -> None:
    exact = sorted(durations)[max(1, ceil(part * len(durations))) - 1]
    result = estimate_quantile(build_histogram(durations), part)
    assert result is not None
    assert abs(result - exact) <= RELATIVE_ERROR * exact * (1 + 1e-9)


def test_of_nothing_there_is_no_quantile() -> None:
    assert estimate_quantile({}, 0.5) is None


def test_what_took_no_time_took_none() -> None:
    assert estimate_quantile(build_histogram([0, 0, 0]), 0.95) == 0


def test_a_week_needs_few_buckets() -> None:
    """The memory of a day is bounded, however many turns it had."""
    assert len(build_histogram(list(range(0, 7 * 86_400_000, 50_000)))) < 1200
