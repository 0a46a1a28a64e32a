"""How many requests failed lately, and how near a key is to its limits."""

from decimal import Decimal

import pytest

from agentd.gateway.alerts.conditions import (
    SLICE_SECONDS,
    ErrorRate,
    ErrorRateWindow,
    format_mark,
    has_failed,
    is_near,
    is_used_up,
)
from agentd.gateway.alerts.model import AlertRules
from agentd.gateway.limits.spend import LimitStatus
from tests.gateway.ledger.entries import build_record

RULES = AlertRules(near_limit=80, error_rate=25, error_requests=20)
RESETS = "2026-02-01T00:00:00.000Z"


def build_status(used: str, limit: str = "5", resets: str | None = RESETS) -> LimitStatus:
    return LimitStatus("day", Decimal(limit), Decimal(used), Decimal(0), resets)


@pytest.mark.parametrize(
    ("requests", "failed", "exceeds"),
    [(20, 5, True), (20, 4, False), (19, 19, False), (1000, 249, False), (1000, 250, True)],
)
def test_a_rate_is_exceeded_from_a_share_and_a_number_of_requests_on(requests, failed, exceeds):
    rate = ErrorRate(requests, failed)
    assert rate.exceeds(RULES) == exceeds
    assert not rate.exceeds(AlertRules(error_rate=None))


def test_requests_of_the_last_minutes_are_counted():
    window = ErrorRateWindow()
    for second in range(0, 300, 5):
        window.add(second % 10 == 0, 1000.0 + second)
    assert window.measure(5, 1295.0) == ErrorRate(60, 30)
    assert window.measure(1, 1295.0) == ErrorRate(12, 6)
    assert window.measure(5, 1295.0) == ErrorRate(12, 6), "what is older is forgotten"
    window.add(True, 1300.0)
    assert window.measure(1, 1300.0) == ErrorRate(11, 6)
    assert window.measure(1, 1300.0 + 60 + SLICE_SECONDS) == ErrorRate(0, 0)


def test_a_request_that_comes_late_counts_in_the_last_slice():
    window = ErrorRateWindow()
    for now in (1000.0, 1009.9, 1020.0, 1019.0):
        window.add(False, now)
    assert window.measure(1, 1079.9) == ErrorRate(2, 0)


@pytest.mark.parametrize(
    ("fields", "failed"),
    [
        ({}, False),
        ({"outcome": "left", "status": 500, "error": "server"}, False),
        ({"outcome": "broken"}, True),
        ({"outcome": "failed", "status": 500}, True),
        ({"outcome": "failed", "status": 499}, False),
        ({"outcome": "failed", "status": 429, "error": "rate_limit"}, True),
        ({"outcome": "refused", "status": 429, "error": "limit_day"}, False),
    ],
)
def test_what_is_the_callers_fault_did_not_fail(fields, failed):
    assert has_failed(build_record(1, **fields)) == failed


@pytest.mark.parametrize(
    ("used", "near", "used_up"),
    [("3.99", False, False), ("4", True, False), ("4.99", True, False), ("5", True, True)],
)
def test_a_limit_is_near_from_a_share_on_and_used_up_at_its_amount(used, near, used_up):
    status = build_status(used)
    assert (is_near(status, RULES), is_used_up(status)) == (near, used_up)


def test_limits_that_are_not_of_money_are_neither_near_nor_used_up():
    status = LimitStatus("requests_per_minute", 5, 5, 0, RESETS)
    assert not is_near(status, RULES)
    assert not is_used_up(status)


def test_a_limit_is_another_one_after_its_reset_or_a_raise():
    marks = [
        format_mark(build_status("1")),
        format_mark(build_status("1", limit="6")),
        format_mark(build_status("1", resets="2026-02-02T00:00:00.000Z")),
        format_mark(build_status("1", resets=None)),
    ]
    assert len(set(marks)) == len(marks)
    assert format_mark(build_status("2")) == marks[0]
    assert marks[-1] == "5 "
