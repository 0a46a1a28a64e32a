"""Every report adds up to the same, whatever it is told by, and to what was booked."""

import csv
import io
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.proxy.entry import Timings
from agentd.proxy.page import Filter
from agentd.proxy.price import Usage
from agentd.proxy.reports import Only, as_csv, errors, leaks, lines
from agentd.proxy.tally import SIDES, Tally, Totals, sum_of
from tests.proxy.entries import ENTRIES, entry

BY = ("total", "day", "hour", "model", "channel", "key")
NARROW = [Only(model="large"), Only(key="a" * 12), Only(channel="two", model="small")]


class Day:
    """What a report asks of a day."""

    def __init__(self, tally: Tally) -> None:
        self.total = sum_of(tally.cells.values())
        self.names = tally.names
        self.table = tally.table
        self.cells = lambda: iter(tally.cells.items())


def days_of(entries):
    tallies: dict[str, Tally] = {}
    for one in entries:
        tallies.setdefault(one.at[:10], Tally()).book(one)
    return [(date, Day(tally)) for date, tally in sorted(tallies.items())]


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
    assert sum(row.requests for row in errors(days)) == sum(one.outcome != "ok" for one in entries)
    assert sum(row.count for row in leaks(days)) == sum(sum(one.hidden.values()) for one in entries)
    for row in leaks(days):
        assert row.count == sum(
            one.hidden.get(row.rule, 0)
            for one in entries
            if one.key == row.key and one.at.startswith(row.day)
        )


@given(ENTRIES)
def test_tallies_merge_in_any_order(entries):
    whole, first, second = Tally(), Tally(), Tally()
    for place, one in enumerate(entries):
        whole.book(one)
        (second if place % 2 else first).book(one)
    for side in SIDES:
        merged: dict[str, Totals] = second.table(side)
        for name, totals in first.table(side).items():
            merged.setdefault(name, Totals()).add(totals)
        assert merged == whole.table(side)


def test_quantiles_and_the_cache_share_are_told():
    entries = [
        entry(n, timings=Timings(1, 2, n, n * 10), usage=Usage(input=1, cache_read=3))
        for n in range(1, 101)
    ]
    (line,) = lines("total", days_of(entries))
    assert line.latency.p50 == pytest.approx(500, rel=0.011)
    assert line.latency.p99 == pytest.approx(990, rel=0.011)
    assert line.first_token.p95 == pytest.approx(95, rel=0.011)
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
