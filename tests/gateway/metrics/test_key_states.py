"""Which access keys count as near or at a limit."""

from decimal import Decimal

import msgspec
import pytest

from agentd.gateway.keys.model import issue
from agentd.gateway.limits.spend import LimitStatus
from agentd.gateway.metrics.key_states import KeyCounts

NOW = "2026-06-01T12:00:00.000Z"
KEY = issue("laptop", "2026-01-01T00:00:00.000Z")[1]


def make_status(limit, used, reserved="0", name="day"):
    return LimitStatus(name, Decimal(limit), Decimal(used), Decimal(reserved), None)


def count(*limits, **fields):
    counts = KeyCounts()
    counts.add(msgspec.structs.replace(KEY, **fields), limits, NOW)
    return counts


@pytest.mark.parametrize(
    ("limits", "near", "at"),
    [
        ((), 0, 0),
        ((make_status("10", "7.99"),), 0, 0),
        ((make_status("10", "8"),), 1, 0),
        ((make_status("10", "5", "3"),), 1, 0),
        ((make_status("10", "10"),), 0, 1),
        ((make_status("10", "12"),), 0, 1),
        ((make_status("10", "5", "5"),), 1, 0),
        ((make_status("10", "9"), make_status("10", "9", name="week")), 1, 0),
        ((make_status("10", "9"), make_status("10", "10", name="week")), 0, 1),
        ((make_status("0", "0"),), 0, 1),
        ((LimitStatus("requests_per_minute", 10, 10, 0, NOW),), 0, 0),
    ],
)
def test_a_key_is_near_or_at_its_limits_in_usd(limits, near, at):
    counts = count(*limits)
    assert (counts.enabled, counts.near_limit, counts.at_limit) == (1, near, at)


@pytest.mark.parametrize(
    ("fields", "state"), [({"enabled": False}, "disabled"), ({"expires": NOW}, "expired")]
)
def test_keys_that_open_nothing_are_near_no_limit(fields, state):
    expected = {"enabled": 0, "disabled": 0, "expired": 0, "near_limit": 0, "at_limit": 0}
    assert msgspec.structs.asdict(count(make_status("1", "1"), **fields)) == expected | {state: 1}
