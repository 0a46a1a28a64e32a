"""Limits that are raised for a while, and the share of a limit that warns."""

from decimal import Decimal

import pytest

from agentd.core.errors import BadRequest
from agentd.gateway.keys.limits import (
    KeyLimits,
    LimitRaise,
    SoftLimits,
    compute_soft_limits,
    raise_limits,
    require_higher,
)

NOW, LATER = "2026-01-31T12:00:00.000Z", "2026-01-31T12:00:00.001Z"
LIMITS = KeyLimits(day=Decimal(5), week=Decimal(0), parallel=2)


def build_raise(until: str = LATER, **fields: object) -> LimitRaise:
    return LimitRaise(until=until, **fields)


def test_what_is_set_is_raised_where_the_other_limit_is_higher():
    more = KeyLimits(day=Decimal(9), week=Decimal(1), month=Decimal(50), parallel=1)
    raised = raise_limits(LIMITS, more)
    assert raised == KeyLimits(day=Decimal(9), week=Decimal(1), parallel=2)
    assert raise_limits(raised, LIMITS) is raised
    assert raise_limits(LIMITS, KeyLimits()) is LIMITS


def test_moments_of_a_raise_are_kept_in_the_form_of_all_times():
    one = build_raise("2026-01-31T13:00:00+01:00", at="2026-01-31T11:59:00Z")
    assert (one.until, one.at) == (NOW, "2026-01-31T11:59:00.000Z")
    for field in ("until", "at"):
        with pytest.raises(ValueError, match=f"{field}: 'soon' is not a time"):
            LimitRaise(**({"until": LATER} | {field: "soon"}))


@pytest.mark.parametrize(
    ("raised", "problem"),
    [
        (build_raise(NOW, limits=KeyLimits(day=Decimal(9))), "until must be in the future"),
        (build_raise(), "at least one limit"),
        (build_raise(limits=KeyLimits(month=Decimal(9))), "no limit MONTH that could be raised"),
        (build_raise(limits=KeyLimits(day=Decimal(5))), "DAY: 5 is not more than 5"),
        (build_raise(models={"small": KeyLimits(day=Decimal(9))}), 'no limits on "small"'),
        (build_raise(models={"large": KeyLimits(week=Decimal(9))}), "no limit WEEK on large"),
        (build_raise(models={"large": KeyLimits(day=Decimal(1))}), "DAY on large: 1 is not more"),
        (build_raise(models={"large": KeyLimits()}), "at least one limit"),
    ],
)
def test_a_raise_that_raises_nothing_or_ends_now_is_refused(raised, problem):
    models = {"large": KeyLimits(day=Decimal(1))}
    with pytest.raises(BadRequest, match=problem):
        require_higher(raised, LIMITS, models, NOW, str.upper)


@pytest.mark.parametrize(
    "raised",
    [
        build_raise(limits=KeyLimits(day=Decimal("5.01"), parallel=3)),
        build_raise(models={"large": KeyLimits(day=Decimal(2))}),
        build_raise(limits=KeyLimits(week=Decimal(1)), models={"large": KeyLimits(day=Decimal(2))}),
    ],
)
def test_a_raise_is_of_limits_or_of_those_of_a_model(raised):
    require_higher(raised, LIMITS, {"large": KeyLimits(day=Decimal(1))}, NOW)


def test_a_share_of_each_limit_warns_unless_an_amount_is_given():
    given = SoftLimits(week=Decimal(1), month=Decimal(2))
    limits = KeyLimits(total=Decimal(10), day=Decimal("0.01"), week=Decimal(70))
    assert compute_soft_limits(limits, given, 0.8) == SoftLimits(
        total=Decimal(8), day=Decimal("0.008"), week=Decimal(1), month=Decimal(2)
    )
    assert compute_soft_limits(limits, given, None) is given
    assert compute_soft_limits(KeyLimits(parallel=1), given, 0.8) is given


def test_a_share_has_at_most_the_places_of_an_amount():
    third = compute_soft_limits(KeyLimits(day=Decimal("0.000000000001")), SoftLimits(), 0.5)
    assert third.day == 0
    most = compute_soft_limits(KeyLimits(day=Decimal(10**9)), SoftLimits(), 0.333)
    assert str(most.day) == "333000000"
