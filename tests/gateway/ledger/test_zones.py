"""Reports by the days of a time zone are a recount of the entries, around each change of clocks."""

import asyncio
from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.core.clock import FrozenClock, format_iso, parse_iso
from agentd.core.local_days import get_local_day, get_local_hour
from agentd.core.quantile import estimate_quantile
from agentd.gateway.ledger.daily_totals import ResponseTimes
from agentd.gateway.ledger.day_report import DayFold
from agentd.gateway.ledger.ledger import Ledger
from agentd.gateway.ledger.record import RequestRecord, Timings
from agentd.gateway.reports.reports import EVERYTHING, ReportFilter
from agentd.llm.price import Prices
from agentd.storage.layout import Layout
from tests.gateway.ledger.entries import build_record
from tests.support.examples import limit_examples

pytestmark = pytest.mark.gen_test

CHANGES = {
    "Europe/Berlin": ("2026-03-29T01:00:00.000Z", "2026-10-25T01:00:00.000Z"),
    "America/New_York": ("2026-03-08T07:00:00.000Z", "2026-11-01T06:00:00.000Z"),
    "Australia/Lord_Howe": ("2026-04-04T15:00:00.000Z", "2026-10-03T15:30:00.000Z"),
    "Asia/Kathmandu": ("2026-05-01T00:00:00.000Z",),
    "Asia/Kolkata": ("2026-05-01T00:00:00.000Z",),
    "Asia/Beirut": ("2026-03-28T22:00:00.000Z",),
    "UTC": ("2026-05-01T00:00:00.000Z",),
}
MINUTES = 4 * 24 * 60

places = st.sampled_from([(zone, at) for zone, moments in CHANGES.items() for at in moments])
calls = st.lists(
    st.tuples(
        st.integers(-MINUTES // 2, MINUTES // 2),
        st.sampled_from(["a" * 12, "b" * 12]),
        st.sampled_from(["small", "large"]),
        st.integers(1, 1000),
    ),
    max_size=25,
)


def build_records(change: str, made: list[tuple[int, str, str, int]]) -> list[RequestRecord]:
    return [
        build_record(
            number,
            format_iso(parse_iso(change) + timedelta(minutes=minutes, seconds=59)),
            key=key,
            key_name=key[:1],
            owner="ann" if cents % 3 else "",
            tags=("nightly",) if cents % 2 else (),
            model=model,
            cost=Decimal(cents) / 100,
            hidden={"jwt": cents},
            timings=Timings(1, 2, 3, cents),
        )
        for number, (minutes, key, model, cents) in enumerate(made)
    ]


def get_row_names(one: RequestRecord, zone: ZoneInfo) -> dict[str, str]:
    """Return the row name of a request in each kind of report."""
    at = parse_iso(one.at)
    day = get_local_day(at, zone).isoformat()
    hour = f"{day}T{get_local_hour(at, zone)}"
    return {
        "total": "",
        "day": day,
        "hour": hour,
        "model": one.model,
        "key": one.key,
        "owner": one.owner,
    }


def count_by(
    entries: list[RequestRecord], by: str, zone: ZoneInfo
) -> dict[str, tuple[Decimal, int]]:
    found: defaultdict[str, tuple[Decimal, int]] = defaultdict(lambda: (Decimal(0), 0))
    for one in entries:
        cost, count = found[get_row_names(one, zone)[by]]
        found[get_row_names(one, zone)[by]] = cost + one.cost, count + 1
    return dict(found)


async def get_rows(
    ledger: Ledger, by: Any, days: tuple[str, str], only: ReportFilter = EVERYTHING
) -> Any:
    report = await ledger.get_totals(by, *days, only)
    rows = {name: (row.cost, row.requests) for name, row in report.rows}
    assert (report.total.cost, report.total.requests) == (
        sum((cost for cost, _ in rows.values()), Decimal(0)),
        sum(count for _, count in rows.values()),
    )
    return rows


async def compare_reports(
    ledger: Ledger, entries: list[RequestRecord], days: tuple[str, str]
) -> None:
    zone = ledger.zone
    assert isinstance(zone, ZoneInfo)
    within = [one for one in entries if days[0] <= get_row_names(one, zone)["day"] <= days[1]]
    for _ in range(2):  # the second time from memory
        for by in ("total", "day", "hour", "model", "key", "owner"):
            assert await get_rows(ledger, by, days) == count_by(within, by, zone)
            some = [one for one in within if one.model == "large"]
            only = ReportFilter(model="large")
            assert await get_rows(ledger, by, days, only) == count_by(some, by, zone)
            some = [one for one in some if one.owner and one.tags]
            only = ReportFilter(model="large", owner="ann", tag="nightly")
            assert await get_rows(ledger, by, days, only) == count_by(some, by, zone)
        names = (await ledger.get_totals("key", *days)).names
        assert names == {one.key: one.key_name for one in within}
        by_day = dict((await ledger.get_times("day", *days)).rows)
        answers = {name: sum(row.took.values()) for name, row in by_day.items()}
        assert answers == {
            name: count for name, (_, count) in count_by(within, "day", zone).items()
        }
        leaks = {(one.day, one.key): one.count for one in await ledger.get_leaks(*days)}
        assert sum(leaks.values()) == sum(one.hidden["jwt"] for one in within)
        assert len(leaks) == len({(get_row_names(one, zone)["day"], one.key) for one in within})


async def check_zone(
    layout: Layout, place: tuple[str, str], entries: list[RequestRecord], late: int
) -> None:
    name, change = place
    zone, moment = ZoneInfo(name), parse_iso(change)
    spans = [(-3, 3), (0, 0), (-1, 0), (0, 1)]
    ranges = [
        tuple((moment + timedelta(days=n)).astimezone(zone).date().isoformat() for n in span)
        for span in spans
    ]
    clock = FrozenClock(format_iso(moment + timedelta(hours=late)))
    ledger = Ledger(layout, clock)
    ledger.zone = zone
    await ledger.open()
    await asyncio.gather(*map(ledger.add_record, entries))
    for days in ranges:
        await compare_reports(ledger, entries, (days[0], days[1]))
    overview = await ledger.get_overview()
    today = [one for one in entries if get_row_names(one, zone)["day"] == overview.day]
    assert overview.day == get_local_day(parse_iso(clock.now()), zone).isoformat()
    assert overview.today.cost == sum((one.cost for one in today), Decimal(0))
    await ledger.close()


@settings(max_examples=limit_examples(30), deadline=None)
@given(places, calls, st.sampled_from([0, 2, 23, 200]))
def test_reports_are_a_recount_by_the_days_and_hours_of_the_zone(place, made, late):
    with TemporaryDirectory() as folder:
        entries = build_records(place[1], made)
        asyncio.run(check_zone(Layout(folder, folder), place, entries, late))


async def look_after_each_record(
    layout: Layout, place: tuple[str, str], entries: list[RequestRecord], late: int
) -> None:
    name, change = place
    zone, clock = ZoneInfo(name), FrozenClock(format_iso(parse_iso(change) + timedelta(hours=late)))
    ledger = Ledger(layout, clock)
    ledger.zone = zone
    await ledger.open()
    today = get_local_day(parse_iso(clock.now()), zone)
    days = (today - timedelta(days=1)).isoformat(), today.isoformat()
    known = [one for one in entries if get_row_names(one, zone)["day"] < days[0]]
    await asyncio.gather(*map(ledger.add_record, known))  # no request lasts for so long
    for entry in [one for one in entries if one not in known]:
        await ledger.add_record(entry)
        known = [*known, entry]
        by_day, hours = count_by(known, "day", zone), count_by(known, "hour", zone)
        overview, figures = await ledger.get_overview(), await ledger.get_day_figures()
        yesterday, now = (by_day.get(day, (Decimal(0), 0)) for day in days)
        assert (overview.day, overview.today.cost, overview.today.requests) == (days[1], *now)
        month = [day for day in by_day if f"{days[1][:8]}01" <= day <= days[1]]
        assert overview.month.cost == sum((by_day[day][0] for day in month), Decimal(0))
        assert (figures.yesterday.cost, figures.yesterday.requests) == yesterday
        rows = {name: (row.cost, row.requests) for name, row in figures.hours}
        assert rows == {name: row for name, row in hours.items() if days[0] <= name[:10] <= days[1]}
        report = await ledger.get_times("hour", days[1], days[1])
        firsts = {name: estimate_quantile(row.first, 0.5) for name, row in report.rows}
        assert figures.hour_medians == firsts
        assert figures.first_token.p50 == estimate_quantile(report.total.first, 0.5)
        models = dict((await ledger.get_totals("model", days[1], days[1])).rows)
        assert dict(overview.models) == models
        channels = await ledger.get_totals("channel", days[1], days[1])
        assert dict(figures.channels) == dict(channels.rows)
    await ledger.close()


@settings(max_examples=limit_examples(30), deadline=None)
@given(places, calls, st.sampled_from([0, 2, 12, 23]))
def test_a_look_after_each_request_is_a_recount(place, made, late):
    with TemporaryDirectory() as folder:
        entries = build_records(place[1], made)
        asyncio.run(look_after_each_record(Layout(folder, folder), place, entries, late))


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
async def test_a_look_after_a_request_counts_only_that_request(layout, monkeypatch, zone):
    """However many there were: neither the day's cells nor the other hours' times are read."""
    ledger = Ledger(layout, FrozenClock("2026-05-01T12:00:00.000Z"))
    ledger.zone = ZoneInfo(zone)
    await ledger.open()
    made = [(minute, "a" * 12, f"m{minute % 9}", 1) for minute in range(0, 720, 7)]
    for one in build_records("2026-05-01T00:00:00.000Z", made):
        await ledger.add_record(one)
    await ledger.get_overview()
    await ledger.get_day_figures()
    read: list[object] = []
    cells, merge = DayFold.iter_cells, ResponseTimes.add

    def note_cells(self, only=EVERYTHING):
        read.append("cells")
        return cells(self, only)

    def note_times(self, other):
        read.append("times")
        merge(self, other)

    monkeypatch.setattr(DayFold, "iter_cells", note_cells)
    monkeypatch.setattr(ResponseTimes, "add", note_times)
    await ledger.add_record(build_record(10_000, "2026-05-01T11:59:00.000Z"))
    requests = (await ledger.get_overview()).today.requests
    hours = dict((await ledger.get_day_figures()).hours)
    assert sum(row.requests for row in hours.values()) == requests == len(made) + 1
    assert "cells" not in read
    assert len(read) < 2 * len(hours)
    await ledger.close()


async def test_a_late_or_repriced_request_of_the_day_before_counts_at_once(layout):
    """The day before and the month are kept, but never behind what is recorded."""
    clock = FrozenClock("2026-05-03T03:00:00.000Z")  # 23 o'clock of the second in New York
    for zone, late in ("UTC", "02T23:59"), ("America/New_York", "02T03:59"):
        folder = Layout(f"{layout.state}/{zone}", layout.config)
        ledger = Ledger(folder, clock)
        ledger.zone = ZoneInfo(zone)
        await ledger.open()
        await ledger.add_record(build_record(1, f"{clock.now()[:8]}03T02:00:00.000Z"))
        before, was = await ledger.get_day_figures(), await ledger.get_overview()
        await ledger.add_record(build_record(2, f"{clock.now()[:8]}{late}:00.000Z"))
        after, now = await ledger.get_day_figures(), await ledger.get_overview()
        assert (before.yesterday.requests, after.yesterday.requests) == (0, 1)
        assert (was.month.requests, now.month.requests) == (1, 2)
        prices = Prices(input=Decimal(10**6), output=Decimal(0))
        await ledger.reprice("2026-05-01", "2026-05-03", lambda _, prices=prices: (prices, "v2"))
        assert (await ledger.get_day_figures()).yesterday.cost == 10
        assert (await ledger.get_overview()).month.cost == 20
        await ledger.close()


async def test_a_zone_that_is_changed_holds_for_days_that_were_added_up_before(layout):
    change = "2026-05-01T00:00:00.000Z"
    made = [(minute, "a" * 12, "large", 1 + minute % 7) for minute in range(-2000, 2000, 37)]
    entries = build_records(change, made)
    ledger = Ledger(layout, FrozenClock("2026-06-01T00:00:00.000Z"))
    await ledger.open()
    await asyncio.gather(*map(ledger.add_record, entries))
    for zone in ("UTC", "Asia/Kathmandu", "America/New_York", "Asia/Kolkata", "UTC"):
        ledger.zone = ZoneInfo(zone)
        await compare_reports(ledger, entries, ("2026-04-30", "2026-05-01"))
        today = "2026-05-31" if zone == "America/New_York" else "2026-06-01"
        assert (await ledger.get_overview()).day == today
    await ledger.close()


async def test_limits_and_reports_have_the_same_day(layout):
    """At half past midnight in Berlin the day is half an hour old, whoever tells of it."""
    clock = FrozenClock("2026-07-14T22:30:00.000Z")
    ledger = Ledger(layout, clock)
    ledger.zone = ZoneInfo("Europe/Berlin")
    await ledger.open()
    await ledger.add_record(build_record(1, "2026-07-14T21:59:00.000Z", cost=Decimal("0.126")))
    await ledger.add_record(build_record(2, "2026-07-14T22:10:00.000Z", cost=Decimal("0.126")))
    overview = await ledger.get_overview()
    since = datetime.fromisoformat("2026-07-14T22:00:00+00:00")
    limit = (await ledger.count_spend([since])).get_spend("abcdefghijkl", since)
    assert (overview.day, overview.today.cost) == ("2026-07-15", Decimal("0.126"))
    assert limit == overview.today.cost
    await ledger.close()


async def test_the_month_follows_its_earlier_days(layout):
    """A repricing is seen at once, and a file from a backup after ten seconds."""
    clock, day = FrozenClock("2026-05-20T12:00:00.000Z"), "2026-05-05"
    path = Path(layout.get_ledger_day_path(day))
    ledger = Ledger(layout, clock)
    await ledger.open()
    early = build_record(1, f"{day}T10:00:00.000Z")
    for entry in (early, build_record(2, clock.now())):
        await ledger.add_record(entry)
    was, backup = (await ledger.get_overview()).month.cost, path.read_bytes()
    prices = Prices(input=Decimal(10**6), output=Decimal(0))
    await ledger.reprice(day, day, lambda _: (prices, "v2"))
    assert (await ledger.get_overview()).month.cost == was - early.cost + 10
    path.unlink()
    path.write_bytes(backup)
    clock.move(10)
    assert (await ledger.get_overview()).month.cost == was
    await ledger.close()
