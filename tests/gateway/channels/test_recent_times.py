"""How fast a channel replied lately, by its last successful calls."""

import pytest

from agentd.gateway.channels.recent_times import KEPT_CALLS, CallTimes, RecentCallTimes
from agentd.gateway.ledger.record import Timings
from tests.gateway.ledger.entries import build_record


def call(head: float, first: float = 0.0, **more):
    """Make a request whose supplier was called after 10 ms."""
    return build_record(timings=Timings(10.0, head, first, 5000.0), **more)


def test_times_begin_when_the_supplier_is_called():
    times = RecentCallTimes()
    times.add_record(call(110.0, 210.0))
    found = times.get_times("one")
    assert found.calls == 1
    assert found.head_p50 == found.head_p95 == pytest.approx(100, rel=0.01)
    assert found.first_p50 == found.first_p95 == pytest.approx(200, rel=0.01)


def test_quantiles_are_of_the_last_calls_only():
    times = RecentCallTimes()
    for _ in range(KEPT_CALLS):
        times.add_record(call(90_010.0, 90_010.0))
    for number in range(KEPT_CALLS):
        times.add_record(call(20.0 + (number >= KEPT_CALLS * 0.9) * 1000, 2010.0))
    found = times.get_times("one")
    assert found.calls == KEPT_CALLS
    assert found.head_p50 == pytest.approx(10, rel=0.01)
    assert found.head_p95 == pytest.approx(1010, rel=0.01)
    assert found.first_p95 == pytest.approx(2000, rel=0.01)


@pytest.mark.parametrize(
    "record",
    [
        call(110.0, outcome="failed"),
        call(110.0, outcome="broken"),
        call(110.0, channel=""),
        call(5.0),
    ],
)
def test_only_successful_calls_of_a_channel_count(record):
    times = RecentCallTimes()
    times.add_record(record)
    assert times.get_times(record.channel) == CallTimes()


def test_each_channel_has_its_own_times_until_it_is_gone():
    times = RecentCallTimes()
    times.add_record(call(110.0, channel="one"))
    times.add_record(call(1010.0, channel="two"))
    assert times.get_times("two").head_p50 == pytest.approx(1000, rel=0.01)
    times.retain_only({"one": None})
    assert times.get_times("one").calls == 1
    assert times.get_times("two") == CallTimes()
