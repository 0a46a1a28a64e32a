"""What many days add up to: from few files, remembered, and never of another ledger than this."""

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

from agentd.clock import FrozenClock, iso
from agentd.disk import ledger_answers, ledger_parts
from agentd.disk.layout import Layout
from agentd.disk.ledger import Ledger
from agentd.disk.ledger_days import Days
from agentd.disk.ledger_report import Fold, write_report
from agentd.disk.ledger_stretches import Stretched
from agentd.disk.lines import seal, unseal
from agentd.errors import Unavailable
from agentd.proxy import reports
from agentd.proxy.columns import Ranked
from agentd.proxy.entry import Timings
from agentd.proxy.price import Prices
from agentd.proxy.reports import Only
from agentd.proxy.stretches import WIDTHS
from tests.conftest import overwrite
from tests.proxy.entries import BEGIN, entry

pytestmark = pytest.mark.gen_test

PRICES = Prices(input=Decimal(10**5), output=Decimal(0))
DEARER = Prices(input=Decimal(10**6), output=Decimal(0))
A = "a" * 12
FIRST, LAST = "2026-01-01", "2026-04-10"


def day(number: int) -> str:
    return iso(BEGIN + timedelta(days=number))[:10]


def booked(number: int, **more):
    more = {"model": f"m{number % 3}", "key": "abc"[number % 3] * 12, "cost": Decimal(1)} | more
    return entry(number, f"{day(number)}T00:00:00.000Z", **more)


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """What survives the end of the machine is asked elsewhere, and nobody else needs a turn."""
    for sync in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, sync, lambda _: None)
    monkeypatch.setattr("agentd.disk.ledger.BREATH", 0)


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
            await ledger.book(booked(number, hidden={"jwt": 1} if number % 10 == 0 else {}))
        assert (await ledger.totals("total", FIRST, LAST)).total.requests == 100
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


def stretches(layout) -> list[Path]:
    return sorted(Path(layout.ledger_reports).glob("*+*.json"))


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("by", ["total", "model", "channel", "key"])
async def test_long_reports_are_the_sum_of_their_days(layout, ledger, by, ahead):
    if ahead:
        await ledger.make_ahead()
    apart = [await ledger.totals(by, day(n), day(n)) for n in range(3, 100)]
    whole = await ledger.totals(by, day(3), LAST)
    assert whole.total.requests == sum(one.total.requests for one in apart) == 97
    assert dict(whole.rows)[whole.rows[0][0]].cost == sum(
        dict(one.rows).get(whole.rows[0][0], reports.Totals()).cost for one in apart
    )
    assert bool(stretches(layout)) == ahead  # who asks makes none


async def test_stretches_are_made_ahead_and_only_those_that_lack(layout, ledger, clock):
    await ledger.make_ahead()
    made = stretches(layout)
    assert len(made) >= sum(99 // width - 1 for width in WIDTHS)
    assert {path.name.partition("+")[0] < LAST for path in made} == {True}
    for path in made:
        os.utime(path, (0, 0))
    made[0].unlink()
    await ledger.make_ahead()
    assert [path for path in stretches(layout) if path.stat().st_mtime_ns] == made[:1]
    for number in range(100, 104):
        await ledger.book(booked(number))
    clock.move(10 * 86400)
    await ledger.make_ahead()
    assert set(made) < set(stretches(layout))


async def test_a_question_comes_between_two_stretches_that_are_made(layout, ledger):
    ahead = asyncio.create_task(ledger.make_ahead())
    while not stretches(layout):
        await ledger.damaged()
    between = len(stretches(layout))
    ahead.cancel()
    await asyncio.wait([ahead])
    assert between < 99 // 4
    assert (await ledger.totals("key", FIRST, day(98))).total.requests == 99
    await ledger.make_ahead()
    assert len(stretches(layout)) > between


async def test_days_that_are_lost_leave_the_others_to_be_made_ahead(layout, ledger, caplog):
    await ledger.make_ahead()
    made = stretches(layout)
    for path in made:
        path.unlink()
    os.unlink(layout.ledger_day(day(20)))
    report = Path(layout.ledger_report(day(20)))
    head, _, rest = report.read_bytes().partition(b"\n")
    report.write_bytes(head + b"\n" + b"#" * len(rest))
    with caplog.at_level("INFO"):
        await ledger.make_ahead()
    assert set(stretches(layout)) < set(made)
    assert len(stretches(layout)) >= len(made) - len(WIDTHS)
    assert "cannot be read" in caplog.text


def as_report(page):
    assert page.of == len(page.rows)
    return reports.Report(page.rows, page.total, {})


SOME = st.lists(
    st.tuples(
        st.integers(0, 99), st.sampled_from("abc"), st.sampled_from("mn"), st.integers(1, 10**6)
    ),
    max_size=60,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(SOME, st.integers(0, 99), st.integers(0, 99))
def test_what_is_made_ahead_tells_what_all_requests_add_up_to(tmp_path_factory, some, one, other):
    first, last = day(min(one, other)), day(max(one, other))
    folder, folds, whole = str(tmp_path_factory.mktemp("state")), {}, Fold("")
    layout = Layout(folder, folder)
    os.makedirs(layout.ledger_reports)
    for number, key, model, cost in sorted(some):
        named = key + str(cost) if cost % 3 else ""
        took = {"timings": Timings(total=cost / 100, first=cost / 200)}
        made = booked(
            number, key=key * 12, model=model, cost=Decimal(cost).scaleb(-6), key_name=named, **took
        )
        folds.setdefault(made.at[:10], Fold(made.at[:10])).tally.book(made)
        if first <= made.at[:10] <= last:
            whole.tally.book(made)
    for fold in folds.values():
        write_report(layout, fold)
    days = Days(layout, lambda: "2027-01-01")
    told = []
    for _ in range(2):
        answers = ledger_answers.Answers(days, lambda: "2027-01-01T00:00:00.000Z")
        told.append([answers.totals(by, first, last) for by in ("model", "channel", "key")])
        told.append([as_report(answers.times(by, first, last)) for by in ("model", "channel")])
        some = answers.times("model", first, last, rows=slice(1, 2))
        assert some.rows == told[-1][0].rows[1:2]
        assert (some.total, some.of) == (told[-1][0].total, len(told[-1][0].rows))
        assert all(map(days.make, days.closed()))
    assert (
        told[0]
        == told[2]
        == [reports.totals(by, [("", whole)]) for by in ("model", "channel", "key")]
    )
    assert told[1] == told[3] == [reports.times(by, [("", whole)]) for by in ("model", "channel")]


async def test_times_of_many_days_are_the_sum_of_their_days(ledger):
    for by in ("total", "model", "channel", "hour", "day"):
        whole = await ledger.times(by, FIRST, LAST)
        assert sum(line.answers for line in reports.time_lines(whole)) == 100


@pytest.mark.parametrize("last", [day(98), LAST])
async def test_pages_of_times_are_the_whole_report(ledger, last):
    await ledger.book(booked(98, model="m1", timings=Timings(total=5, first=1)))
    await ledger.book(booked(99, model="late", outcome="failed"))
    for by in ("total", "model", "channel", "hour", "day"):
        whole, pages = await ledger.times(by, FIRST, last), []
        step = 40 if by in ("hour", "day") else 2
        for at in range(0, whole.of, step):
            page = await ledger.times(by, FIRST, last, rows=slice(at, at + step))
            assert (page.total, page.of) == (whole.total, whole.of), by
            pages += page.rows
        assert pages == list(whole.rows), by
        assert len(pages) == whole.of, by
        if by == "model":
            ranks = [(-line.answers, line.name) for line in reports.time_lines(whole)]
            assert ranks == sorted(ranks)
        assert (await ledger.times(by, FIRST, last, rows=slice(200, 300))).rows == [], by


async def test_a_report_is_made_once_and_then_told_from_memory(ledger):
    closed = await ledger.totals("model", FIRST, day(98))
    assert await ledger.totals("model", FIRST, day(98)) is closed
    with_today = await ledger.totals("model", FIRST, LAST)
    assert with_today.total.requests == closed.total.requests + 1
    await ledger.book(booked(99))
    more = await ledger.totals("model", FIRST, LAST)
    assert more.total.requests == closed.total.requests + 2
    assert await ledger.totals("model", FIRST, day(98)) is closed


async def test_little_is_remembered(ledger, monkeypatch):
    monkeypatch.setattr(ledger_answers, "REMEMBERED", 10)
    first = await ledger.totals("model", FIRST, day(50))
    for number in range(51, 60):
        await ledger.totals("model", FIRST, day(number))
    assert len(ledger._answers._known) <= 4
    assert await ledger.totals("model", FIRST, day(50)) is not first
    for number in range(51, 60):
        await ledger.times("day", day(number), day(number))
    assert len(ledger._answers._known) == 1


async def test_a_day_that_is_priced_anew_is_another_in_every_report(layout, ledger):
    await ledger.make_ahead()
    for by in ("model", "total", "day"):
        assert (await ledger.totals(by, FIRST, day(98))).total.cost == 99
    files = {path: path.read_bytes() for path in stretches(layout)}
    await ledger.reprice(day(20), day(20), lambda _: (PRICES, "v2"))
    for by in ("model", "total", "day"):
        assert (await ledger.totals(by, FIRST, day(98))).total.cost == 99
    await ledger.make_ahead()
    changed = [path for path, data in files.items() if path.read_bytes() != data]
    assert {path.name.partition("+")[0] <= day(20) for path in changed} == {True}
    assert 2 <= len(changed) < len(files)
    await ledger.reprice(day(20), day(20), lambda _: (DEARER, "v3"))
    for by in ("model", "total", "day"):
        assert (await ledger.totals(by, FIRST, day(98))).total.cost == 108


async def test_a_day_that_was_priced_anew_while_no_daemon_ran_is_another(layout, ledger, clock):
    before = await ledger.totals("key", FIRST, day(98))
    fold = Fold(day(20))
    other = Ledger(layout, clock)
    await other.open()
    await other.reprice(
        day(20), day(20), lambda _: (Prices(input=Decimal(10**6), output=Decimal(0)), "v3")
    )
    await other.close()
    assert fold.standing.size == 0
    after = await ledger.totals("key", FIRST, day(98))
    assert after.total.cost == before.total.cost + 9


async def test_a_damaged_stretch_is_told_and_made_anew(layout, ledger, clock, caplog):
    first = await ledger.totals("key", FIRST, day(98))
    await ledger.make_ahead()
    assert stretches(layout)
    for path in stretches(layout):
        found = Stretched(str(path))
        begin = found._parts._head + found.head.parts["key/packed"].at
        overwrite(str(path), begin + 20, b"#######")
    again = Ledger(layout, clock)
    await again.open()
    assert await again.totals("key", FIRST, day(98)) == first
    assert "is damaged and made anew" in caplog.text
    for path in stretches(layout):
        path.write_bytes(b"{}")
    await again.close()
    third = Ledger(layout, clock)
    await third.open()
    assert await third.totals("key", FIRST, day(98)) == first
    await third.close()


async def test_a_stretch_that_an_earlier_agentd_wrote_is_made_anew_without_a_word(
    layout, ledger, clock, caplog
):
    await ledger.make_ahead()
    first, files = await ledger.totals("key", FIRST, day(98)), {}
    for path in stretches(layout):
        files[path] = path.read_bytes()
        head, _, rest = files[path].partition(b"\n")
        earlier = msgspec.json.decode(unseal(head)) | {"format": 1}
        path.write_bytes(seal(earlier) + rest)
    again = Ledger(layout, clock)
    await again.open()
    assert await again.totals("key", FIRST, day(98)) == first
    await again.make_ahead()
    assert {path: path.read_bytes() for path in files} == files
    assert "WARNING" not in caplog.text
    await again.close()


async def test_where_nothing_can_be_written_it_is_told_all_the_same(layout, ledger, monkeypatch):
    def full(*_, **__):
        raise Unavailable("disk full")

    monkeypatch.setattr("agentd.disk.ledger_stretches.replace", full)
    await ledger.make_ahead()
    report = await ledger.totals("key", FIRST, day(98))
    assert report.total.requests == 99
    assert not stretches(layout)


async def test_a_reader_beside_a_daemon_writes_nothing(layout, ledger):
    days = Days(layout, lambda: LAST, keeps=False)
    answers = ledger_answers.Answers(days, lambda: f"{LAST}T12:00:00.000Z")
    assert days.asked(lambda: answers.totals("key", FIRST, LAST)).total.requests == 100
    assert not stretches(layout)


@pytest.mark.parametrize(
    "only", [Only(key="a" * 12), Only(model="m0"), Only(model="m0", key="a" * 12)]
)
async def test_narrowed_reports_are_those_of_what_is_asked_for(ledger, only):
    for by in ("total", "day", "hour", "model", "channel", "key"):
        report = await ledger.totals(by, FIRST, LAST, only)
        assert report.total.requests == 34, by
        assert sum(row.requests for _, row in report.rows) == 34, by
        if by != "key":
            times = await ledger.times(by, FIRST, LAST, only)
            assert sum(line.answers for line in reports.time_lines(times)) == 34, by


@pytest.mark.parametrize("only", [Only(), Only(model="m2"), Only(channel="openai", model="m2")])
async def test_a_report_by_key_bears_the_last_name_of_each(ledger, only):
    await ledger.book(booked(98, key="c" * 12, key_name="desk", model="m2", channel="openai"))
    await ledger.book(booked(99, key="c" * 12, key_name="laptop", model="m2", channel="openai"))
    assert (await ledger.totals("key", FIRST, day(98), only)).names["c" * 12] == "desk"
    assert (await ledger.totals("key", FIRST, LAST, only)).names["c" * 12] == "laptop"


async def test_leaks_are_told_by_day_key_and_rule(ledger):
    found = await ledger.leaks(FIRST, LAST)
    assert [one.day for one in found] == [day(n) for n in range(0, 100, 10)]
    assert {(one.rule, one.count) for one in found} == {("jwt", 1)}


async def test_a_leak_bears_the_last_name_of_its_key(ledger):
    await ledger.book(booked(99, key="a" * 12, key_name="laptop"))
    found = await ledger.leaks(FIRST, LAST)
    assert {one.title for one in found if one.key == "a" * 12} == {""}
    await ledger.book(booked(99, key="a" * 12, key_name="laptop", hidden={"jwt": 2}))
    assert (await ledger.leaks(FIRST, LAST))[-1].title == "laptop"


async def test_an_overview_tells_what_was_just_booked(ledger):
    first = await ledger.overview()
    assert (first.day, first.today.requests, first.month.requests) == (LAST, 1, 10)
    assert await ledger.overview() is first
    await ledger.book(booked(99, model="dear", cost=Decimal(9)))
    second = await ledger.overview()
    assert (second.today.requests, second.today.cost, second.month.cost) == (2, 10, 19)
    assert [name for name, _ in second.models] == ["dear", "m0"]
    assert first.today.requests == 1


async def test_an_overview_tells_which_days_are_damaged(layout, ledger, clock):
    await ledger.book(booked(20))
    await ledger.book(booked(20))
    path = Path(layout.ledger_day(day(20)))
    path.write_bytes(path.read_bytes().replace(b'"cost":"1"', b'"cost":"2"', 1))
    clock.move(11)
    assert [(one.day, one.lines) for one in (await ledger.overview()).damaged] == [(day(20), 1)]


def test_a_report_of_a_large_day_is_read_in_small_pieces(layout):
    fold = Fold(FIRST)
    for number in range(3000):
        fold.tally.book(entry(number, key=f"{number:012d}", model=f"m{number}"))
    Path(layout.ledger_reports).mkdir(parents=True)
    write_report(layout, fold)
    report = ledger_answers.Days(layout, lambda: LAST).day(FIRST)
    assert max(max(place.sizes, default=0) for place in report.head.parts.values()) < 300_000
    assert len(report.head.parts["cells"].sizes) > 2
    assert dict(report.rows("key")) == fold.tally.tables["key"]
    assert dict(report.cells()) == fold.tally.cells
    asked = Only(key="000000001234")
    assert [cell.model for cell, _ in report.cells(asked)] == ["m1234"]
    assert report.row("model", "m77").requests == 1
    assert report.row("model", "none") is None


NARROW = [
    Only(*asked)
    for asked in product(("", "m7", "none"), ("", "c3", "none"), ("", f"{5:012d}", "none"))
]


@pytest.mark.parametrize("side", ["model", "channel", "key"])
def test_what_an_earlier_agentd_wrote_is_told_without_columns(layout, side):
    fold = Fold(FIRST)
    for n in range(200):
        more = {"key": f"{n % 9:012d}", "model": f"m{n % 40}", "channel": f"c{n % 5}"}
        fold.tally.book(entry(n, f"{FIRST}T01:00:00.000Z", **more))
    os.makedirs(layout.ledger_reports)
    write_report(layout, fold)
    report = ledger_answers.Days(layout, lambda: LAST).day(FIRST)
    as_columns = dict(Ranked(report.columns(side)))
    del report.head.parts[f"{side}/listed"]
    assert dict(Ranked(report.columns(side))) == as_columns == fold.tally.tables[side]


@pytest.fixture(scope="module")
def one_day(tmp_path_factory):
    """A day with many requests, in memory, and where its report is."""
    fold, folder = Fold(FIRST), str(tmp_path_factory.mktemp("day"))
    layout = Layout(folder, folder)
    for n in range(2000):
        more = {"key": f"{n % 9:012d}", "model": f"m{n % 400}", "channel": f"c{n % 5}"}
        fold.tally.book(entry(n, f"{FIRST}T{n % 24:02d}:00:00.000Z", **more))
    Path(layout.ledger_reports).mkdir(parents=True)
    write_report(layout, fold)
    return fold, layout


@pytest.mark.parametrize("only", NARROW)
@pytest.mark.parametrize("earlier", [False, True])
def test_what_is_kept_apart_is_told_as_it_is_asked_for(one_day, only, earlier):
    fold, layout = one_day
    report = ledger_answers.Days(layout, lambda: LAST).day(FIRST)
    if earlier:  # another agentd wrote it, which did not know of these parts
        del report.head.parts["cells/model"], report.head.parts["ways"]

    found = list(report.cells(only))
    assert dict(found) == {cell: one for cell, one in fold.tally.cells.items() if only.fits(cell)}
    assert len(dict(found)) == len(found)
    assert dict(fold.cells(only)) == dict(found)


class Spied:
    """How many bytes are read of reports."""

    def __init__(self, monkeypatch):
        self.bytes = 0
        real = os.pread

        def pread(fd, size, at):
            self.bytes += size
            return real(fd, size, at)

        monkeypatch.setattr(ledger_parts.os, "pread", pread)


def long_days(layout, days):
    """Days that are known, with as many models and keys, each with a long histogram."""
    os.makedirs(layout.ledger_reports)
    for number in range(days):
        fold = Fold(day(number))
        for n in range(6000):
            took = Timings(total=1.1 ** (n // 300 * 5), first=1.1 ** (n // 300))
            model, key = f"m{n % 300:03d}", f"{n % 300:012d}"
            hidden = {"jwt": 1} if n == 5 else {}
            more = {"model": model, "key": key, "key_name": f"key {key}", "hidden": hidden}
            fold.tally.book(booked(number, timings=took, cost=Decimal(n), **more))
        write_report(layout, fold)
    return Days(layout, lambda: LAST)


def test_of_a_page_of_times_and_of_leaks_little_is_read(layout, monkeypatch):
    days = long_days(layout, 3)
    spied = Spied(monkeypatch)
    answers = ledger_answers.Answers(days, lambda: f"{LAST}T12:00:00.000Z")
    page = answers.times("model", FIRST, day(2), rows=slice(10, 12))
    assert [name for name, _ in page.rows] == ["m010", "m011"]
    assert [sum(times.took.values()) for _, times in page.rows] == [60, 60]
    some, spied.bytes = spied.bytes, 0
    assert len(answers.times("model", FIRST, day(2)).rows) == 300
    assert some < spied.bytes / 2
    spied.bytes = 0
    assert [one.title for one in answers.leaks(FIRST, day(2))] == ["key 000000000005"] * 3
    leaks, spied.bytes = spied.bytes, 0
    assert len(answers.totals("key", FIRST, day(2)).names) == 300
    assert leaks < spied.bytes


def test_of_a_few_models_little_is_read(layout, monkeypatch):
    fold = Fold(FIRST)
    for n in range(3000):
        fold.tally.book(entry(n, key=f"{n:012d}", model=f"m{n % 1000:04d}", channel=f"c{n % 200}"))
    Path(layout.ledger_reports).mkdir(parents=True)
    write_report(layout, fold)
    report = ledger_answers.Days(layout, lambda: LAST).day(FIRST)
    spied = Spied(monkeypatch)
    assert len(list(report.cells(Only(channel="c7")))) == 15
    assert spied.bytes < os.path.getsize(layout.ledger_report(FIRST)) / 8
