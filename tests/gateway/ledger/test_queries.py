"""Totals of many days come from few files, are cached, and never mix up ledgers."""

import asyncio
import os
import shutil
from datetime import timedelta
from decimal import Decimal
from itertools import product
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentd.core.clock import FrozenClock, format_iso
from agentd.core.errors import Unavailable
from agentd.gateway.ledger import queries as ledger_queries
from agentd.gateway.ledger import sliced_table
from agentd.gateway.ledger.columns import RankedRows
from agentd.gateway.ledger.daily_reports import DailyReports
from agentd.gateway.ledger.day_report import DayFold, write_report
from agentd.gateway.ledger.ledger import Ledger
from agentd.gateway.ledger.record import Timings
from agentd.gateway.ledger.rollup_files import RollupFile
from agentd.gateway.ledger.rollups import WIDTHS
from agentd.gateway.reports import reports
from agentd.gateway.reports.reports import ReportFilter
from agentd.llm.price import Prices
from agentd.storage.checksummed_json import decode_checksummed, encode_checksummed
from agentd.storage.layout import Layout
from tests.conftest import overwrite
from tests.gateway.ledger.entries import BEGIN, build_record
from tests.support.examples import limit_examples

pytestmark = pytest.mark.gen_test

PRICES = Prices(input=Decimal(10**5), output=Decimal(0))
DEARER = Prices(input=Decimal(10**6), output=Decimal(0))
A = "a" * 12
FIRST, LAST = "2026-01-01", "2026-04-10"


def format_day(number: int) -> str:
    return format_iso(BEGIN + timedelta(days=number))[:10]


def build_day_record(number: int, **more):
    more = {"model": f"m{number % 3}", "key": "abc"[number % 3] * 12, "cost": Decimal(1)} | more
    return build_record(number, f"{format_day(number)}T00:00:00.000Z", **more)


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """Skip syncs and pauses: durability is tested elsewhere, and no other task needs a turn."""
    for sync in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, sync, lambda _: None)
    monkeypatch.setattr("agentd.gateway.ledger.ledger.ROLLUP_PAUSE", 0)


@pytest.fixture
def clock():
    return FrozenClock(f"{LAST}T12:00:00.000Z")


@pytest.fixture(scope="module")
def hundred_days(tmp_path_factory):
    """A hundred days, each with one request; what the closed ones add up to is kept."""
    folder = str(tmp_path_factory.mktemp("days"))

    async def fill():
        ledger = Ledger(Layout(folder, folder), FrozenClock(f"{LAST}T12:00:00.000Z"))
        await ledger.open()
        for number in range(100):
            await ledger.add_record(
                build_day_record(number, hidden={"jwt": 1} if number % 10 == 0 else {})
            )
        assert (await ledger.get_totals("total", FIRST, LAST)).total.requests == 100
        await ledger.close()

    asyncio.run(fill())
    return folder


@pytest.fixture
def ledger(io_loop, layout, clock, hundred_days):
    """They, of which the last one is today's."""
    shutil.copytree(hundred_days, layout.state)
    ledger = Ledger(layout, clock)
    io_loop.run_sync(ledger.open)
    yield ledger
    io_loop.run_sync(ledger.close)


def list_rollup_files(layout) -> list[Path]:
    return sorted(Path(layout.ledger_reports).glob("*+*.json"))


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("by", ["total", "model", "channel", "key"])
async def test_long_reports_are_the_sum_of_their_days(layout, ledger, by, ahead):
    if ahead:
        await ledger.build_rollups()
    apart = [await ledger.get_totals(by, format_day(n), format_day(n)) for n in range(3, 100)]
    whole = await ledger.get_totals(by, format_day(3), LAST)
    assert whole.total.requests == sum(one.total.requests for one in apart) == 97
    assert dict(whole.rows)[whole.rows[0][0]].cost == sum(
        dict(one.rows).get(whole.rows[0][0], reports.RequestTotals()).cost for one in apart
    )
    assert bool(list_rollup_files(layout)) == ahead  # who asks makes none


async def test_rollupes_are_made_ahead_and_only_those_that_lack(layout, ledger, clock):
    await ledger.build_rollups()
    made = list_rollup_files(layout)
    assert len(made) >= sum(99 // width - 1 for width in WIDTHS)
    assert {path.name.partition("+")[0] < LAST for path in made} == {True}
    for path in made:
        os.utime(path, (0, 0))
    made[0].unlink()
    await ledger.build_rollups()
    assert [path for path in list_rollup_files(layout) if path.stat().st_mtime_ns] == made[:1]
    for number in range(100, 104):
        await ledger.add_record(build_day_record(number))
    clock.move(10 * 86400)
    await ledger.build_rollups()
    assert set(made) < set(list_rollup_files(layout))


async def test_a_question_comes_between_two_rollups_that_are_made(layout, ledger):
    ahead = asyncio.create_task(ledger.build_rollups())
    while not list_rollup_files(layout):
        await ledger.get_totals("total", FIRST, FIRST)
    between = len(list_rollup_files(layout))
    ahead.cancel()
    await asyncio.wait([ahead])
    assert between < 99 // 4
    assert (await ledger.get_totals("key", FIRST, format_day(98))).total.requests == 99
    await ledger.build_rollups()
    assert len(list_rollup_files(layout)) > between


async def test_days_that_are_lost_leave_the_others_to_be_made_ahead(layout, ledger, caplog):
    await ledger.build_rollups()
    made = list_rollup_files(layout)
    for path in made:
        path.unlink()
    os.unlink(layout.get_ledger_day_path(format_day(20)))
    report = Path(layout.get_ledger_report_path(format_day(20)))
    head, _, rest = report.read_bytes().partition(b"\n")
    report.write_bytes(head + b"\n" + b"#" * len(rest))
    with caplog.at_level("INFO"):
        await ledger.build_rollups()
    assert set(list_rollup_files(layout)) < set(made)
    assert len(list_rollup_files(layout)) >= len(made) - len(WIDTHS)
    assert "cannot be read" in caplog.text


def build_report_table(page):
    assert page.of == len(page.rows)
    return reports.ReportTable(page.rows, page.total, {})


SOME = st.lists(
    st.tuples(
        st.integers(0, 99), st.sampled_from("abc"), st.sampled_from("mn"), st.integers(1, 10**6)
    ),
    max_size=60,
)


@settings(max_examples=limit_examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(SOME, st.integers(0, 99), st.integers(0, 99))
def test_what_is_made_ahead_shows_what_all_requests_add_up_to(tmp_path_factory, some, one, other):
    first, last = format_day(min(one, other)), format_day(max(one, other))
    folder, folds, whole = str(tmp_path_factory.mktemp("state")), {}, DayFold("")
    layout = Layout(folder, folder)
    os.makedirs(layout.ledger_reports)
    for number, key, model, cost in sorted(some):
        named = key + str(cost) if cost % 3 else ""
        took = {"timings": Timings(total=cost / 100, first=cost / 200)}
        made = build_day_record(
            number, key=key * 12, model=model, cost=Decimal(cost).scaleb(-6), key_name=named, **took
        )
        folds.setdefault(made.at[:10], DayFold(made.at[:10])).totals.add_record(made)
        if first <= made.at[:10] <= last:
            whole.totals.add_record(made)
    for fold in folds.values():
        write_report(layout, fold)
    days = DailyReports(layout, lambda: "2027-01-01")
    result = []
    for _ in range(2):
        answers = ledger_queries.LedgerQueries(days, lambda: "2027-01-01T00:00:00.000Z")
        result.append([answers.get_totals(by, first, last) for by in ("model", "channel", "key")])
        result.append(
            [build_report_table(answers.get_times(by, first, last)) for by in ("model", "channel")]
        )
        some = answers.get_times("model", first, last, rows=slice(1, 2))
        assert some.rows == result[-1][0].rows[1:2]
        assert (some.total, some.of) == (result[-1][0].total, len(result[-1][0].rows))
        assert all(map(days.write_rollup, days.list_rollups()))
    assert (
        result[0]
        == result[2]
        == [reports.build_totals(by, [("", whole)]) for by in ("model", "channel", "key")]
    )
    assert (
        result[1]
        == result[3]
        == [reports.build_times(by, [("", whole)]) for by in ("model", "channel")]
    )


async def test_times_of_many_days_are_the_sum_of_their_days(ledger):
    for by in ("total", "model", "channel", "hour", "day"):
        whole = await ledger.get_times(by, FIRST, LAST)
        assert sum(line.answers for line in reports.build_latency_rows(whole)) == 100


@pytest.mark.parametrize("last", [format_day(98), LAST])
async def test_pages_of_times_are_the_whole_report(ledger, last):
    await ledger.add_record(build_day_record(98, model="m1", timings=Timings(total=5, first=1)))
    await ledger.add_record(build_day_record(99, model="late", outcome="failed"))
    for by in ("total", "model", "channel", "hour", "day"):
        whole, pages = await ledger.get_times(by, FIRST, last), []
        step = 40 if by in ("hour", "day") else 2
        for at in range(0, whole.of, step):
            page = await ledger.get_times(by, FIRST, last, rows=slice(at, at + step))
            assert (page.total, page.of) == (whole.total, whole.of), by
            pages += page.rows
        assert pages == list(whole.rows), by
        assert len(pages) == whole.of, by
        if by == "model":
            ranks = [(-line.answers, line.name) for line in reports.build_latency_rows(whole)]
            assert ranks == sorted(ranks)
        assert (await ledger.get_times(by, FIRST, last, rows=slice(200, 300))).rows == [], by


async def test_a_report_is_made_once_and_then_reported_from_memory(ledger):
    closed = await ledger.get_totals("model", FIRST, format_day(98))
    assert await ledger.get_totals("model", FIRST, format_day(98)) is closed
    with_today = await ledger.get_totals("model", FIRST, LAST)
    assert with_today.total.requests == closed.total.requests + 1
    await ledger.add_record(build_day_record(99))
    more = await ledger.get_totals("model", FIRST, LAST)
    assert more.total.requests == closed.total.requests + 2
    assert await ledger.get_totals("model", FIRST, format_day(98)) is closed


@pytest.mark.parametrize("first", [FIRST, LAST])
async def test_a_report_with_the_current_day_is_built_again_only_when_a_day_changed(
    ledger, monkeypatch, first
):
    built = []

    def build(*given):
        built.append(given[0])
        return build_totals(*given)

    build_totals = reports.build_totals
    monkeypatch.setattr(reports, "build_totals", build)
    before = await ledger.get_totals("key", first, LAST)
    count = len(built)
    assert count > 0
    assert (await ledger.get_totals("key", first, LAST)).total.cost == before.total.cost
    assert len(built) == count
    await ledger.add_record(build_record(1000, f"{LAST}T11:00:00.000Z", cost=Decimal(7)))
    assert (await ledger.get_totals("key", first, LAST)).total.cost == before.total.cost + 7
    assert len(built) == count + 1


async def test_little_is_remembered(ledger, monkeypatch):
    monkeypatch.setattr(ledger_queries, "MAX_CACHED_ROWS", 10)
    first = await ledger.get_totals("model", FIRST, format_day(50))
    for number in range(51, 60):
        await ledger.get_totals("model", FIRST, format_day(number))
    assert len(ledger._queries._cache) <= 4
    assert await ledger.get_totals("model", FIRST, format_day(50)) is not first
    for number in range(51, 60):
        await ledger.get_times("day", format_day(number), format_day(number))
    assert len(ledger._queries._cache) == 1


async def test_a_day_that_is_repriced_is_another_in_every_report(layout, ledger):
    await ledger.build_rollups()
    for by in ("model", "total", "day"):
        assert (await ledger.get_totals(by, FIRST, format_day(98))).total.cost == 99
    files = {path: path.read_bytes() for path in list_rollup_files(layout)}
    await ledger.reprice(format_day(20), format_day(20), lambda _: (PRICES, "v2"))
    for by in ("model", "total", "day"):
        assert (await ledger.get_totals(by, FIRST, format_day(98))).total.cost == 99
    await ledger.build_rollups()
    changed = [path for path, data in files.items() if path.read_bytes() != data]
    assert {path.name.partition("+")[0] <= format_day(20) for path in changed} == {True}
    assert 2 <= len(changed) < len(files)
    await ledger.reprice(format_day(20), format_day(20), lambda _: (DEARER, "v3"))
    for by in ("model", "total", "day"):
        assert (await ledger.get_totals(by, FIRST, format_day(98))).total.cost == 108


async def test_a_day_that_was_repriced_while_no_daemon_ran_is_another(layout, ledger, clock):
    before = await ledger.get_totals("key", FIRST, format_day(98))
    fold = DayFold(format_day(20))
    other = Ledger(layout, clock)
    await other.open()
    await other.reprice(
        format_day(20),
        format_day(20),
        lambda _: (Prices(input=Decimal(10**6), output=Decimal(0)), "v3"),
    )
    await other.close()
    assert fold.position.size == 0
    after = await ledger.get_totals("key", FIRST, format_day(98))
    assert after.total.cost == before.total.cost + 9


async def test_a_damaged_rollup_is_reported_and_renewed(layout, ledger, clock, caplog):
    first = await ledger.get_totals("key", FIRST, format_day(98))
    await ledger.build_rollups()
    assert list_rollup_files(layout)
    for path in list_rollup_files(layout):
        found = RollupFile(str(path))
        begin = found._parts._head + found.head.parts["key/packed"].at
        overwrite(str(path), begin + 20, b"#######")
    again = Ledger(layout, clock)
    await again.open()
    assert await again.get_totals("key", FIRST, format_day(98)) == first
    assert "is damaged and is rebuilt" in caplog.text
    for path in list_rollup_files(layout):
        path.write_bytes(b"{}")
    await again.close()
    third = Ledger(layout, clock)
    await third.open()
    assert await third.get_totals("key", FIRST, format_day(98)) == first
    await third.close()


async def test_a_rollup_that_an_earlier_agentd_wrote_is_rebuilt_without_a_word(
    layout, ledger, clock, caplog
):
    await ledger.build_rollups()
    first, files = await ledger.get_totals("key", FIRST, format_day(98)), {}
    for path in list_rollup_files(layout):
        files[path] = path.read_bytes()
        head, _, rest = files[path].partition(b"\n")
        earlier = msgspec.json.decode(decode_checksummed(head)) | {"format": 1}
        path.write_bytes(encode_checksummed(earlier) + rest)
    again = Ledger(layout, clock)
    await again.open()
    assert await again.get_totals("key", FIRST, format_day(98)) == first
    await again.build_rollups()
    assert {path: path.read_bytes() for path in files} == files
    assert "WARNING" not in caplog.text
    await again.close()


async def test_where_nothing_can_be_written_it_receives_all_the_same(layout, ledger, monkeypatch):
    def raise_disk_full(*_, **__):
        raise Unavailable("disk full")

    monkeypatch.setattr("agentd.gateway.ledger.rollup_files.replace_document", raise_disk_full)
    await ledger.build_rollups()
    report = await ledger.get_totals("key", FIRST, format_day(98))
    assert report.total.requests == 99
    assert not list_rollup_files(layout)


async def test_a_reader_beside_a_daemon_writes_nothing(layout, ledger):
    days = DailyReports(layout, lambda: LAST, writes=False)
    answers = ledger_queries.LedgerQueries(days, lambda: f"{LAST}T12:00:00.000Z")
    assert days.query(lambda: answers.get_totals("key", FIRST, LAST)).total.requests == 100
    assert not list_rollup_files(layout)


@pytest.mark.parametrize(
    "only",
    [ReportFilter(key="a" * 12), ReportFilter(model="m0"), ReportFilter(model="m0", key="a" * 12)],
)
async def test_narrowed_reports_are_those_of_what_is_asked_for(ledger, only):
    for by in ("total", "day", "hour", "model", "channel", "key"):
        report = await ledger.get_totals(by, FIRST, LAST, only)
        assert report.total.requests == 34, by
        assert sum(row.requests for _, row in report.rows) == 34, by
        if by != "key":
            times = await ledger.get_times(by, FIRST, LAST, only)
            assert sum(line.answers for line in reports.build_latency_rows(times)) == 34, by


@pytest.mark.parametrize(
    "only", [ReportFilter(), ReportFilter(model="m2"), ReportFilter(channel="openai", model="m2")]
)
async def test_a_report_by_key_has_the_last_name_of_each(ledger, only):
    await ledger.add_record(
        build_day_record(98, key="c" * 12, key_name="desk", model="m2", channel="openai")
    )
    await ledger.add_record(
        build_day_record(99, key="c" * 12, key_name="laptop", model="m2", channel="openai")
    )
    assert (await ledger.get_totals("key", FIRST, format_day(98), only)).names["c" * 12] == "desk"
    assert (await ledger.get_totals("key", FIRST, LAST, only)).names["c" * 12] == "laptop"


async def test_leaks_are_reported_by_day_key_and_rule(ledger):
    found = await ledger.get_leaks(FIRST, LAST)
    assert [one.day for one in found] == [format_day(n) for n in range(0, 100, 10)]
    assert {(one.rule, one.count) for one in found} == {("jwt", 1)}


async def test_a_leak_has_the_last_name_of_its_key(ledger):
    await ledger.add_record(build_day_record(99, key="a" * 12, key_name="laptop"))
    found = await ledger.get_leaks(FIRST, LAST)
    assert {one.title for one in found if one.key == "a" * 12} == {""}
    await ledger.add_record(
        build_day_record(99, key="a" * 12, key_name="laptop", hidden={"jwt": 2})
    )
    assert (await ledger.get_leaks(FIRST, LAST))[-1].title == "laptop"


async def test_an_overview_shows_what_was_just_recorded(ledger):
    first = await ledger.get_overview()
    assert (first.day, first.today.requests, first.month.requests) == (LAST, 1, 10)
    assert await ledger.get_overview() is first
    await ledger.add_record(build_day_record(99, model="dear", cost=Decimal(9)))
    second = await ledger.get_overview()
    assert (second.today.requests, second.today.cost, second.month.cost) == (2, 10, 19)
    assert [name for name, _ in second.models] == ["dear", "m0"]
    assert first.today.requests == 1


async def test_an_overview_shows_which_days_are_damaged(layout, ledger, clock):
    await ledger.add_record(build_day_record(20))
    await ledger.add_record(build_day_record(20))
    path = Path(layout.get_ledger_day_path(format_day(20)))
    path.write_bytes(path.read_bytes().replace(b'"cost":"1"', b'"cost":"2"', 1))
    clock.move(11)
    assert [(one.day, one.lines) for one in (await ledger.get_overview()).corrupt_days] == [
        (format_day(20), 1)
    ]


def test_a_report_of_a_large_day_is_read_in_small_pieces(layout):
    fold = DayFold(FIRST)
    for number in range(3000):
        fold.totals.add_record(build_record(number, key=f"{number:012d}", model=f"m{number}"))
    Path(layout.ledger_reports).mkdir(parents=True)
    write_report(layout, fold)
    report = ledger_queries.DailyReports(layout, lambda: LAST).get_day(FIRST)
    assert max(max(place.sizes, default=0) for place in report.head.parts.values()) < 300_000
    assert len(report.head.parts["cells"].sizes) > 2
    assert dict(report.iter_rows("key")) == fold.totals.tables["key"]
    assert dict(report.iter_cells()) == fold.totals.cells
    asked = ReportFilter(key="000000001234")
    assert [cell.model for cell, _ in report.iter_cells(asked)] == ["m1234"]
    assert report.get_row("model", "m77").requests == 1
    assert report.get_row("model", "none") is None


NARROW = [
    ReportFilter(*asked)
    for asked in product(("", "m7", "none"), ("", "c3", "none"), ("", f"{5:012d}", "none"))
] + [
    ReportFilter(owner="ann"),
    ReportFilter(tag="b", model="m7"),
    ReportFilter(owner="ann", tag="none"),
    ReportFilter(owner="ann", tag="a", key=f"{5:012d}"),
]


@pytest.mark.parametrize("side", ["model", "channel", "key", "owner", "tag"])
def test_what_an_earlier_agentd_wrote_is_reported_without_columns(layout, side):
    fold = DayFold(FIRST)
    for n in range(200):
        more = {"key": f"{n % 9:012d}", "model": f"m{n % 40}", "channel": f"c{n % 5}"}
        more |= {"owner": "ann", "tags": ("a", "b")} if n % 3 else {}
        fold.totals.add_record(build_record(n, f"{FIRST}T01:00:00.000Z", **more))
    os.makedirs(layout.ledger_reports)
    write_report(layout, fold)
    report = ledger_queries.DailyReports(layout, lambda: LAST).get_day(FIRST)
    as_columns = dict(RankedRows(report.get_columns(side)))
    del report.head.parts[f"{side}/listed"]
    assert dict(RankedRows(report.get_columns(side))) == as_columns == fold.totals.tables[side]


@pytest.fixture(scope="module")
def one_day(tmp_path_factory):
    """A day with many requests, in memory, and where its report is."""
    fold, folder = DayFold(FIRST), str(tmp_path_factory.mktemp("day"))
    layout = Layout(folder, folder)
    for n in range(2000):
        more = {"key": f"{n % 9:012d}", "model": f"m{n % 400}", "channel": f"c{n % 5}"}
        more |= {"owner": "ann", "tags": ("a", "b")} if n % 9 == 5 else {}
        fold.totals.add_record(build_record(n, f"{FIRST}T{n % 24:02d}:00:00.000Z", **more))
    Path(layout.ledger_reports).mkdir(parents=True)
    write_report(layout, fold)
    return fold, layout


@pytest.mark.parametrize("only", NARROW)
@pytest.mark.parametrize("earlier", [False, True])
def test_what_is_kept_apart_is_reported_as_it_is_asked_for(one_day, only, earlier):
    fold, layout = one_day
    report = ledger_queries.DailyReports(layout, lambda: LAST).get_day(FIRST)
    if earlier:  # another agentd wrote it, which did not know of these parts
        del report.head.parts["cells/model"], report.head.parts["ways"]

    found = list(report.iter_cells(only))
    assert dict(found) == {
        cell: one for cell, one in fold.totals.cells.items() if only.matches(cell)
    }
    assert len(dict(found)) == len(found)
    assert dict(fold.iter_cells(only)) == dict(found)


def test_a_day_goes_on_from_its_report_with_owners_and_tags(one_day):
    fold, layout = one_day
    again = ledger_queries.DailyReports(layout, lambda: LAST).get_day(FIRST).to_fold()
    for one in (fold, again):
        one.totals.add_record(build_record(1, f"{FIRST}T05:00:00.000Z", owner="bob"))
    assert again.totals.tables == fold.totals.tables
    assert again.get_spent() == fold.get_spent()
    assert again.get_spent()["owner:bob"].requests == 1


def test_of_keys_without_owner_and_tags_nothing_more_is_kept(layout):
    fold = DayFold(FIRST)
    fold.totals.add_record(build_record(1, f"{FIRST}T01:00:00.000Z"))
    os.makedirs(layout.ledger_reports)
    write_report(layout, fold)
    report = ledger_queries.DailyReports(layout, lambda: LAST).get_day(FIRST)
    assert not [part for part in report.head.parts if part.startswith(("owner", "tag"))]
    for one in (fold, report):
        assert [(name, row.requests) for name, row in one.iter_rows("owner")] == [("", 1)]
        assert one.get_row("tag", "a") is None
        assert not list(one.iter_cells(ReportFilter(owner="ann")))
        assert one.get_spent().keys() == {"abcdefghijkl"}


async def test_owners_and_tags_of_many_days_are_those_of_their_rollups(layout, ledger):
    for number in (3, 40, 41, 98, 99):
        more = {"owner": "ann", "tags": ("a", "b")} if number != 41 else {"tags": ("b",)}
        await ledger.add_record(build_day_record(number, **more))
    for is_rolled_up in (False, True):
        if is_rolled_up:
            await ledger.build_rollups()
            ledger._queries._cache.clear()
        owners = await ledger.get_totals("owner", FIRST, LAST)
        assert {name: row.requests for name, row in owners.rows} == {"": 101, "ann": 4}
        tags = await ledger.get_totals("tag", FIRST, LAST)
        assert {name: row.requests for name, row in tags.rows} == {"": 100, "a": 4, "b": 5}
        assert tags.total.requests == owners.total.requests == 105
        days = await ledger.get_totals("day", FIRST, LAST, ReportFilter(tag="b"))
        assert [name for name, _ in days.rows] == [format_day(n) for n in (3, 40, 41, 98, 99)]


class ReadCounter:
    """How many bytes are read of reports."""

    def __init__(self, monkeypatch):
        self.bytes = 0
        real = os.pread

        def pread(fd, size, at):
            self.bytes += size
            return real(fd, size, at)

        monkeypatch.setattr(sliced_table.os, "pread", pread)


def write_long_days(layout, days):
    """Write days with as many models and keys as allowed, each with a long histogram."""
    os.makedirs(layout.ledger_reports)
    for number in range(days):
        fold = DayFold(format_day(number))
        for n in range(6000):
            took = Timings(total=1.1 ** (n // 300 * 5), first=1.1 ** (n // 300))
            model, key = f"m{n % 300:03d}", f"{n % 300:012d}"
            hidden = {"jwt": 1} if n == 5 else {}
            more = {"model": model, "key": key, "key_name": f"key {key}", "hidden": hidden}
            fold.totals.add_record(build_day_record(number, timings=took, cost=Decimal(n), **more))
        write_report(layout, fold)
    return DailyReports(layout, lambda: LAST)


def test_of_a_page_of_times_and_of_leaks_little_is_read(layout, monkeypatch):
    days = write_long_days(layout, 3)
    spied = ReadCounter(monkeypatch)
    answers = ledger_queries.LedgerQueries(days, lambda: f"{LAST}T12:00:00.000Z")
    page = answers.get_times("model", FIRST, format_day(2), rows=slice(10, 12))
    assert [name for name, _ in page.rows] == ["m010", "m011"]
    assert [sum(times.took.values()) for _, times in page.rows] == [60, 60]
    some, spied.bytes = spied.bytes, 0
    assert len(answers.get_times("model", FIRST, format_day(2)).rows) == 300
    assert some < spied.bytes / 2
    spied.bytes = 0
    assert [one.title for one in answers.get_leaks(FIRST, format_day(2))] == [
        "key 000000000005"
    ] * 3
    leaks, spied.bytes = spied.bytes, 0
    assert len(answers.get_totals("key", FIRST, format_day(2)).names) == 300
    assert leaks < spied.bytes


def test_of_a_few_models_little_is_read(layout, monkeypatch):
    fold = DayFold(FIRST)
    for n in range(3000):
        fold.totals.add_record(
            build_record(n, key=f"{n:012d}", model=f"m{n % 1000:04d}", channel=f"c{n % 200}")
        )
    Path(layout.ledger_reports).mkdir(parents=True)
    write_report(layout, fold)
    report = ledger_queries.DailyReports(layout, lambda: LAST).get_day(FIRST)
    spied = ReadCounter(monkeypatch)
    assert len(list(report.iter_cells(ReportFilter(channel="c7")))) == 15
    assert spied.bytes < os.path.getsize(layout.get_ledger_report_path(FIRST)) / 8
