"""The fold of a day keeps every number of its requests, from every side and however it is read."""

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agentd.gateway.ledger.daily_totals import (
    GROUPS,
    TIMED_DIMENSIONS,
    Cell,
    DailyTotals,
    RequestTotals,
    ResponseTimes,
    to_spent,
)
from agentd.gateway.ledger.record import FailedTry, RequestRecord, Timings
from agentd.gateway.limits.spend_by_quarter_hour import KeySpend
from agentd.llm.price import Usage
from tests.gateway.ledger.entries import ENTRIES, build_record

RICH = {
    "usage": Usage(1, 20, 300, 4000, 50_000, 600_000),
    "stream": True,
    "estimated": True,
    "received": 7,
    "sent": 8,
    "hidden": {"jwt": 2, "card": 1},
}


def fold(entries: Iterable[RequestRecord], slot: int = 60, look_after: int = 0) -> DailyTotals:
    """Add entries up; look at the tables after some of them, so that they are merged twice."""
    totals = DailyTotals(slot)
    for number, one in enumerate(entries, 1):
        totals.add_record(one)
        if number == look_after:
            assert totals.total.totals.requests == number
    return totals


def recount(entries: list[RequestRecord]) -> RequestTotals:
    """Return what requests add up to, field by field."""
    usage = sum((one.usage for one in entries), Usage())
    wrong = Counter(one.error or one.outcome for one in entries if one.outcome != "ok")
    hidden = sum((Counter(one.hidden) for one in entries), Counter[str]())
    return RequestTotals(
        requests=len(entries),
        ok=sum(one.outcome == "ok" for one in entries),
        errors=dict(wrong),
        streams=sum(one.stream for one in entries),
        estimated=sum(one.estimated for one in entries),
        cost=sum((one.cost for one in entries), Decimal(0)),
        received=sum(one.received for one in entries),
        sent=sum(one.sent for one in entries),
        hidden=dict(hidden),
        **structs.asdict(usage),
    )


@given(ENTRIES, st.integers(0, 5))
def test_every_number_is_that_of_the_requests_by_every_side(entries, look_after):
    totals = fold(entries, look_after=look_after)
    assert totals.total.totals == recount(entries)
    names = {
        "hour": lambda one: [one.at[11:13]],
        "model": lambda one: [one.model if one.channel else ""],
        "key": lambda one: [one.key],
        "owner": lambda one: [one.owner],
        "tag": lambda one: one.tags or [""],
    }
    for side, list_names in names.items():
        if side in GROUPS and not any(one.owner or one.tags for one in entries):
            assert not totals.tables[side]
            continue
        found = {name for one in entries for name in list_names(one)}
        expected = {
            name: recount([one for one in entries if name in list_names(one)]) for name in found
        }
        assert totals.tables[side] == expected
    spent = {cell: figures.totals.cost for cell, figures in totals.cells.items()}
    by_channel = Counter[str]()
    for cell, cost in spent.items():
        by_channel[cell.channel] += cost
    table = totals.tables["channel"]
    assert {name: row.cost for name, row in table.items()} == dict(by_channel)
    assert sum(row.requests for row in table.values()) == len(entries)


@given(ENTRIES)
def test_what_limits_count_is_what_reports_add_up(entries):
    spent = KeySpend()
    for one in entries:
        spent.add_record(one)
    assert to_spent(fold(entries).total.totals) == spent


def test_each_kind_of_token_stays_in_its_own_column():
    totals = fold([build_record(1, **RICH), build_record(2, **RICH)], look_after=1).total.totals
    columns = "input", "cache_read", "cache_write", "cache_write_1h", "output", "reasoning"
    assert [getattr(totals, name) for name in columns] == [2, 40, 600, 8000, 100_000, 1_200_000]
    assert (totals.streams, totals.estimated, totals.received, totals.sent) == (2, 2, 14, 16)
    assert totals.hidden == {"jwt": 4, "card": 2}
    assert to_spent(totals).tokens == 2 * 654_321
    assert totals.copy() == totals


@pytest.mark.parametrize("bucket", ["cache_write", "cache_write_1h"])
def test_what_is_written_to_a_cache_for_either_time_counts_alone(bucket):
    usage = Usage(**{bucket: 9})
    totals = fold([build_record(1, usage=usage), build_record(2, usage=usage)]).total.totals
    assert (totals.cache_write, totals.cache_write_1h) == (
        (18, 0) if bucket == "cache_write" else (0, 18)
    )


def test_errors_are_named_by_their_kind_or_else_by_the_outcome():
    outcomes = ("ok", ""), ("failed", "server"), ("left", ""), ("left", ""), ("broken", "crash")
    entries = [
        build_record(number, outcome=outcome, error=error)
        for number, (outcome, error) in enumerate(outcomes)
    ]
    totals = fold(entries).total.totals
    assert (totals.ok, totals.errors) == (1, {"server": 1, "left": 2, "crash": 1})


def test_times_are_those_of_answers_and_first_tokens_those_of_all_that_had_one():
    entries = [
        build_record(1, timings=Timings(1, 2, 30, 40)),
        build_record(2, timings=Timings(1, 2, 30, 50), outcome="broken"),
        build_record(3, timings=Timings(1, 2, 0, 60), outcome="failed"),
    ]
    totals = fold(entries)
    assert (sum(totals.total.times.took.values()), sum(totals.total.times.first.values())) == (1, 2)
    for side in TIMED_DIMENSIONS:
        (row,) = totals.times[side].values()
        assert row == totals.total.times
    assert ResponseTimes().copy() == ResponseTimes()


@pytest.mark.parametrize(
    ("slot", "names"),
    [
        (60, {"07": 4}),
        (30, {"07:00": 2, "07:30": 2}),
        (15, {"07:00": 1, "07:15": 1, "07:30": 1, "07:45": 1}),
    ],
)
def test_hours_are_cut_into_slots(slot, names):
    minutes = "00", "29", "30", "59"
    entries = [
        build_record(number, f"2026-01-01T07:{minute}:59.999Z")
        for number, minute in enumerate(minutes)
    ]
    hours = fold(entries, slot).tables["hour"]
    assert {name: row.requests for name, row in hours.items()} == names


def test_a_call_that_was_given_up_costs_its_own_channel_and_no_request():
    given_up = FailedTry("two", "unreachable", usage=Usage(input=7), cost=Decimal("0.125"))
    free = FailedTry("three", "rate_limit")
    entry = build_record(1, failed_tries=(free, given_up), cost=Decimal("0.375"))
    totals = fold([entry])
    rows = {name: (row.requests, row.cost) for name, row in totals.tables["channel"].items()}
    assert rows == {"one": (1, Decimal("0.25")), "two": (0, Decimal("0.125"))}
    assert totals.tables["model"]["large"].cost == totals.total.totals.cost == Decimal("0.375")
    assert totals.quarters[0][entry.key].cost == Decimal("0.375")


def test_owners_and_tags_are_kept_from_the_first_request_that_has_some():
    plain = [build_record(number) for number in range(3)]
    assert fold(plain).tables["owner"] == {}
    totals = fold([*plain, build_record(4, owner="ann"), build_record(5)], look_after=3)
    owners = {name: row.requests for name, row in totals.tables["owner"].items()}
    assert owners == {"": 4, "ann": 1}
    assert {name: row.requests for name, row in totals.tables["tag"].items()} == {"": 5}
    tagged = fold([build_record(1, tags=("a", "b"))])
    assert {name: row.requests for name, row in tagged.tables["tag"].items()} == {"a": 1, "b": 1}


def test_the_last_name_of_a_key_is_kept():
    entries = [
        build_record(number, key_name=name) for number, name in enumerate(["old", "new", ""])
    ]
    totals = fold(entries)
    assert totals.names == {entries[0].key: "new"}


def test_a_cell_that_is_added_stays_as_it_is_elsewhere():
    cell, one = Cell("07", "large", "one", "k"), fold([build_record()]).total
    totals, before = DailyTotals(), one.totals.copy()
    seen = []
    totals.on_merged = lambda cell, figures: seen.append((cell, figures.totals.requests))
    for _ in range(2):
        totals.add_cell(cell, one)
    assert totals.total.totals.requests == totals.tables["hour"]["07"].requests == 2
    totals.add_cell(cell, one)
    assert totals.cells[cell].totals.requests == 3
    assert seen == [(cell, 2), (cell, 1)], "what is new, once"
    assert one.totals == before
