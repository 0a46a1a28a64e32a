"""Counters add up to what the reports say, and no caller can make them grow without bound."""

from collections import Counter
from decimal import Decimal
from itertools import count

from hypothesis import given

from agentd.gateway.ledger.daily_totals import RequestTotals
from agentd.gateway.ledger.record import FailedTry, Timings
from agentd.gateway.metrics.counters import (
    FIRST_TOKEN_BOUNDS,
    MAX_GROUPS,
    MAX_SHARED,
    OTHER,
    DurationCounts,
    RequestCounters,
)
from agentd.llm.price import Usage
from tests.gateway.ledger.entries import ENTRIES, build_record


def count_records(*records):
    counters = RequestCounters()
    for record in records:
        counters.add_record(record)
    return counters.take_snapshot()


@given(ENTRIES)
def test_all_groups_together_are_the_totals_of_the_reports(records):
    found, expected = RequestTotals(), RequestTotals()
    snapshot = count_records(*records)
    for record in records:
        expected.add_record(record)
    statuses = Counter()
    for one in snapshot.groups.values():
        found.add(one.totals)
        statuses.update(one.statuses)
    assert found == expected
    assert statuses == Counter((record.outcome, record.status) for record in records)


@given(ENTRIES)
def test_each_group_has_the_requests_of_its_model_and_channel(records):
    groups = count_records(*records).groups
    expected = Counter(
        (record.model, record.channel) if record.channel else ("", "") for record in records
    )
    assert Counter({place: one.totals.requests for place, one in groups.items()}) == expected


def test_models_that_callers_make_up_are_not_kept():
    refused = {"channel": "", "outcome": "refused", "status": 404, "error": "not_found"}
    groups = count_records(
        *(build_record(number, model=f"x{number}", **refused) for number in range(50))
    ).groups
    assert list(groups) == [("", "")]
    assert groups["", ""].totals.errors == {"not_found": 50}


@given(ENTRIES)
def test_owners_and_tags_have_what_requests_of_their_keys_cost(records):
    shared = count_records(*records).shared
    names = {("owner", one.owner) for one in records if one.owner}
    names |= {("tag", tag) for one in records for tag in one.tags}
    assert shared.keys() == names
    for (scope, name), spent in shared.items():
        those = [one for one in records if name in (one.tags if scope == "tag" else (one.owner,))]
        assert spent.requests == len(those)
        assert spent.cost == sum(one.cost for one in those)
        usages = [one.usage.total_input + one.usage.total_output for one in those]
        assert spent.tokens == sum(usages)


def test_further_owners_and_tags_are_counted_as_others_and_each_request_once():
    records = [
        build_record(number, owner=f"o{number}", tags=(f"t{number}", f"u{number}"))
        for number in range(MAX_SHARED + 30)
    ]
    shared = count_records(*records).shared
    for scope, others in (("owner", 30), ("tag", MAX_SHARED + 30 - MAX_SHARED // 2)):
        assert len([1 for of, _ in shared if of == scope]) == MAX_SHARED + 1
        assert shared[scope, OTHER].requests == others
    assert ("owner", "o99") in shared
    assert ("owner", "o100") not in shared


def test_further_pairs_of_model_and_channel_are_counted_as_others():
    records = [build_record(number, model=f"m{number}") for number in range(MAX_GROUPS + 30)]
    groups = count_records(*records, records[0]).groups
    assert len(groups) == MAX_GROUPS + 1
    assert groups["m0", "one"].totals.requests == 2
    assert groups[OTHER, OTHER].totals.requests == 30


def test_failed_tries_are_counted_by_channel_and_error():
    tries = (FailedTry("one", "rate_limit"), FailedTry("two", "unreachable"))
    found = count_records(
        build_record(1, failed_tries=tries), build_record(2, failed_tries=tries[:1])
    ).failed_tries
    assert found == {("one", "rate_limit"): 2, ("two", "unreachable"): 1}


def test_what_a_call_costs_that_was_given_up_is_counted_for_its_own_channel():
    tries = (FailedTry("two", "unreachable", usage=Usage(input=9), cost=Decimal("0.2")),)
    groups = count_records(build_record(1, failed_tries=tries, cost=Decimal("0.25"))).groups
    assert {place: one.totals.cost for place, one in groups.items()} == {
        ("large", "one"): Decimal("0.05"),
        ("large", "two"): Decimal("0.2"),
    }
    assert groups["large", "two"].totals.requests == 0


def test_failed_tries_of_many_channels_have_a_bound():
    names = [f"c{number}" for number in range(MAX_GROUPS + 30)]
    records = [build_record(1, failed_tries=(FailedTry(name, "server"),)) for name in names]
    found = count_records(*records).failed_tries
    assert len(found) == MAX_GROUPS + 1
    assert found[OTHER, "server"] == 30


def test_only_streamed_replies_that_began_have_a_time_to_the_first_token():
    began, never = Timings(first=300.0), Timings()
    numbers = count()
    records = [
        build_record(next(numbers), stream=stream, timings=timings)
        for stream in (True, False)
        for timings in (began, never)
    ]
    (group,) = count_records(*records).groups.values()
    assert sum(group.first_token.counts) == 1
    assert group.first_token.counts[FIRST_TOKEN_BOUNDS.index(0.5)] == 1
    assert group.first_token.milliseconds == 300.0


def test_only_successful_requests_have_a_duration():
    timings = Timings(total=2000.0)
    failed = build_record(2, outcome="failed", status=502, timings=timings)
    (group,) = count_records(build_record(1, timings=timings), failed).groups.values()
    assert sum(group.duration.counts) == 1


def test_a_duration_counts_up_to_its_bound_inclusive():
    """As Prometheus defines ``le``."""
    durations = DurationCounts.from_bounds((1.0, 2.0))
    for milliseconds in (0.0, 1000.0, 1000.1, 2000.0, 9000.0):
        durations.add(milliseconds)
    assert durations.counts == [2, 2, 1]


def test_a_snapshot_stays_as_it_was():
    counters = RequestCounters()
    record = build_record(1, stream=True, failed_tries=(FailedTry("two", "server"),))
    counters.add_record(record)
    first = counters.take_snapshot()
    counters.add_record(record)
    (group,) = first.groups.values()
    assert group.totals.requests == sum(group.statuses.values()) == 1
    assert sum(group.first_token.counts) == sum(group.duration.counts) == 1
    assert list(first.failed_tries.values()) == [1]
