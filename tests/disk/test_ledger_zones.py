"""Reports by the days of a time zone are a recount of the entries, around each change of clocks."""

import asyncio
from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.clock import FrozenClock, iso, parse_iso
from agentd.disk.layout import Layout
from agentd.disk.ledger import Ledger
from agentd.proxy.entry import Entry, Timings
from agentd.proxy.local_days import day_at, hour_at
from agentd.proxy.reports import EVERYTHING, Only
from tests.proxy.entries import entry

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


def entries_of(change: str, made: list[tuple[int, str, str, int]]) -> list[Entry]:
    return [
        entry(
            number,
            iso(parse_iso(change) + timedelta(minutes=minutes, seconds=59)),
            key=key,
            key_name=key[:1],
            model=model,
            cost=Decimal(cents) / 100,
            hidden={"jwt": cents},
            timings=Timings(1, 2, 3, cents),
        )
        for number, (minutes, key, model, cents) in enumerate(made)
    ]


def names_of(one: Entry, zone: ZoneInfo) -> dict[str, str]:
    """What each kind of report calls the row of a request."""
    at = parse_iso(one.at)
    day = day_at(at, zone).isoformat()
    hour = f"{day}T{hour_at(at, zone)}"
    return {"total": "", "day": day, "hour": hour, "model": one.model, "key": one.key}


def recounted(entries: list[Entry], by: str, zone: ZoneInfo) -> dict[str, tuple[Decimal, int]]:
    found: defaultdict[str, tuple[Decimal, int]] = defaultdict(lambda: (Decimal(0), 0))
    for one in entries:
        cost, count = found[names_of(one, zone)[by]]
        found[names_of(one, zone)[by]] = cost + one.cost, count + 1
    return dict(found)


async def told(ledger: Ledger, by: Any, days: tuple[str, str], only: Only = EVERYTHING) -> Any:
    report = await ledger.totals(by, *days, only)
    rows = {name: (row.cost, row.requests) for name, row in report.rows if row.requests}
    assert (report.total.cost, report.total.requests) == (
        sum((cost for cost, _ in rows.values()), Decimal(0)),
        sum(count for _, count in rows.values()),
    )
    return rows


async def compared(ledger: Ledger, entries: list[Entry], days: tuple[str, str]) -> None:
    zone = ledger.zone
    assert isinstance(zone, ZoneInfo)
    within = [one for one in entries if days[0] <= names_of(one, zone)["day"] <= days[1]]
    for _ in range(2):  # the second time from memory
        for by in ("total", "day", "hour", "model", "key"):
            assert await told(ledger, by, days) == recounted(within, by, zone)
            some = [one for one in within if one.model == "large"]
            only = Only(model="large")
            assert await told(ledger, by, days, only) == recounted(some, by, zone)
        by_day = dict((await ledger.times("day", *days)).rows)
        for name, (_, count) in recounted(within, "day", zone).items():
            assert sum(by_day[name].took.values()) == count
        leaks = {(one.day, one.key): one.count for one in await ledger.leaks(*days)}
        assert sum(leaks.values()) == sum(one.hidden["jwt"] for one in within)
        assert len(leaks) == len({(names_of(one, zone)["day"], one.key) for one in within})


async def lived(layout: Layout, place: tuple[str, str], entries: list[Entry], late: int) -> None:
    name, change = place
    zone, moment = ZoneInfo(name), parse_iso(change)
    spans = [(-3, 3), (0, 0), (-1, 0), (0, 1)]
    ranges = [
        tuple((moment + timedelta(days=n)).astimezone(zone).date().isoformat() for n in span)
        for span in spans
    ]
    clock = FrozenClock(iso(moment + timedelta(hours=late)))
    ledger = Ledger(layout, clock)
    ledger.zone = zone
    await ledger.open()
    await asyncio.gather(*map(ledger.book, entries))
    for days in ranges:
        await compared(ledger, entries, (days[0], days[1]))
    overview = await ledger.overview()
    today = [one for one in entries if names_of(one, zone)["day"] == overview.day]
    assert overview.day == day_at(parse_iso(clock.now()), zone).isoformat()
    assert overview.today.cost == sum((one.cost for one in today), Decimal(0))
    await ledger.close()


@settings(max_examples=30, deadline=None)
@given(places, calls, st.sampled_from([0, 2, 23, 200]))
def test_reports_are_a_recount_by_the_days_and_hours_of_the_zone(place, made, late):
    with TemporaryDirectory() as folder:
        entries = entries_of(place[1], made)
        asyncio.run(lived(Layout(folder, folder), place, entries, late))


async def test_a_zone_that_is_changed_holds_for_days_that_were_added_up_before(layout):
    change = "2026-05-01T00:00:00.000Z"
    made = [(minute, "a" * 12, "large", 1 + minute % 7) for minute in range(-2000, 2000, 37)]
    entries = entries_of(change, made)
    ledger = Ledger(layout, FrozenClock("2026-06-01T00:00:00.000Z"))
    await ledger.open()
    await asyncio.gather(*map(ledger.book, entries))
    for zone in ("UTC", "Asia/Kathmandu", "America/New_York", "Asia/Kolkata", "UTC"):
        ledger.zone = ZoneInfo(zone)
        await compared(ledger, entries, ("2026-04-30", "2026-05-01"))
    await ledger.close()


async def test_limits_and_reports_have_the_same_day(layout):
    """At half past midnight in Berlin the day is half an hour old, whoever tells of it."""
    clock = FrozenClock("2026-07-14T22:30:00.000Z")
    ledger = Ledger(layout, clock)
    ledger.zone = ZoneInfo("Europe/Berlin")
    await ledger.open()
    await ledger.book(entry(1, "2026-07-14T21:59:00.000Z", cost=Decimal("0.126")))
    await ledger.book(entry(2, "2026-07-14T22:10:00.000Z", cost=Decimal("0.126")))
    overview = await ledger.overview()
    since = datetime.fromisoformat("2026-07-14T22:00:00+00:00")
    limit = (await ledger.sums([since])).spent("abcdefghijkl", since)
    assert (overview.day, overview.today.cost) == ("2026-07-15", Decimal("0.126"))
    assert limit == overview.today.cost
    await ledger.close()
