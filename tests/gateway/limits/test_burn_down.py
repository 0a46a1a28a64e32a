"""How long limits last at the rate at which they are used."""

from datetime import UTC
from decimal import Decimal

from agentd.core.clock import FrozenClock
from agentd.gateway.keys.limits import KeyLimits
from agentd.gateway.limits.burn_down import compute_burn_down
from agentd.gateway.limits.meters import LimitsStatus
from agentd.gateway.limits.spend import LimitHolder, UsageMeter, Used, WindowCalendar

CREATED, NOON = "2026-01-01T00:00:00.000Z", "2026-01-11T12:00:00.000Z"


def compute_by_window(limits: KeyLimits, used: Used, now: str = NOON, created=CREATED):
    clock = FrozenClock(now)
    calendar = WindowCalendar(UTC, clock)
    meter = UsageMeter(calendar, used)
    _, windows = calendar.now()
    status = LimitsStatus(
        LimitHolder("key", "ann", "k" * 12), meter.used, meter.describe_limits(limits), ()
    )
    return {one.window: one for one in compute_burn_down(status, created, windows, clock.now())}


def test_the_rate_is_that_of_the_window_so_far():
    limits = KeyLimits(total=Decimal(21), day=Decimal(4), month=Decimal(300))
    found = compute_by_window(limits, Used(total=Decimal("10.5"), day=Decimal(1), month=Decimal(1)))
    assert found["total"].days_left == 10.5
    assert found["day"].days_left == 1.5
    assert found["day"].lasts
    assert found["month"].days_left == 299 * 10.5
    assert found["month"].lasts


def test_what_was_spent_before_a_budget_was_made_says_nothing_of_its_rate():
    limits, spent = KeyLimits(total=Decimal(121)), Used(total=Decimal(100), month=Decimal("10.5"))
    found = compute_by_window(limits, spent, created=None)
    assert found["total"].days_left == 21
    idle = compute_by_window(limits, Used(total=Decimal(100)), created=None)
    assert (idle["total"].days_left, idle["total"].lasts) == (None, True)
    today = compute_by_window(KeyLimits(day=Decimal(3)), Used(day=Decimal(1)), created=None)
    assert today["day"].days_left == 1


def test_what_is_used_up_before_it_resets_does_not_last():
    found = compute_by_window(
        KeyLimits(day=Decimal(4), total=Decimal(9)), Used(day=Decimal(3), total=Decimal(3))
    )
    assert found["day"].days_left < 0.5
    assert not found["day"].lasts
    assert not found["total"].lasts


def test_what_is_used_up_has_no_day_left_and_what_is_unused_lasts():
    found = compute_by_window(KeyLimits(day=Decimal(4), week=Decimal(4)), Used(day=Decimal(4)))
    assert (found["day"].days_left, found["day"].lasts) == (0, False)
    assert (found["week"].days_left, found["week"].lasts) == (None, True)


def test_what_is_reserved_does_not_last_and_more_than_all_leaves_no_day():
    clock = FrozenClock(NOON)
    calendar = WindowCalendar(UTC, clock)
    meter = UsageMeter(calendar, Used(day=Decimal(1), week=Decimal(5)))
    meter.take(Decimal(2), 1)
    limits = KeyLimits(day=Decimal(4), week=Decimal(4))
    status = LimitsStatus(LimitHolder("key", "a"), meter.used, meter.describe_limits(limits), ())
    _, windows = calendar.now()
    week, day = compute_burn_down(status, CREATED, windows, NOON)
    assert (day.used, day.reserved, day.days_left, day.lasts) == (1, 2, 0.5, True)
    assert (week.days_left, week.lasts) == (0, False)


def test_a_limit_lasts_that_is_used_up_at_the_moment_at_which_it_resets():
    found = compute_by_window(KeyLimits(day=Decimal(2)), Used(day=Decimal(1)))
    assert (found["day"].days_left, found["day"].lasts) == (0.5, True)


def test_a_limit_of_nothing_is_used_up():
    found = compute_by_window(KeyLimits(day=Decimal(0)), Used())
    assert (found["day"].days_left, found["day"].lasts) == (0, False)


def test_days_are_told_to_a_thousandth():
    found = compute_by_window(KeyLimits(day=Decimal(4)), Used(day=Decimal(3)))
    assert found["day"].days_left == 0.167


def test_only_money_is_reported():
    assert not compute_by_window(KeyLimits(parallel=3, requests_per_minute=1), Used())


def test_at_the_very_beginning_of_a_window_nothing_is_divided_by_nothing():
    found = compute_by_window(
        KeyLimits(day=Decimal(4)), Used(day=Decimal(1)), "2026-01-11T00:00:00.000Z"
    )
    assert found["day"].days_left > 0
