"""Every report adds up to the same, whatever it is told by, and to what was booked."""

import csv
import io
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.disk.ledger_report import Fold
from agentd.proxy import reports
from agentd.proxy.entry import Timings
from agentd.proxy.page import Filter
from agentd.proxy.price import Usage
from agentd.proxy.reports import EVERYTHING, Only, apart, errors, leaks, time_lines, totals
from agentd.proxy.reports import times as times_of
from agentd.proxy.tally import SIDES, TIMED
from agentd.wire.spreadsheet import as_csv
from tests.proxy.entries import ENTRIES, entry

BY = ("total", "day", "hour", "model", "channel", "key")
NARROW = [Only(model="large"), Only(key="a" * 12), Only(channel="two", model="small")]


def days_of(entries):
    folds: dict[str, Fold] = {}
    for one in entries:
        folds.setdefault(one.at[:10], Fold(one.at[:10])).tally.book(one)
    return sorted(folds.items())


def lines(by, parts, only=EVERYTHING):
    return reports.lines(totals(by, parts, only))


@given(ENTRIES, st.sampled_from(BY))
def test_a_report_by_anything_adds_up_to_the_rows(entries, by):
    found = lines(by, days_of(entries))
    assert sum(line.requests for line in found) == len(entries)
    assert sum(Fraction(line.cost) for line in found) == sum(Fraction(one.cost) for one in entries)
    assert sum(line.output for line in found) == sum(one.usage.output for one in entries)
    assert sum(line.ok for line in found) == sum(one.outcome == "ok" for one in entries)
    assert sum(line.hidden for line in found) == sum(sum(one.hidden.values()) for one in entries)


@given(ENTRIES, st.sampled_from(BY), st.sampled_from(NARROW))
def test_a_narrowed_report_is_that_of_the_rows_which_fit(entries, by, only):
    fitting = [
        one
        for one in entries
        if (not only.model or (one.channel and one.model == only.model))
        and (not only.key or one.key == only.key)
        and (not only.channel or one.channel == only.channel)
    ]
    whole = {line.name: line for line in lines(by, days_of(fitting))}
    narrowed = {line.name: line for line in lines(by, days_of(entries), only)}
    assert {name: line.cost for name, line in narrowed.items()} == {
        name: line.cost for name, line in whole.items()
    }
    assert {name: line.requests for name, line in narrowed.items()} == {
        name: line.requests for name, line in whole.items()
    }


@given(ENTRIES)
def test_errors_and_leaks_are_those_of_the_rows(entries):
    days = days_of(entries)
    found = errors(totals("total", days).total)
    assert sum(row.requests for row in found) == sum(one.outcome != "ok" for one in entries)
    told = leaks(days, lambda *_: {"a" * 12: "laptop"})
    assert sum(row.count for row in told) == sum(sum(one.hidden.values()) for one in entries)
    for row in told:
        assert row.title == ("laptop" if row.key == "a" * 12 else "")
        assert row.count == sum(
            one.hidden.get(row.rule, 0)
            for one in entries
            if one.key == row.key and one.at.startswith(row.day)
        )


@given(ENTRIES, st.sampled_from(BY), st.integers(0, 40))
def test_a_report_goes_on_from_one_of_earlier_days_and_leaves_that_as_it_is(entries, by, cut):
    days = days_of(entries)
    earlier = totals(by, days[:cut])
    before = reports.lines(earlier)
    assert totals(by, days[cut:], EVERYTHING, earlier) == totals(by, days)
    assert reports.lines(earlier) == before
    if by != "key":
        half = times_of(by, days[:cut])
        assert times_of(by, days[cut:], EVERYTHING, half) == times_of(by, days)


@given(ENTRIES, st.sampled_from([EVERYTHING, *NARROW]), st.sampled_from(BY))
def test_all_in_all_it_is_the_same_by_whatever_it_is_told(entries, only, by):
    days = days_of(entries)
    assert totals(by, days, only).total == totals("total", days, only).total
    if by != "key":
        assert times_of(by, days, only).total == times_of("total", days, only).total


@given(ENTRIES, st.sampled_from([*TIMED, "day", "total"]))
def test_times_are_those_of_the_answers_that_went_well(entries, by):
    found = time_lines(times_of(by, days_of(entries)))
    assert sum(line.answers for line in found) == sum(one.outcome == "ok" for one in entries)


@given(ENTRIES, st.sampled_from(["model", "channel"]))
def test_the_order_of_times_is_told_by_totals(entries, by):
    days = days_of(entries)
    wanted = [name for name, _ in times_of(by, days).rows]
    assert reports.most_answered(totals(by, days)) == wanted


@given(ENTRIES, st.integers(0, 9), st.integers(1, 9))
def test_a_page_is_a_part_of_the_whole(entries, first, count):
    whole = totals("hour", days_of(entries))
    assert reports.lines(whole, first, count) == reports.lines(whole)[first : first + count]


@given(ENTRIES, st.sampled_from(SIDES))
def test_a_day_that_is_counted_is_not_changed_by_being_asked(entries, side):
    for _, day in days_of(entries):
        before = {name: row.copied() for name, row in day.rows(side)}
        totals(side, [("2026-01-01", day)] * 2)
        assert dict(day.rows(side)) == before


def test_totals_days_hours_and_what_is_narrowed_to_two_names_are_made_from_each_day():
    assert [by for by in BY if apart(by)] == ["total", "day", "hour"]
    assert not apart("key", Only(key="a"))
    assert not apart("total", Only(model="a"))
    assert apart("model", Only(key="a"))
    assert apart("total", Only(key="a", model="b"))


def test_quantiles_and_the_cache_share_are_told():
    entries = [
        entry(n, timings=Timings(1, 2, n, n * 10), usage=Usage(input=1, cache_read=3))
        for n in range(1, 101)
    ]
    days = days_of(entries)
    (line,), (took,) = lines("total", days), time_lines(times_of("total", days))
    assert took.latency.p50 == pytest.approx(500, rel=0.011)
    assert took.latency.p99 == pytest.approx(990, rel=0.011)
    assert took.first_token.p95 == pytest.approx(95, rel=0.011)
    assert line.cache_share == 0.75


def test_the_dearest_come_first_and_hours_in_order():
    entries = [
        entry(1, "2026-01-02T05:00:00.000Z", model="cheap", cost=Decimal("0.1")),
        entry(2, "2026-01-01T07:00:00.000Z", model="dear", cost=Decimal(2)),
    ]
    assert [line.name for line in lines("model", days_of(entries))] == ["dear", "cheap"]
    hours = [line.name for line in lines("hour", days_of(entries))]
    assert hours == ["2026-01-01T07", "2026-01-02T05"]


def test_names_that_nobody_checked_do_not_fill_the_report_of_models():
    entries = [entry(n, model=f"made up {n}", channel="", outcome="refused") for n in range(50)]
    assert [line.name for line in lines("model", days_of(entries))] == [""]


def test_a_report_is_csv_that_no_spreadsheet_carries_out():
    entries = [entry(key_name="=cmd()", cost=Decimal("0.10"))]
    rows = list(csv.reader(io.StringIO(as_csv(lines("key", days_of(entries))).decode())))
    told = dict(zip(*rows, strict=True))
    assert told["title"] == "'=cmd()"
    assert told["cost"] == "0.10"
    took = time_lines(times_of("model", days_of(entries)))
    told = dict(zip(*csv.reader(io.StringIO(as_csv(took).decode())), strict=True))
    assert float(told["latency_p50"]) == pytest.approx(40, rel=0.011)
    assert as_csv([]) == b""


def test_a_filter_asks_only_for_what_it_names():
    one = entry(7, cost=Decimal("0.5"), error="", status=200)
    assert Filter().fits(one)
    for fits, wanted in (
        (True, Filter(key="abcdefghijkl", model="large", channel="one", status=200, text="-7")),
        (True, Filter(min_cost=Decimal("0.5"), since=one.at)),
        (False, Filter(key="x")),
        (False, Filter(model="x")),
        (False, Filter(channel="x")),
        (False, Filter(outcome="left")),
        (False, Filter(error="x")),
        (False, Filter(status=500)),
        (False, Filter(until=one.at)),
        (False, Filter(since="2026-01-01T00:00:00.001Z")),
        (False, Filter(min_cost=Decimal("0.51"))),
        (False, Filter(text="8")),
    ):
        assert wanted.fits(one) is fits
