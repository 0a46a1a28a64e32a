"""Usage windows as programs tell them: sensible numbers are taken, all else is ignored."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.engines.external.usage_windows import describe_span, make_window, parse_moment
from agentd.models.program_state import UsageWindow


@pytest.mark.parametrize(
    ("percent", "shown"),
    [(0, 0), (0.4, 0), (82, 82), (82.5, 82), (99.9, 99), (100, 100), (130, 100), (10**400, 100)],
)
def test_only_what_is_used_up_is_full(percent: float, shown: int) -> None:
    assert make_window("5 hours", percent, None) == UsageWindow("5 hours", shown, None)


@pytest.mark.parametrize("percent", [None, "82", True, -1, float("nan"), [82], {}])
def test_what_is_no_percentage_makes_no_window(percent: object) -> None:
    assert make_window("5 hours", percent, None) is None


def test_a_name_is_safe_to_show() -> None:
    made = make_window("5 \x1b[31mhours" + "s" * 1000, 1, None)
    assert made and "\x1b" not in made.name and len(made.name) == 60


@pytest.mark.parametrize(
    ("told", "moment"),
    [
        (4102444800, "2100-01-01T00:00:00.000Z"),
        (4102444800.5, "2100-01-01T00:00:00.500Z"),
        ("2100-01-01T02:00:00.123456+02:00", "2100-01-01T00:00:00.123Z"),
        ("2100-01-01T00:00:00", "2100-01-01T00:00:00.000Z"),
        ("0001-01-01T00:00:00+10:00", ""),
        ("soon", ""),
        (0, ""),
        (-5, ""),
        (1e300, ""),
        (None, ""),
    ],
)
def test_a_moment_is_read_from_seconds_and_from_iso_8601(told: object, moment: str) -> None:
    assert parse_moment(told) == moment


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        (300, "5 hours"),
        (10080, "7 days"),
        (1440, "1 day"),
        (90, "90 minutes"),
        (0, ""),
        (-60, ""),
        (None, ""),
        (True, ""),
        ("300", ""),
    ],
)
def test_a_span_is_told_in_its_largest_whole_unit(minutes: object, words: str) -> None:
    assert describe_span(minutes) == words


@given(st.recursive(st.none() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=3))
def test_whatever_is_told_nothing_raises(value: Any) -> None:
    made = make_window("x", value, value)
    assert made is None or 0 <= made.used_percent <= 100
    describe_span(value)
