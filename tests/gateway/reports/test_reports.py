"""Every report adds up to the same, whatever it is told by, and to what was booked."""

import csv
import io
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agentd.core.csv import render_structs_as_csv
from agentd.gateway.ledger.daily_totals import DIMENSIONS, TIMED_DIMENSIONS, Cell
from agentd.gateway.ledger.day_report import DayFold
from agentd.gateway.ledger.query import RequestFilter
from agentd.gateway.ledger.record import RequestRecord, Timings
from agentd.gateway.reports import reports
from agentd.gateway.reports.reports import (
    EVERYTHING,
    LatencyRow,
    ReportFilter,
    ReportRow,
    build_latency_rows,
    build_totals,
    list_errors,
    list_leaks,
    needs_each_day,
)
from agentd.gateway.reports.reports import build_times as times_of
from agentd.llm.price import Usage
from tests.gateway.ledger.entries import ENTRIES, build_record

BY = ("total", "day", "hour", "model", "channel", "key", "owner")
"""Groupings in which each request counts once; by tag, it counts in each tag of its key."""
NARROW = [
    ReportFilter(model="large"),
    ReportFilter(key="a" * 12),
    ReportFilter(channel="two", model="small"),
    ReportFilter(owner="ann"),
    ReportFilter(tag="nightly"),
    ReportFilter(owner="bob", tag="ann", model="large"),
]


def fold_days(entries):
    folds: dict[str, DayFold] = {}
    for one in entries:
        folds.setdefault(one.at[:10], DayFold(one.at[:10])).totals.add_record(one)
    return sorted(folds.items())


def build_report_rows(by, parts, only=EVERYTHING):
    return reports.build_rows(build_totals(by, parts, only))


def split_by_channel(entries):
    """Yield records of which each has the cost of its own channel: also of calls given up."""
    for one in entries:
        yield structs.replace(one, cost=one.cost - one.given_up_cost, failed_tries=())
        for failed in one.failed_tries:
            if failed.cost:
                yield structs.replace(
                    one, channel=failed.channel, cost=failed.cost, failed_tries=()
                )


@given(ENTRIES, st.sampled_from(BY))
def test_a_report_by_anything_adds_up_to_the_rows(entries, by):
    found = build_report_rows(by, fold_days(entries))
    assert sum(line.requests for line in found) == len(entries)
    assert sum(Fraction(line.cost) for line in found) == sum(Fraction(one.cost) for one in entries)
    assert sum(line.output for line in found) == sum(one.usage.output for one in entries)
    assert sum(line.ok for line in found) == sum(one.outcome == "ok" for one in entries)
    assert sum(line.hidden for line in found) == sum(sum(one.hidden.values()) for one in entries)


@given(ENTRIES, st.sampled_from(BY), st.sampled_from(NARROW))
def test_a_narrowed_report_is_that_of_the_rows_which_fit(entries, by, only):
    def list_fitting(records):
        return [one for one in records if fits(one)]

    def fits(one):
        return (
            (not only.model or (one.channel and one.model == only.model))
            and (not only.key or one.key == only.key)
            and (not only.channel or one.channel == only.channel)
            and (not only.owner or one.owner == only.owner)
            and (not only.tag or only.tag in one.tags)
        )

    requests = build_report_rows(by, fold_days(list_fitting(entries)))
    costs = build_report_rows(by, fold_days(list_fitting(split_by_channel(entries))))
    narrowed = {line.name: line for line in build_report_rows(by, fold_days(entries), only)}
    assert {name: line.cost for name, line in narrowed.items()} == {
        line.name: line.cost for line in costs
    }
    assert {name: line.requests for name, line in narrowed.items() if line.requests} == {
        line.name: line.requests for line in requests if line.requests
    }


@given(ENTRIES, st.sampled_from([EVERYTHING, *NARROW]))
def test_a_request_counts_in_each_tag_of_its_key_and_in_the_total_once(entries, only):
    report = build_totals("tag", fold_days(entries), only)
    found = {name: row.requests for name, row in report.rows}
    fitting = [one for one in entries if only.matches(to_cell(one))]
    for tag in ("nightly", "ann", ""):
        rows = [one for one in fitting if tag in (one.tags or ("",))]
        is_shown = only.tag in ("", tag)
        assert found.get(tag, 0) == (len(rows) if is_shown else 0), tag
    assert report.total.requests == len(fitting)
    assert report.total.cost == build_totals("total", fold_days(entries), only).total.cost


@given(ENTRIES, st.sampled_from([EVERYTHING, *NARROW]), st.sampled_from(["owner", "tag"]))
def test_times_by_owner_and_tag_are_those_of_their_requests(entries, only, by):
    report = times_of(by, fold_days(entries), only)
    fitting = [one for one in entries if only.matches(to_cell(one)) and one.outcome == "ok"]
    for name, row in report.rows:
        names = [(one.owner,) if by == "owner" else one.tags or ("",) for one in fitting]
        assert sum(row.took.values()) == sum(name in each for each in names)
    assert sum(report.total.took.values()) == len(fitting)


@given(ENTRIES)
def test_leaks_are_narrowed_down_to_an_owner_and_a_tag(entries):
    for only in NARROW[-3:]:
        found = list_leaks(fold_days(entries), lambda *_: {}, only)
        fitting = [one for one in entries if only.matches(to_cell(one))]
        counts = sum(sum(one.hidden.values()) for one in fitting)
        assert sum(row.count for row in found) == counts


def to_cell(one: RequestRecord) -> Cell:
    model = one.model if one.channel else ""
    return Cell(one.at[11:13], model, one.channel, one.key, one.owner, one.tags)


@given(ENTRIES)
def test_errors_and_leaks_are_those_of_the_rows(entries):
    days = fold_days(entries)
    found = list_errors(build_totals("total", days).total)
    assert sum(row.requests for row in found) == sum(one.outcome != "ok" for one in entries)
    result = list_leaks(days, lambda *_: {"a" * 12: "laptop"})
    assert sum(row.count for row in result) == sum(sum(one.hidden.values()) for one in entries)
    for row in result:
        assert row.title == ("laptop" if row.key == "a" * 12 else "")
        assert row.count == sum(
            one.hidden.get(row.rule, 0)
            for one in entries
            if one.key == row.key and one.at.startswith(row.day)
        )


@given(ENTRIES, st.sampled_from([*BY, "tag"]), st.integers(0, 40))
def test_a_report_goes_on_from_one_of_earlier_days_and_leaves_that_as_it_is(entries, by, cut):
    days = fold_days(entries)
    earlier = build_totals(by, days[:cut])
    before = reports.build_rows(earlier)
    assert build_totals(by, days[cut:], EVERYTHING, earlier) == build_totals(by, days)
    assert reports.build_rows(earlier) == before
    if by != "key":
        half = times_of(by, days[:cut])
        assert times_of(by, days[cut:], EVERYTHING, half) == times_of(by, days)


@given(ENTRIES, st.sampled_from([EVERYTHING, *NARROW]), st.sampled_from([*BY, "tag"]))
def test_all_in_all_it_is_the_same_by_whatever_it_is_reported(entries, only, by):
    days = fold_days(entries)
    assert build_totals(by, days, only).total == build_totals("total", days, only).total
    if by != "key":
        assert times_of(by, days, only).total == times_of("total", days, only).total


@given(ENTRIES, st.sampled_from([*TIMED_DIMENSIONS, "day", "total"]))
def test_times_are_those_of_the_answers_that_went_well(entries, by):
    found = build_latency_rows(times_of(by, fold_days(entries)))
    assert sum(line.answers for line in found) == sum(one.outcome == "ok" for one in entries)


@given(ENTRIES, st.sampled_from(["model", "channel"]))
def test_the_order_of_times_is_reported_by_totals(entries, by):
    days = fold_days(entries)
    wanted = [name for name, _ in times_of(by, days).rows]
    assert reports.rank_by_answers(build_totals(by, days)) == wanted


@given(ENTRIES, st.integers(0, 9), st.integers(1, 9))
def test_a_page_is_a_part_of_the_whole(entries, first, count):
    whole = build_totals("hour", fold_days(entries))
    assert (
        reports.build_rows(whole, first, count) == reports.build_rows(whole)[first : first + count]
    )


@given(ENTRIES, st.sampled_from(DIMENSIONS))
def test_a_day_that_is_counted_is_not_changed_by_being_asked(entries, side):
    for _, day in fold_days(entries):
        before = {name: row.copy() for name, row in day.iter_rows(side)}
        build_totals(side, [("2026-01-01", day)] * 2)
        assert dict(day.iter_rows(side)) == before


def test_totals_days_hours_and_what_is_narrowed_to_two_names_are_made_from_each_day():
    assert [by for by in BY if needs_each_day(by)] == ["total", "day", "hour"]
    assert not needs_each_day("key", ReportFilter(key="a"))
    assert not needs_each_day("total", ReportFilter(model="a"))
    assert needs_each_day("model", ReportFilter(key="a"))
    assert needs_each_day("total", ReportFilter(key="a", model="b"))
    assert not needs_each_day("owner", ReportFilter(owner="ann"))
    assert needs_each_day("owner", timed=True)


def test_quantiles_and_the_cache_share_are_reported():
    entries = [
        build_record(n, timings=Timings(1, 2, n, n * 10), usage=Usage(input=1, cache_read=3))
        for n in range(1, 101)
    ]
    days = fold_days(entries)
    (line,), (took,) = build_report_rows("total", days), build_latency_rows(times_of("total", days))
    assert took.latency.p50 == pytest.approx(500, rel=0.011)
    assert took.latency.p99 == pytest.approx(990, rel=0.011)
    assert took.first_token.p95 == pytest.approx(95, rel=0.011)
    assert line.cache_share == 0.75


def test_the_dearest_come_first_and_hours_in_order():
    entries = [
        build_record(1, "2026-01-02T05:00:00.000Z", model="cheap", cost=Decimal("0.1")),
        build_record(2, "2026-01-01T07:00:00.000Z", model="dear", cost=Decimal(2)),
    ]
    assert [line.name for line in build_report_rows("model", fold_days(entries))] == [
        "dear",
        "cheap",
    ]
    hours = [line.name for line in build_report_rows("hour", fold_days(entries))]
    assert hours == ["2026-01-01T07", "2026-01-02T05"]


def test_names_that_nobody_checked_do_not_fill_the_report_of_models():
    entries = [
        build_record(n, model=f"made up {n}", channel="", outcome="refused") for n in range(50)
    ]
    assert [line.name for line in build_report_rows("model", fold_days(entries))] == [""]


def test_a_report_is_csv_that_no_spreadsheet_carries_out():
    entries = [build_record(key_name="=cmd()", cost=Decimal("0.10"))]
    rows = list(
        csv.reader(
            io.StringIO(
                render_structs_as_csv(
                    ReportRow, build_report_rows("key", fold_days(entries))
                ).decode()
            )
        )
    )
    result = dict(zip(*rows, strict=True))
    assert result["title"] == "'=cmd()"
    assert result["cost"] == "0.10"
    took = build_latency_rows(times_of("model", fold_days(entries)))
    said = render_structs_as_csv(LatencyRow, took).decode()
    result = dict(zip(*csv.reader(io.StringIO(said)), strict=True))
    assert float(result["latency_p50"]) == pytest.approx(40, rel=0.011)
    assert render_structs_as_csv(LatencyRow, []).decode() == f"{said.splitlines()[0]}\r\n"


def test_a_filter_asks_only_for_what_it_names():
    one = build_record(7, cost=Decimal("0.5"), error="", status=200)
    assert RequestFilter().matches(one)
    for fits, wanted in (
        (
            True,
            RequestFilter(key="abcdefghijkl", model="large", channel="one", status=200, text="-7"),
        ),
        (True, RequestFilter(min_cost=Decimal("0.5"), since=one.at)),
        (False, RequestFilter(key="x")),
        (False, RequestFilter(model="x")),
        (False, RequestFilter(channel="x")),
        (False, RequestFilter(outcome="left")),
        (False, RequestFilter(error="x")),
        (False, RequestFilter(status=500)),
        (False, RequestFilter(until=one.at)),
        (False, RequestFilter(since="2026-01-01T00:00:00.001Z")),
        (False, RequestFilter(min_cost=Decimal("0.51"))),
        (False, RequestFilter(text="8")),
    ):
        assert wanted.matches(one) is fits
