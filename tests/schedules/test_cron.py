"""When a schedule is due: zones, changes of the clock, and what was missed."""

from datetime import timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.clock import format_iso, parse_iso
from agentd.schedules.cron import (
    MOST_COUNTED,
    describe_cron,
    find_due,
    find_next_firing,
    iter_firings,
    parse_cron,
    parse_zone,
    validate_schedule,
)
from agentd.schedules.model import Schedule


def make(cron: str, zone: str = "UTC") -> Schedule:
    return Schedule("s", cron, "do it", zone)


def list_firings(cron: str, zone: str, after: str, many: int) -> list[str]:
    return [at[:16] for at in islice(iter_firings(make(cron, zone), f"{after}:00.000Z"), many)]


def test_times_are_those_of_the_zone() -> None:
    assert list_firings("0 9 * * 1", "America/New_York", "2026-01-01T00:00", 1) == [
        "2026-01-05T14:00"
    ]
    assert find_next_firing("@daily", "Asia/Tokyo", "2026-01-01T00:00:00.000Z") == (
        "2026-01-01T15:00:00.000Z"
    )


def test_a_time_in_the_gap_is_due_right_after_it_and_one_that_comes_twice_once() -> None:
    """As in cron(8) of Debian."""
    berlin = "Europe/Berlin"
    assert list_firings("30 2 * * *", berlin, "2026-03-28T12:00", 2) == [
        "2026-03-29T01:00",
        "2026-03-30T00:30",
    ]
    assert list_firings("30 2 * * *", berlin, "2026-10-24T12:00", 2) == [
        "2026-10-25T00:30",
        "2026-10-26T01:30",
    ]


def test_what_runs_every_half_hour_keeps_its_pace_through_both_changes() -> None:
    for day in ("2026-03-28T20:00", "2026-10-24T20:00"):
        found = list_firings("*/30 * * * *", "Europe/Berlin", day, 20)
        gaps = {parse_iso(two + "Z") - parse_iso(one + "Z") for one, two in pairwise(found)}
        assert gaps == {timedelta(minutes=30)}


@pytest.mark.parametrize(
    ("cron", "said"),
    [
        ("61 * * * *", "bad minute; expected 0 to 59"),
        ("* * *", "expected five fields"),
        ("0 0 3 * * *", "expected five fields"),
        ("0 0 31 2 *", "bad day-of-month; expected 1 to 31"),
        ("* * */20 * 1L", "no such day"),
        ("@reboot", "expected five fields"),
    ],
)
def test_an_expression_that_means_nothing_is_explained(cron: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_cron(cron)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../../etc/passwd", "Europe", "+01:00"])
def test_a_zone_that_is_none_is_explained(zone: str) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        parse_zone(zone)


def test_mistakes_name_their_field() -> None:
    wrong = Schedule("s", "x", " ", "Mars/X", chat=1, worktree=True)
    assert [field for field, _ in validate_schedule(wrong)] == ["cron", "zone", "prompt", "chat"]
    assert describe_cron("0 3 * * 1-5") == "At 03:00 on Monday through Friday"


def test_what_is_found_within_a_minute_is_in_time_and_later_it_was_missed() -> None:
    daily = make("0 3 * * *")
    before = "2026-01-01T03:00:00.000Z"
    assert find_due(daily, before, "2026-01-02T02:59:59.999Z") is None
    due = find_due(daily, before, "2026-01-02T03:00:30.000Z")
    assert due and (due.at, due.earlier, due.late) == ("2026-01-02T03:00:00.000Z", 0, False)
    due = find_due(daily, before, "2026-01-05T12:00:00.000Z")
    assert due and (due.at, due.earlier, due.late) == ("2026-01-05T03:00:00.000Z", 3, True)


def test_a_long_outage_of_a_frequent_schedule_is_not_counted_to_its_end() -> None:
    due = find_due(make("* * * * *"), "2020-01-01T00:00:00.000Z", "2026-01-01T00:00:30.000Z")
    assert due
    assert (due.at, due.earlier, due.late) == ("2026-01-01T00:00:00.000Z", MOST_COUNTED, False)


def test_of_very_many_missed_firings_the_latest_is_found_however_long_ago_it_was() -> None:
    """So that there is one run for all of them."""
    office = make("*/2 9-17 * * 1-5")
    due = find_due(office, "2026-01-01T00:00:00.000Z", "2026-02-02T08:00:00.000Z")
    assert due
    assert (due.at, due.earlier, due.late) == ("2026-01-30T17:58:00.000Z", MOST_COUNTED, True)
    assert find_due(office, due.at, "2026-02-02T08:00:00.000Z") is None


@given(
    cron=st.sampled_from(["*/7 * * * *", "15 */3 * * *", "30 2 * * *", "0 0 1 * *", "5 4 * * 0"]),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    start=st.datetimes(),
    steps=st.lists(st.integers(1, 5 * 86400), min_size=1, max_size=6),
)
def test_however_often_one_looks_each_firing_is_found_once(cron, zone, start, steps) -> None:
    schedule = make(cron, zone)
    year = start.replace(year=2026)
    now = considered = format_iso(year.replace(tzinfo=parse_iso("2026-01-01").tzinfo))
    first, found = now, 0
    for seconds in steps:
        now = format_iso(parse_iso(now) + timedelta(seconds=seconds))
        if due := find_due(schedule, considered, now):
            assert considered < due.at <= now
            found += 1 + due.earlier
            considered = due.at
    wanted = 0
    for at in iter_firings(schedule, first):
        if at > now:
            break
        wanted += 1
    assert found == wanted or wanted > MOST_COUNTED
