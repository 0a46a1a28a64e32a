"""What is booked is there once, adds up exactly, survives what it can, and is never guessed."""

import asyncio
import errno
import itertools
import os
import shutil
import threading
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentd.clock import FrozenClock, parse_iso
from agentd.disk import (
    ledger_days,
    ledger_file,
    ledger_open,
    ledger_page,
    ledger_reprice,
    ledger_writer,
)
from agentd.disk.layout import Layout
from agentd.disk.ledger import Ledger
from agentd.disk.ledger_days import Days
from agentd.disk.ledger_file import Standing, read_on
from agentd.disk.ledger_report import Report
from agentd.disk.lines import seal, unseal
from agentd.errors import BadRequest, Unavailable
from agentd.proxy.page import Filter
from agentd.proxy.price import NOTHING, Prices, Usage
from agentd.proxy.reports import Only, lines
from tests.conftest import overwrite, until
from tests.proxy.entries import BEGIN, ENTRIES, entry

pytestmark = pytest.mark.gen_test

DAY, NEXT, LATER = "2026-01-01", "2026-01-02", "2026-06-01"
COUNTED = 5
"""How often sums are told while requests are booked, so that it is known that both go together."""
PACE = 0.001
"""Seconds between a caller's bookings, once they are many: a slow disk has less to count."""


@pytest.fixture
def clock():
    return FrozenClock(f"{DAY}T12:00:00.000Z")


@pytest.fixture
def ledger(io_loop, layout, clock):
    ledger = Ledger(layout, clock)
    io_loop.run_sync(ledger.open)
    yield ledger
    io_loop.run_sync(ledger.close)


def at(day: str, second: int = 0) -> str:
    return f"{day}T00:00:{second:02d}.000Z"


def path_of(layout: Layout, day: str = DAY) -> Path:
    return Path(layout.ledger_day(day))


def booked(layout: Layout, day: str = DAY) -> list[str]:
    return [one.id for one in read_on(layout.ledger_day(day), Standing())]


async def reopened(layout, clock, *cuts):
    ledger = Ledger(layout, clock)
    return ledger, await ledger.open(cuts)


async def lines_of(ledger, *question):
    return lines(await ledger.totals(*question))


async def life(layout, clock, entries, *cuts):
    """A whole life: what was known at its start."""
    ledger, sums = await reopened(layout, clock, *cuts)
    await asyncio.gather(*map(ledger.book, entries))
    await ledger.close()
    return sums


class failing:  # noqa: N801 - reads as a block
    """A call of the system fails within the block."""

    def __init__(self, monkeypatch, name: str, code: int, real=None) -> None:
        self._patch = (monkeypatch, name, code, real or getattr(os, name))

    def __enter__(self):
        monkeypatch, name, code, _ = self._patch

        def fail(*_):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(ledger_writer.os, name, fail)

    def __exit__(self, *_):
        monkeypatch, name, _, real = self._patch
        monkeypatch.setattr(ledger_writer.os, name, real)


async def test_a_booked_request_is_one_sealed_line_in_the_file_of_its_day(layout, ledger):
    await ledger.book(entry(1, at(DAY), cost=Decimal("0.1")))
    await ledger.book(entry(2, at(NEXT)))
    (line,) = path_of(layout).read_bytes().splitlines(keepends=True)
    assert b'"id":"r-1"' in unseal(line)
    assert b'"cost":"0.1"' in line
    assert booked(layout, NEXT) == ["r-2"]
    assert path_of(layout).stat().st_mode & 0o777 == 0o600
    assert path_of(layout).parent.stat().st_mode & 0o777 == 0o700


async def test_many_at_once_share_few_writes_and_few_hops_to_the_loop(layout, ledger, monkeypatch):
    await ledger.book(entry(0))
    writes, hops = [], []
    write, hop = os.write, ledger._writer._loop.call_soon_threadsafe
    monkeypatch.setattr(
        ledger_writer.os, "write", lambda fd, data: writes.append(1) or write(fd, data)
    )
    monkeypatch.setattr(
        ledger._writer._loop, "call_soon_threadsafe", lambda *args: hops.append(1) or hop(*args)
    )
    await asyncio.gather(*(ledger.book(entry(n)) for n in range(1, 2000)))
    monkeypatch.undo()
    assert booked(layout) == [f"r-{n}" for n in range(2000)]
    assert len(writes) < 1000
    assert len(hops) <= len(writes) + 1


async def test_a_sync_follows_without_being_waited_for(layout, clock, monkeypatch):
    held, synced, real = asyncio.Event(), [], os.fdatasync
    loop = asyncio.get_running_loop()

    def slow(fd):
        asyncio.run_coroutine_threadsafe(held.wait(), loop).result(100)
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        return real(fd)

    monkeypatch.setattr(ledger_writer.os, "fdatasync", slow)
    ledger, _ = await reopened(layout, clock)
    await ledger.book(entry(1))
    await ledger.book(entry(2))
    assert booked(layout) == ["r-1", "r-2"]
    assert not synced
    held.set()
    await until(lambda: synced)
    assert set(synced) == {str(path_of(layout))}
    await ledger.close()


async def test_with_sync_a_request_is_booked_only_once_it_is_safe(layout, clock, monkeypatch):
    held, real = asyncio.Event(), os.fdatasync
    loop = asyncio.get_running_loop()

    def slow(fd):
        asyncio.run_coroutine_threadsafe(held.wait(), loop).result(100)
        return real(fd)

    monkeypatch.setattr(ledger_writer.os, "fdatasync", slow)
    ledger = Ledger(layout, clock, sync=True)
    await ledger.open()
    booking = asyncio.create_task(ledger.book(entry(1)))
    await until(path_of(layout).exists)
    await until(lambda: booked(layout) == ["r-1"])
    assert not booking.done()
    held.set()
    await booking
    held.clear()
    ledger.sync = False
    await ledger.book(entry(2))
    held.set()
    await ledger.close()


async def test_a_full_disk_is_told_leaves_no_half_line_and_passes(layout, ledger, monkeypatch):
    await ledger.book(entry(1))
    before, write = path_of(layout).read_bytes(), os.write

    def half(fd, data):
        if len(data) > 10:
            return write(fd, data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ledger_writer.os, "write", half)
    refused = await asyncio.gather(*(ledger.book(entry(n)) for n in (2, 3)), return_exceptions=True)
    assert [type(one) for one in refused] == [Unavailable] * 2
    assert "disk full" in refused[0].message
    assert path_of(layout).read_bytes() == before
    monkeypatch.setattr(ledger_writer.os, "write", write)
    await ledger.book(entry(4))
    assert booked(layout) == ["r-1", "r-4"]
    assert (await ledger.sums()).spent("abcdefghijkl") == Decimal("0.5")


async def test_what_cannot_be_cut_off_keeps_the_day_closed_until_it_can(
    layout, ledger, monkeypatch
):
    await ledger.book(entry(1))
    write, cut = os.write, os.ftruncate

    def half(fd, data):
        if len(data) > 10:
            return write(fd, data[:10])
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(ledger_writer.os, "write", half)
    with failing(monkeypatch, "ftruncate", errno.EIO, cut):
        with pytest.raises(Unavailable):
            await ledger.book(entry(2))
        monkeypatch.setattr(ledger_writer.os, "write", write)
        with pytest.raises(Unavailable, match="cannot be cut"):
            await ledger.book(entry(3))
        assert booked(layout) == ["r-1"]
    await ledger.book(entry(4))
    assert booked(layout) == ["r-1", "r-4"]


async def test_after_a_failed_sync_nothing_more_is_taken(layout, clock, monkeypatch):
    ledger, _ = await reopened(layout, clock)
    with failing(monkeypatch, "fdatasync", errno.EIO):
        await ledger.book(entry(1))
        await until(lambda: ledger._writer._dead)
    with pytest.raises(Unavailable, match="the disk failed"):
        await ledger.book(entry(2))
    await ledger.close()
    assert booked(layout) == ["r-1"]


async def test_who_stops_waiting_breaks_nothing_for_the_others(layout, ledger):
    leaving = asyncio.create_task(ledger.book(entry(1)))
    staying = asyncio.create_task(ledger.book(entry(2)))
    await asyncio.sleep(0)
    leaving.cancel()
    await staying
    assert booked(layout) == ["r-1", "r-2"]


async def test_more_than_may_wait_is_refused(layout, ledger, monkeypatch):
    monkeypatch.setattr(ledger_writer, "WAITING_LIMIT", 1000)
    told = await asyncio.gather(*(ledger.book(entry(n)) for n in range(20)), return_exceptions=True)
    assert any(isinstance(one, Unavailable) and "keep up" in one.message for one in told)
    assert len(booked(layout)) == told.count(None)
    await ledger.book(entry(99))


@pytest.mark.parametrize("torn", [b'{"id":"r-9","at', b"\0" * 70_000, b"x\ny\nz", b"\n\n"])
async def test_a_torn_end_is_set_aside_and_the_rest_goes_on(layout, clock, torn):
    await life(layout, clock, [entry(1), entry(2)])
    whole = path_of(layout).read_bytes()
    path_of(layout).write_bytes(whole + torn)
    ledger, sums = await reopened(layout, clock)
    assert sums.spent("abcdefghijkl") == Decimal("0.5")
    await ledger.book(entry(3))
    await ledger.close()
    assert booked(layout) == ["r-1", "r-2", "r-3"]
    (aside,) = path_of(layout).parent.glob("*.torn-*")
    assert aside.read_bytes() == torn
    assert aside.stat().st_mode & 0o777 == 0o600


async def test_a_ledger_that_cannot_be_mended_can_be_read_and_says_why_it_books_nothing(
    layout, clock, monkeypatch
):
    await life(layout, clock, [entry(1)])
    whole = path_of(layout).read_bytes()
    path_of(layout).write_bytes(whole + b"torn")

    def read_only(*_):
        raise OSError(errno.EROFS, "")

    with monkeypatch.context() as patch:
        patch.setattr(ledger_days, "mend", read_only)
        patch.setattr(ledger_open, "mend", read_only)
        ledger, sums = await reopened(layout, clock)
        assert sums.spent("abcdefghijkl") == Decimal("0.25")
        assert [one.id for one in (await ledger.page(Filter())).entries] == ["r-1"]
        with pytest.raises(Unavailable, match="read-only"):
            await ledger.book(entry(2))
    await ledger.book(entry(3))
    assert booked(layout) == ["r-1", "r-3"]
    await ledger.close()


async def test_a_file_that_is_all_torn_begins_anew(layout, clock):
    await life(layout, clock, [])
    path_of(layout).write_bytes(b'{"id"')
    ledger, _ = await reopened(layout, clock)
    await ledger.book(entry(3))
    await ledger.close()
    assert booked(layout) == ["r-3"]


async def test_a_damaged_line_is_told_stays_in_place_and_counts_nowhere(layout, clock):
    await life(layout, clock, [entry(n, cost=Decimal(n)) for n in (1, 2, 4)])
    damaged = path_of(layout).read_bytes().replace(b'"cost":"2"', b'"cost":"9"')
    path_of(layout).write_bytes(damaged)
    ledger, sums = await reopened(layout, clock)
    assert sums.spent("abcdefghijkl") == Decimal(5)
    (told,) = await ledger.damaged()
    assert told.startswith(f"{path_of(layout)}:2: ")
    page = await ledger.page(Filter())
    assert [one.id for one in page.entries] == ["r-4", "r-1"]
    assert page.damaged == 1
    await ledger.close()
    assert path_of(layout).read_bytes() == damaged
    again, sums = await reopened(layout, clock)
    assert sums.spent("abcdefghijkl") == Decimal(5)
    assert await again.damaged() == [told]
    await again.close()


async def test_a_file_that_was_taken_away_while_open_is_missed_and_begun_anew(layout, ledger):
    await ledger.book(entry(1))
    path_of(layout).rename(path_of(layout).with_suffix(".away"))
    await ledger.book(entry(2))
    assert booked(layout) == ["r-2"]
    assert (await ledger.sums()).spent("abcdefghijkl") == Decimal("0.25")


async def test_what_another_hand_appended_is_kept(layout, ledger):
    await ledger.book(entry(1))
    line = path_of(layout).read_bytes()
    with path_of(layout).open("ab") as file:
        file.write(line.replace(b"x", b"y"))
        file.write(b"torn")
    await ledger.book(entry(2))
    assert booked(layout) == ["r-1", "r-1", "r-2"]
    assert (await ledger.sums()).spent("abcdefghijkl") == Decimal("0.75")


# What the days add up to.


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(ENTRIES, ENTRIES, st.integers(0, 5 * 96), st.sampled_from([DAY, NEXT, LATER]))
def test_sums_equal_a_recount_whatever_is_left_of_the_reports(
    tmp_path_factory, first, second, quarters, today
):
    folder = tmp_path_factory.mktemp("ledger")
    asyncio.run(_recounted(folder, first, second, quarters, today))


async def _recounted(folder, first, second, quarters, today):
    layout, clock = Layout(str(folder / "state"), str(folder)), FrozenClock(at(today))
    cut = BEGIN + timedelta(minutes=15 * quarters)
    await life(layout, clock, first, cut)
    await life(layout, clock, second, cut)
    for damage in (lambda: None, lambda: _older_times(layout), lambda: _half_gone(layout)):
        damage()
        ledger, sums = await reopened(layout, clock, cut)
        for key in {one.key for one in first + second}:
            rows = [one for one in first + second if one.key == key]
            assert Fraction(sums.spent(key)) == sum(Fraction(one.cost) for one in rows)
            later = [one for one in rows if parse_iso(one.at) >= cut]
            assert Fraction(sums.spent(key, cut)) == sum(Fraction(one.cost) for one in later)
        by_key = await lines_of(ledger, "key", "0000", "9999")
        assert sum(line.requests for line in by_key) == len(first + second)
        await ledger.close()


def _older_times(layout: Layout) -> None:
    for path in Path(layout.ledger).glob("*.jsonl"):
        os.utime(path, (0, 0))


def _half_gone(layout: Layout) -> None:
    for place, path in enumerate(sorted(Path(layout.ledger_reports).iterdir())):
        if place % 2:
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-9])


@pytest.mark.parametrize("midnight", [False, True])
async def test_sums_hold_exactly_what_was_booked_when_they_are_told(layout, clock, midnight):
    ledger, _ = await reopened(layout, clock)
    spent, days = Decimal(0), [DAY, NEXT] if midnight else [DAY]

    async def call(worker):
        nonlocal spent
        for number in itertools.count():
            if number >= 150:
                if counts >= COUNTED:
                    return
                await asyncio.sleep(PACE)
            cost = Decimal(worker + 1) / 8
            spent += cost  # a meter settles in the step in which the ledger is given the line
            day = days[number % len(days)]
            await ledger.book(entry(number * 8 + worker, at(day), cost=cost))
            if midnight and number == 20:
                clock.move(parse_iso(at(NEXT)).timestamp() - parse_iso(clock.now()).timestamp())

    counts = 0
    tasks = [asyncio.create_task(call(worker)) for worker in range(8)]
    while not all(task.done() for task in tasks):
        assert (await ledger.sums([BEGIN])).spent("abcdefghijkl") == spent
        counts += 1
    await asyncio.gather(*tasks)
    await ledger.close()
    _, sums = await reopened(layout, clock, BEGIN)
    assert sums.spent("abcdefghijkl") == sums.spent("abcdefghijkl", BEGIN) == spent


async def test_sums_are_told_though_requests_are_added_to_closed_days_all_the_while(
    layout, clock, monkeypatch
):
    cuts = [BEGIN, BEGIN + timedelta(days=1)]
    await life(layout, clock, [entry(1, at(DAY)), entry(2, at(NEXT))])
    clock.move(2 * 86400)
    await life(layout, clock, [], *cuts)
    days, looks = Days(layout, lambda: clock.now()[:10]), 0

    def add(day):
        with path_of(layout, day).open("ab") as file:
            file.write(seal(entry(3, f"{day}T23:00:00.000Z")))

    def told_and_added_to(day):
        nonlocal looks
        looks += 1
        assert looks < 100, "who adds faster than is counted keeps the count from its end"
        if day > NEXT:
            return Days.day(days, day)
        add(day)
        found = Days.day(days, day)
        add(day)
        return found

    monkeypatch.setattr(days, "day", told_and_added_to)
    for _ in range(3):
        add(DAY)
        sums, sizes = days.sums(cuts)
        one, other = (
            path_of(layout, day).read_bytes()[: sizes[day]].count(b"\n") for day in (DAY, NEXT)
        )
        spent = [sums.spent("abcdefghijkl", *since) for since in ((), cuts[:1], cuts[1:])]
        assert spent == [(one + other) / 4, (one + other) / 4, other / 4]


@pytest.mark.parametrize("gone", ["unreadable", "removed"])
async def test_a_stop_ends_in_order_though_the_folder_cannot_be_read(layout, clock, caplog, gone):
    before = set(threading.enumerate())
    ledger, _ = await reopened(layout, clock)
    await ledger.book(entry())
    if gone == "unreadable":
        shutil.rmtree(layout.ledger)
        os.symlink(layout.ledger, layout.ledger)  # ELOOP, also to root
    else:
        shutil.rmtree(os.path.dirname(layout.ledger))
    await ledger.close()
    threads = set(threading.enumerate()) - before
    assert not [one.name for one in threads if one.name.startswith("ledger")]
    if gone == "unreadable":
        assert "what the ledger adds up to is not kept" in caplog.text


async def test_a_closed_day_is_added_up_once(layout, clock, monkeypatch):
    await life(layout, clock, [entry(n, at(DAY)) for n in range(5)])
    clock.move(3 * 86400)
    await life(layout, clock, [])
    read = []
    real = ledger_days.read_on
    monkeypatch.setattr(ledger_days, "read_on", lambda *args: read.append(args[0]) or real(*args))
    ledger, sums = await reopened(layout, clock)
    (line,) = await lines_of(ledger, "model", DAY, DAY)
    assert line.requests == 5
    assert sums.spent("abcdefghijkl") == Decimal("1.25")
    await ledger.close()
    assert str(path_of(layout)) not in read


async def test_a_start_reads_only_the_present_days_lines_behind_what_was_kept(
    layout, clock, monkeypatch
):
    await life(layout, clock, [entry(n, at(DAY)) for n in range(5)])
    with path_of(layout).open("ab") as file:  # as after a kill
        file.write(seal(entry(6, at(DAY))))
    real, begun = ledger_days.read_on, []

    def spied(path, standing, upto=None):
        begun.append(standing.lines)
        return real(path, standing, upto)

    monkeypatch.setattr(ledger_days, "read_on", spied)
    ledger, sums = await reopened(layout, clock)
    assert begun == [5]
    assert sums.spent("abcdefghijkl") == Decimal("1.5")
    await ledger.close()


async def test_a_report_of_another_file_is_not_believed(layout, clock):
    await life(layout, clock, [entry(1, at(DAY), cost=Decimal(1))])
    shutil.copy(layout.ledger_report(DAY), layout.ledger_report(DAY) + ".kept")
    path_of(layout).unlink()
    Path(layout.ledger_report(DAY)).unlink()
    await life(layout, clock, [entry(2, at(DAY), cost=Decimal(7))])
    shutil.move(layout.ledger_report(DAY) + ".kept", layout.ledger_report(DAY))
    clock.move(86400)
    ledger, sums = await reopened(layout, clock)
    assert sums.spent("abcdefghijkl") == Decimal(7)
    await ledger.close()


@pytest.mark.parametrize("part", ["key", "model/packed", "cells"])
async def test_a_damaged_part_of_a_report_is_made_anew(layout, clock, part):
    await life(layout, clock, [entry(n, at(DAY)) for n in range(3)])
    clock.move(86400)
    await life(layout, clock, [])
    Path(layout.ledger_balance).unlink()
    head = Report(layout, DAY)
    begin = head._parts._head + head.head.parts[part].at
    for _ in range(2):
        overwrite(layout.ledger_report(DAY), begin + 20, b"#")
        ledger, sums = await reopened(layout, clock)
        assert sums.spent("abcdefghijkl") == Decimal("0.75")
        (line,) = await lines_of(ledger, "model", DAY, DAY)
        (same,) = await lines_of(ledger, "model", DAY, DAY, Only(key="abcdefghijkl"))
        assert line == same
        assert line.requests == 3
        await ledger.close()
    overwrite(layout.ledger_report(DAY), begin + 20, b"#")
    path_of(layout).unlink()
    ledger, sums = await reopened(layout, clock)
    with pytest.raises(Unavailable, match="is damaged"):
        await lines_of(ledger, "model", DAY, DAY)
        await lines_of(ledger, "model", DAY, DAY, Only(key="abcdefghijkl"))
        await ledger.sums([BEGIN])
    await ledger.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"cost": Decimal(-1)},
        {"cost": Decimal("NaN")},
        {"sent": -1},
        {"hidden": {"jwt": -1}},
        {"usage": Usage(input=-1)},
    ],
)
async def test_a_line_that_tells_what_cannot_be_counts_nowhere(layout, clock, wrong):
    await life(layout, clock, [entry(1, at(DAY))])
    with path_of(layout).open("ab") as file:
        file.write(seal(entry(2, at(DAY), **wrong)) + seal(entry(3, at(DAY))))
    ledger, sums = await reopened(layout, clock)
    assert sums.spent("abcdefghijkl") == Decimal("0.5")
    assert (await ledger.totals("model", DAY, DAY)).total.requests == 2
    assert len(await ledger.damaged()) == 1
    await ledger.close()


async def test_a_start_reads_no_report_of_the_days_before_while_nothing_changed(
    layout, clock, monkeypatch
):
    cuts = [BEGIN + timedelta(hours=hours) for hours in (0, 5, 30)]
    entries = [entry(n, at(day)) for n, day in enumerate((DAY, NEXT, "2026-01-03"))]
    await life(layout, clock, entries)
    clock.move(10 * 86400)
    before = await life(layout, clock, [], *cuts)
    read = []
    monkeypatch.setattr(ledger_days, "Report", lambda _, day: read.append(day))
    sums = await life(layout, clock, [], *cuts)
    assert sorted(sums.rows()) == sorted(before.rows())
    assert set(read) <= {clock.now()[:10]}


async def test_a_report_narrowed_to_a_key_is_the_same_of_a_closed_and_a_present_day(layout, clock):
    entries = [entry(n, at(DAY), key=n % 3 * "b" + "k", cost=Decimal(n)) for n in range(12)]
    ledger, _ = await reopened(layout, clock)
    await asyncio.gather(*map(ledger.book, entries))
    present = await lines_of(ledger, "model", DAY, DAY, Only(key="bk"))
    await ledger.close()
    clock.move(86400)
    again, _ = await reopened(layout, clock)
    assert await lines_of(again, "model", DAY, DAY, Only(key="bk")) == present
    assert present[0].cost == 1 + 4 + 7 + 10
    await again.close()


async def test_what_somebody_else_needs_does_not_go(layout, clock):
    await life(layout, clock, [entry(1, at(DAY)), entry(2, at(NEXT))])
    clock.move(100 * 86400)
    ledger, _ = await reopened(layout, clock)
    assert await ledger.retain(30, DAY) == []
    assert await ledger.retain(30, NEXT) == [DAY]
    assert await ledger.retain(30, LATER) == [NEXT]
    await ledger.close()


async def test_old_requests_go_and_what_they_add_up_to_stays(layout, clock):
    await life(layout, clock, [entry(1, at(DAY)), entry(2, at(NEXT))])
    clock.move(31 * 86400)
    ledger, before = await reopened(layout, clock)
    days = await lines_of(ledger, "day", DAY, NEXT)
    assert await ledger.retain(30) == [DAY]
    assert not path_of(layout).exists()
    assert path_of(layout, NEXT).exists()
    assert await lines_of(ledger, "day", DAY, NEXT) == days
    await ledger.close()
    clock.move(100 * 86400)
    for _ in range(2):
        again, sums = await reopened(layout, clock)
        assert sums.spent("abcdefghijkl") == before.spent("abcdefghijkl") == Decimal("0.5")
        assert await lines_of(again, "day", DAY, NEXT) == days
        await again.close()


async def test_requests_stay_while_what_they_add_up_to_cannot_be_written(
    layout, clock, monkeypatch
):
    await life(layout, clock, [entry(1, at(DAY))])
    Path(layout.ledger_report(DAY)).unlink()
    clock.move(300 * 86400)
    ledger = Ledger(layout, clock)

    def full(*_):
        raise Unavailable("disk full")

    monkeypatch.setattr(ledger_days, "write_report", full)
    await ledger.open()
    with pytest.raises(Unavailable, match="are kept"):
        await ledger.retain(90)
    assert path_of(layout).exists()
    await ledger.close()


async def test_what_is_booked_is_added_up_while_nobody_asks(layout, clock, monkeypatch):
    monkeypatch.setattr(ledger_days, "KEEP_LINES", 500)
    ledger, _ = await reopened(layout, clock)
    await asyncio.gather(*(ledger.book(entry(n)) for n in range(1000)))
    await until(lambda: Path(layout.ledger_report(DAY)).exists())
    await ledger.close()


# Pages.


async def test_pages_tell_every_request_once_the_newest_first(layout, clock):
    entries = [entry(n, at(DAY if n < 30 else NEXT)) for n in range(70)]
    ledger, _ = await reopened(layout, clock)
    for one in entries:
        await ledger.book(one)
    found, cursor = [], ""
    while True:
        page = await ledger.page(Filter(), 7, cursor)
        found += [one.id for one in page.entries]
        await ledger.book(entry(1000 + len(found), at(NEXT)))
        cursor = page.next
        if not cursor:
            break
    assert found == [f"r-{n}" for n in reversed(range(70))]
    await ledger.close()


async def test_a_page_of_what_is_rare_stops_looking_and_goes_on(layout, ledger, monkeypatch):
    for n in range(50):
        await ledger.book(entry(n, model="rare" if n == 3 else "large"))
    monkeypatch.setattr(ledger_page, "LOOK", 3000)
    found, cursor, pages = [], "", 0
    while pages == 0 or cursor:
        page = await ledger.page(Filter(model="rare"), 10, cursor)
        found += [one.id for one in page.entries]
        cursor, pages = page.next, pages + 1
    assert found == ["r-3"]
    assert pages > 2


@given(
    st.lists(st.sampled_from(("large", "rare", 'so "called"', "é" * 50)), max_size=30),
    st.sampled_from(
        [
            {"model": "rare"},
            {"model": 'so "called"'},
            {"model": "é" * 50, "status": 200},
            {"text": "-1"},
            {"text": '"'},
            {"outcome": "ok"},
            {"min_cost": Decimal(0)},
        ]
    ),
    st.integers(1, 4),
    st.sampled_from((400, 3000, 10**6)),
)
def test_pages_of_what_is_wanted_tell_each_once_however_short_they_are(models, wanted, limit, look):
    entries = [entry(n, at(DAY if n < 10 else NEXT), model=one) for n, one in enumerate(models)]
    wanted = Filter(**wanted)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        layout = Layout(folder, folder)
        os.makedirs(layout.ledger)
        for one in entries:
            with open(layout.ledger_day(one.at[:10]), "ab") as file:
                file.write(seal(one))
        patch.setattr(ledger_page, "LOOK", look)
        patch.setattr(ledger_file, "_CHUNK", 80)
        found, cursor = [], ""
        while True:
            page = ledger_page.page(layout, wanted, limit, cursor)
            found += page.entries
            assert len(page.entries) <= limit
            assert page.next != cursor or not cursor
            cursor = page.next
            if not cursor:
                break
    assert found == [one for one in reversed(entries) if wanted.fits(one)]


async def test_a_page_of_a_day_opens_no_other_days_file(layout, ledger, monkeypatch):
    for n, day in enumerate((DAY, NEXT, "2026-01-03")):
        await ledger.book(entry(n, at(day)))
    opened = []
    real = os.open
    monkeypatch.setattr(
        ledger_page.os,
        "open",
        lambda path, *more, **kw: opened.append(path) or real(path, *more, **kw),
    )
    page = await ledger.page(Filter(since=at(NEXT), until="2026-01-02T23:59:59.999Z"))
    monkeypatch.undo()
    assert [one.id for one in page.entries] == ["r-1"]
    assert [path for path in opened if str(path).endswith("jsonl")] == [str(path_of(layout, NEXT))]


@pytest.mark.parametrize("cursor", ["x", "2026-01-01", "2026-01-01.-1", "2026-01-01.1;"])
async def test_what_is_no_cursor_is_refused(ledger, cursor):
    with pytest.raises(BadRequest):
        await ledger.page(Filter(), cursor=cursor)


# Pricing anew.

PRICES = Prices(input=Decimal(1000), output=Decimal(0))
"""A tenth of a cent for each token that goes in."""


def all_of_it(entry):
    return PRICES, "v2"


async def test_pricing_anew_changes_every_sum_and_keeps_the_first_cost(layout, clock):
    entries = [entry(n, at(DAY if n < 3 else NEXT), usage=Usage(input=n)) for n in range(1, 6)]
    ledger, _ = await reopened(layout, clock)
    await asyncio.gather(*map(ledger.book, entries))
    assert (await lines_of(ledger, "total", DAY, NEXT))[0].cost == Decimal("1.25")
    dry = await ledger.reprice(DAY, NEXT, all_of_it, dry_run=True)
    assert (dry.requests, dry.changed) == (5, 5)
    assert (dry.before, dry.after) == (Decimal("1.25"), Decimal("0.015"))
    assert (await lines_of(ledger, "total", DAY, NEXT))[0].cost == Decimal("1.25")
    assert await ledger.reprice(DAY, NEXT, all_of_it) == dry
    assert (await lines_of(ledger, "total", DAY, NEXT))[0].cost == Decimal("0.015")
    assert (await ledger.sums()).spent("abcdefghijkl") == Decimal("0.015")
    (newest, *_) = (await ledger.page(Filter())).entries
    assert (newest.cost, newest.was, newest.priced) == (Decimal("0.005"), Decimal("0.25"), "v2")
    await ledger.book(entry(6, at(NEXT), usage=Usage(input=6)))
    again = await ledger.reprice(NEXT, NEXT, all_of_it)
    assert (again.requests, again.changed) == (4, 1)
    assert booked(layout, NEXT) == ["r-3", "r-4", "r-5", "r-6"]
    await ledger.close()
    ledger, sums = await reopened(layout, clock)
    assert sums.spent("abcdefghijkl") == Decimal("0.021")
    await ledger.close()


async def test_requests_that_are_booked_while_a_day_is_priced_anew_are_priced_too(layout, ledger):
    await ledger.book(entry(1))

    def late(first):
        for number in (2, 3) if first.id == "r-1" else ():
            asyncio.run_coroutine_threadsafe(ledger.book(entry(number)), loop).result(100)
        return PRICES, "v2"

    loop = asyncio.get_running_loop()
    difference = await ledger.reprice(DAY, DAY, late)
    assert difference.requests == 3
    await ledger.book(entry(4))
    assert booked(layout) == [f"r-{n}" for n in (1, 2, 3, 4)]
    assert {one.priced for one in read_on(layout.ledger_day(DAY), Standing())} == {"v2", ""}


async def test_a_crash_or_a_full_disk_while_pricing_anew_leaves_the_old_day(
    layout, clock, monkeypatch
):
    ledger, _ = await reopened(layout, clock)
    await ledger.book(entry(1))
    before = path_of(layout).read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "")

    with monkeypatch.context() as patch:
        patch.setattr(ledger_reprice.os, "rename", full)
        with pytest.raises(Unavailable, match="disk full"):
            await ledger.reprice(DAY, DAY, all_of_it)
    assert path_of(layout).read_bytes() == before
    await ledger.book(entry(2))
    await ledger.close()
    left = Path(layout.ledger, ".tmp-2026-01-01")
    assert not left.exists()
    left.write_bytes(b"half")  # as a crash leaves it
    ledger, sums = await reopened(layout, clock)
    assert not left.exists()
    assert sums.spent("abcdefghijkl") == Decimal("0.5")
    await ledger.close()


async def test_damaged_lines_unknown_prices_and_unused_requests_stay_as_they_are(layout, clock):
    entries = [entry(1), entry(2, cost=Decimal(2)), entry(3, model="?"), entry(4, usage=NOTHING)]
    await life(layout, clock, entries)
    damaged = path_of(layout).read_bytes().replace(b'"cost":"2"', b'"cost":"3"')
    path_of(layout).write_bytes(damaged)
    ledger, _ = await reopened(layout, clock)
    difference = await ledger.reprice(
        DAY, DAY, lambda one: (None, "") if one.model == "?" else (PRICES, "v2")
    )
    assert (difference.requests, difference.changed, difference.unpriced) == (2, 1, 1)
    lines = path_of(layout).read_bytes().splitlines()
    assert lines[1:] == damaged.splitlines()[1:]
    await ledger.close()


async def test_what_is_priced_with_an_assumed_rate_is_marked_and_the_first_price_comes_back(
    layout, ledger
):
    await ledger.book(entry(1, usage=Usage(cache_read=1), cost=Decimal("0.25")))
    await ledger.reprice(DAY, DAY, all_of_it)
    (one,) = (await ledger.page(Filter())).entries
    assert (one.estimated, one.was) == (True, Decimal("0.25"))
    first = Prices(input=Decimal(250_000), output=Decimal(0))
    await ledger.reprice(DAY, DAY, lambda _: (first, "v3"))
    (one,) = (await ledger.page(Filter())).entries
    assert (one.cost, one.was, one.priced) == (Decimal("0.25"), None, "v3")


async def test_a_cursor_from_before_the_pricing_is_refused(layout, ledger):
    for n in range(5):
        await ledger.book(entry(n))
    cursor = (await ledger.page(Filter(), 2)).next
    await ledger.reprice(DAY, DAY, all_of_it)
    with pytest.raises(BadRequest, match="priced anew"):
        await ledger.page(Filter(), 2, cursor)
