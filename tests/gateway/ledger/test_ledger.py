"""Records of the ledger exist once, add up exactly, survive crashes, and are never guessed."""

import asyncio
import errno
import itertools
import os
import shutil
import threading
import time
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentd.core.clock import FrozenClock, parse_iso
from agentd.core.errors import BadRequest, Unavailable
from agentd.gateway.ledger import daily_reports, day_file, open_files, reprice, writer
from agentd.gateway.ledger import pages as ledger_page
from agentd.gateway.ledger.daily_reports import DailyReports, prepare_folders
from agentd.gateway.ledger.day_file import ReadPosition, read_records
from agentd.gateway.ledger.day_report import DayReportFile
from agentd.gateway.ledger.ledger import Ledger
from agentd.gateway.ledger.query import RequestFilter
from agentd.gateway.reports.reports import ReportFilter, build_rows
from agentd.llm.price import NO_USAGE, Prices, Usage
from agentd.storage.checksummed_json import decode_checksummed, encode_checksummed
from agentd.storage.layout import Layout
from tests.conftest import overwrite, until
from tests.gateway.ledger.entries import BEGIN, ENTRIES, build_record
from tests.support.examples import limit_examples

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


def format_time(day: str, second: int = 0) -> str:
    return f"{day}T00:00:{second:02d}.000Z"


def get_path(layout: Layout, day: str = DAY) -> Path:
    return Path(layout.get_ledger_day_path(day))


def read_ids(layout: Layout, day: str = DAY) -> list[str]:
    return [one.id for one in read_records(layout.get_ledger_day_path(day), ReadPosition())]


async def reopen(layout, clock, *cuts):
    ledger = Ledger(layout, clock)
    return ledger, await ledger.open(cuts)


async def list_rows(ledger, *question):
    return build_rows(await ledger.get_totals(*question))


async def run_once(layout, clock, entries, *cuts):
    """Open a ledger, add these records and close it; return the sums at its start."""
    ledger, sums = await reopen(layout, clock, *cuts)
    await asyncio.gather(*map(ledger.add_record, entries))
    await ledger.close()
    return sums


class failing_call:  # noqa: N801 - reads as a block
    """A call of the system fails within the block."""

    def __init__(self, monkeypatch, name: str, code: int, real=None) -> None:
        self._patch = (monkeypatch, name, code, real or getattr(os, name))

    def __enter__(self):
        monkeypatch, name, code, _ = self._patch

        def raise_error(*_):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(writer.os, name, raise_error)

    def __exit__(self, *_):
        monkeypatch, name, _, real = self._patch
        monkeypatch.setattr(writer.os, name, real)


async def test_a_recorded_request_is_one_sealed_line_in_the_file_of_its_day(layout, ledger):
    await ledger.add_record(build_record(1, format_time(DAY), cost=Decimal("0.1")))
    await ledger.add_record(build_record(2, format_time(NEXT)))
    (line,) = get_path(layout).read_bytes().splitlines(keepends=True)
    assert b'"id":"r-1"' in decode_checksummed(line)
    assert b'"cost":"0.1"' in line
    assert read_ids(layout, NEXT) == ["r-2"]
    assert get_path(layout).stat().st_mode & 0o777 == 0o600
    assert get_path(layout).parent.stat().st_mode & 0o777 == 0o700


async def test_many_at_once_share_few_writes_and_few_hops_to_the_loop(layout, ledger, monkeypatch):
    await ledger.add_record(build_record(0))
    writes, hops = [], []
    write, hop = os.write, ledger._writer._loop.call_soon_threadsafe
    monkeypatch.setattr(writer.os, "write", lambda fd, data: writes.append(1) or write(fd, data))
    monkeypatch.setattr(
        ledger._writer._loop, "call_soon_threadsafe", lambda *args: hops.append(1) or hop(*args)
    )
    await asyncio.gather(*(ledger.add_record(build_record(n)) for n in range(1, 2000)))
    monkeypatch.undo()
    assert read_ids(layout) == [f"r-{n}" for n in range(2000)]
    assert len(writes) < 1000
    assert len(hops) <= len(writes) + 1


async def test_a_sync_follows_without_being_waited_for(layout, clock, monkeypatch):
    held, synced, real = asyncio.Event(), [], os.fdatasync
    loop = asyncio.get_running_loop()

    def slow(fd):
        asyncio.run_coroutine_threadsafe(held.wait(), loop).result(100)
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        return real(fd)

    monkeypatch.setattr(writer.os, "fdatasync", slow)
    ledger, _ = await reopen(layout, clock)
    await ledger.add_record(build_record(1))
    await ledger.add_record(build_record(2))
    assert read_ids(layout) == ["r-1", "r-2"]
    assert not synced
    held.set()
    await until(lambda: synced)
    assert set(synced) == {str(get_path(layout))}
    await ledger.close()


async def test_with_sync_a_request_is_recorded_only_once_it_is_safe(layout, clock, monkeypatch):
    held, real = asyncio.Event(), os.fdatasync
    loop = asyncio.get_running_loop()

    def slow(fd):
        asyncio.run_coroutine_threadsafe(held.wait(), loop).result(100)
        return real(fd)

    monkeypatch.setattr(writer.os, "fdatasync", slow)
    ledger = Ledger(layout, clock, sync=True)
    await ledger.open()
    booking = asyncio.create_task(ledger.add_record(build_record(1)))
    await until(get_path(layout).exists)
    await until(lambda: read_ids(layout) == ["r-1"])
    assert not booking.done()
    held.set()
    await booking
    held.clear()
    ledger.sync = False
    await ledger.add_record(build_record(2))
    held.set()
    await ledger.close()


async def test_a_full_disk_is_reported_leaves_no_half_line_and_passes(layout, ledger, monkeypatch):
    await ledger.add_record(build_record(1))
    before, write = get_path(layout).read_bytes(), os.write

    def half(fd, data):
        if len(data) > 10:
            return write(fd, data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writer.os, "write", half)
    refused = await asyncio.gather(
        *(ledger.add_record(build_record(n)) for n in (2, 3)), return_exceptions=True
    )
    assert [type(one) for one in refused] == [Unavailable] * 2
    assert "disk full" in refused[0].message
    assert get_path(layout).read_bytes() == before
    monkeypatch.setattr(writer.os, "write", write)
    await ledger.add_record(build_record(4))
    assert read_ids(layout) == ["r-1", "r-4"]
    assert (await ledger.count_spend()).get_spend("abcdefghijkl") == Decimal("0.5")


async def test_what_cannot_be_cut_off_keeps_the_day_closed_until_it_can(
    layout, ledger, monkeypatch
):
    await ledger.add_record(build_record(1))
    write, cut = os.write, os.ftruncate

    def half(fd, data):
        if len(data) > 10:
            return write(fd, data[:10])
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(writer.os, "write", half)
    with failing_call(monkeypatch, "ftruncate", errno.EIO, cut):
        with pytest.raises(Unavailable):
            await ledger.add_record(build_record(2))
        monkeypatch.setattr(writer.os, "write", write)
        with pytest.raises(Unavailable, match="cannot be cut"):
            await ledger.add_record(build_record(3))
        assert read_ids(layout) == ["r-1"]
    await ledger.add_record(build_record(4))
    assert read_ids(layout) == ["r-1", "r-4"]


async def test_after_a_failed_sync_nothing_more_is_taken(layout, clock, monkeypatch):
    ledger, _ = await reopen(layout, clock)
    with failing_call(monkeypatch, "fdatasync", errno.EIO):
        await ledger.add_record(build_record(1))
        await until(lambda: ledger._writer._fatal)
    with pytest.raises(Unavailable, match="the disk failed"):
        await ledger.add_record(build_record(2))
    await ledger.close()
    assert read_ids(layout) == ["r-1"]


async def test_a_client_that_stops_waiting_breaks_nothing_for_the_others(layout, ledger):
    leaving = asyncio.create_task(ledger.add_record(build_record(1)))
    staying = asyncio.create_task(ledger.add_record(build_record(2)))
    await asyncio.sleep(0)
    leaving.cancel()
    await staying
    assert read_ids(layout) == ["r-1", "r-2"]


async def test_more_than_may_wait_is_refused(layout, ledger, monkeypatch):
    monkeypatch.setattr(writer, "MAX_WAITING_BYTES", 1000)
    reply = await asyncio.gather(
        *(ledger.add_record(build_record(n)) for n in range(20)), return_exceptions=True
    )
    assert any(isinstance(one, Unavailable) and "too slow" in one.message for one in reply)
    assert len(read_ids(layout)) == reply.count(None)
    await ledger.add_record(build_record(99))


@pytest.mark.parametrize("torn", [b'{"id":"r-9","at', b"\0" * 70_000, b"x\ny\nz", b"\n\n"])
async def test_a_torn_end_is_set_aside_and_the_rest_goes_on(layout, clock, torn):
    await run_once(layout, clock, [build_record(1), build_record(2)])
    whole = get_path(layout).read_bytes()
    get_path(layout).write_bytes(whole + torn)
    ledger, sums = await reopen(layout, clock)
    assert sums.get_spend("abcdefghijkl") == Decimal("0.5")
    await ledger.add_record(build_record(3))
    await ledger.close()
    assert read_ids(layout) == ["r-1", "r-2", "r-3"]
    (aside,) = get_path(layout).parent.glob("*.torn-*")
    assert aside.read_bytes() == torn
    assert aside.stat().st_mode & 0o777 == 0o600


async def test_a_ledger_that_cannot_be_repaired_can_be_read_and_says_why_it_records_nothing(
    layout, clock, monkeypatch
):
    await run_once(layout, clock, [build_record(1)])
    whole = get_path(layout).read_bytes()
    get_path(layout).write_bytes(whole + b"torn")

    def read_only(*_):
        raise OSError(errno.EROFS, "")

    with monkeypatch.context() as patch:
        patch.setattr(daily_reports, "repair_end", read_only)
        patch.setattr(open_files, "repair_end", read_only)
        ledger, sums = await reopen(layout, clock)
        assert sums.get_spend("abcdefghijkl") == Decimal("0.25")
        assert [one.id for one in (await ledger.read_page(RequestFilter())).records] == ["r-1"]
        with pytest.raises(Unavailable, match="read-only"):
            await ledger.add_record(build_record(2))
    await ledger.add_record(build_record(3))
    assert read_ids(layout) == ["r-1", "r-3"]
    await ledger.close()


async def test_the_last_days_are_all_repaired_since_late_requests_are_added_to_them(layout):
    Path(layout.ledger).mkdir(parents=True)
    for day in (DAY, NEXT, LATER):
        get_path(layout, day).write_bytes(encode_checksummed(build_record(1)) + b"torn")
    prepare_folders(layout)
    for day in (DAY, NEXT, LATER):
        assert get_path(layout, day).read_bytes() == encode_checksummed(build_record(1))


async def test_a_file_that_is_all_torn_starts_again(layout, clock):
    await run_once(layout, clock, [])
    get_path(layout).write_bytes(b'{"id"')
    ledger, _ = await reopen(layout, clock)
    await ledger.add_record(build_record(3))
    await ledger.close()
    assert read_ids(layout) == ["r-3"]


async def test_a_damaged_line_is_reported_stays_in_place_and_counts_nowhere(layout, clock, caplog):
    await run_once(layout, clock, [build_record(n, cost=Decimal(n)) for n in (1, 2, 4)])
    damaged = get_path(layout).read_bytes().replace(b'"cost":"2"', b'"cost":"9"')
    get_path(layout).write_bytes(damaged)
    ledger, sums = await reopen(layout, clock)
    assert sums.get_spend("abcdefghijkl") == Decimal(5)
    (damage,) = (await ledger.get_overview()).corrupt_days
    assert (damage.day, damage.lines) == (DAY, 1)
    assert f"{get_path(layout)}:2: corrupt line in the ledger" in caplog.text
    page = await ledger.read_page(RequestFilter())
    assert [one.id for one in page.records] == ["r-4", "r-1"]
    assert page.corrupt == 1
    await ledger.close()
    assert get_path(layout).read_bytes() == damaged
    again, sums = await reopen(layout, clock)
    assert sums.get_spend("abcdefghijkl") == Decimal(5)
    assert (await again.get_overview()).corrupt_days == [damage]
    await again.close()


async def test_a_file_that_was_taken_away_while_open_is_missed_and_restarted(layout, ledger):
    await ledger.add_record(build_record(1))
    get_path(layout).rename(get_path(layout).with_suffix(".away"))
    await ledger.add_record(build_record(2))
    assert read_ids(layout) == ["r-2"]
    assert (await ledger.count_spend()).get_spend("abcdefghijkl") == Decimal("0.25")


async def test_what_another_hand_appended_is_kept(layout, ledger):
    await ledger.add_record(build_record(1))
    line = get_path(layout).read_bytes()
    with get_path(layout).open("ab") as file:
        file.write(line.replace(b"x", b"y"))
        file.write(b"torn")
    await ledger.add_record(build_record(2))
    assert read_ids(layout) == ["r-1", "r-1", "r-2"]
    assert (await ledger.count_spend()).get_spend("abcdefghijkl") == Decimal("0.75")


# What the days add up to.


@settings(max_examples=limit_examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(ENTRIES, ENTRIES, st.integers(0, 5 * 96), st.sampled_from([DAY, NEXT, LATER]))
def test_sums_equal_a_recount_whatever_is_left_of_the_reports(
    tmp_path_factory, first, second, quarters, today
):
    folder = tmp_path_factory.mktemp("ledger")
    asyncio.run(_check_recount(folder, first, second, quarters, today))


async def _check_recount(folder, first, second, quarters, today):
    layout, clock = Layout(str(folder / "state"), str(folder)), FrozenClock(format_time(today))
    cut = BEGIN + timedelta(minutes=15 * quarters)
    await run_once(layout, clock, first, cut)
    await run_once(layout, clock, second, cut)
    for damage in (
        lambda: None,
        lambda: _make_files_older(layout),
        lambda: _damage_reports(layout),
    ):
        damage()
        ledger, sums = await reopen(layout, clock, cut)
        for key in {one.key for one in first + second}:
            rows = [one for one in first + second if one.key == key]
            assert Fraction(sums.get_spend(key)) == sum(Fraction(one.cost) for one in rows)
            later = [one for one in rows if parse_iso(one.at) >= cut]
            assert Fraction(sums.get_spend(key, cut)) == sum(Fraction(one.cost) for one in later)
        by_key = await list_rows(ledger, "key", "0000", "9999")
        assert sum(line.requests for line in by_key) == len(first + second)
        await ledger.close()


def _make_files_older(layout: Layout) -> None:
    for path in Path(layout.ledger).glob("*.jsonl"):
        os.utime(path, (0, 0))


def _damage_reports(layout: Layout) -> None:
    for place, path in enumerate(sorted(Path(layout.ledger_reports).iterdir())):
        if place % 2:
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-9])


@pytest.mark.parametrize("midnight", [False, True])
async def test_sums_hold_exactly_what_was_recorded_when_they_are_reported(layout, clock, midnight):
    ledger, _ = await reopen(layout, clock)
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
            await ledger.add_record(build_record(number * 8 + worker, format_time(day), cost=cost))
            if midnight and number == 20:
                clock.move(
                    parse_iso(format_time(NEXT)).timestamp() - parse_iso(clock.now()).timestamp()
                )

    counts = 0
    tasks = [asyncio.create_task(call(worker)) for worker in range(8)]
    while not all(task.done() for task in tasks):
        assert (await ledger.count_spend([BEGIN])).get_spend("abcdefghijkl") == spent
        counts += 1
    await asyncio.gather(*tasks)
    await ledger.close()
    _, sums = await reopen(layout, clock, BEGIN)
    assert sums.get_spend("abcdefghijkl") == sums.get_spend("abcdefghijkl", BEGIN) == spent


async def test_sums_are_reported_though_requests_are_added_to_closed_days_all_the_while(
    layout, clock, monkeypatch
):
    cuts = [BEGIN, BEGIN + timedelta(days=1)]
    await run_once(
        layout, clock, [build_record(1, format_time(DAY)), build_record(2, format_time(NEXT))]
    )
    clock.move(2 * 86400)
    await run_once(layout, clock, [], *cuts)
    days, looks = DailyReports(layout, lambda: clock.now()[:10]), 0

    def add(day):
        with get_path(layout, day).open("ab") as file:
            file.write(encode_checksummed(build_record(3, f"{day}T23:00:00.000Z")))

    def get_and_add(day):
        nonlocal looks
        looks += 1
        assert looks < 100, "who adds faster than is counted keeps the count from its end"
        if day > NEXT:
            return DailyReports.get_day(days, day)
        add(day)
        found = DailyReports.get_day(days, day)
        add(day)
        return found

    monkeypatch.setattr(days, "get_day", get_and_add)
    for _ in range(3):
        add(DAY)
        sums, sizes = days.count_spend(cuts)
        one, other = (
            get_path(layout, day).read_bytes()[: sizes[day]].count(b"\n") for day in (DAY, NEXT)
        )
        spent = [sums.get_spend("abcdefghijkl", *since) for since in ((), cuts[:1], cuts[1:])]
        assert spent == [(one + other) / 4, (one + other) / 4, other / 4]


@pytest.mark.parametrize("gone", ["unreadable", "removed"])
async def test_a_stop_ends_in_order_though_the_folder_cannot_be_read(layout, clock, caplog, gone):
    before = set(threading.enumerate())
    ledger, _ = await reopen(layout, clock)
    await ledger.add_record(build_record())
    if gone == "unreadable":
        shutil.rmtree(layout.ledger)
        os.symlink(layout.ledger, layout.ledger)  # ELOOP, also to root
    else:
        shutil.rmtree(os.path.dirname(layout.ledger))
    await ledger.close()
    threads = set(threading.enumerate()) - before
    assert not [one.name for one in threads if one.name.startswith("ledger")]
    if gone == "unreadable":
        assert "reports were not saved" in caplog.text


async def test_a_closed_day_is_added_up_once(layout, clock, monkeypatch):
    await run_once(layout, clock, [build_record(n, format_time(DAY)) for n in range(5)])
    clock.move(3 * 86400)
    await run_once(layout, clock, [])
    read = []
    real = daily_reports.read_records
    monkeypatch.setattr(
        daily_reports, "read_records", lambda *args: read.append(args[0]) or real(*args)
    )
    ledger, sums = await reopen(layout, clock)
    (line,) = await list_rows(ledger, "model", DAY, DAY)
    assert line.requests == 5
    assert sums.get_spend("abcdefghijkl") == Decimal("1.25")
    await ledger.close()
    assert str(get_path(layout)) not in read


async def test_a_start_reads_only_the_present_days_lines_behind_what_was_kept(
    layout, clock, monkeypatch
):
    await run_once(layout, clock, [build_record(n, format_time(DAY)) for n in range(5)])
    with get_path(layout).open("ab") as file:  # as after a kill
        file.write(encode_checksummed(build_record(6, format_time(DAY))))
    real, begun = daily_reports.read_records, []

    def record_and_read(path, standing, upto=None):
        begun.append(standing.lines)
        return real(path, standing, upto)

    monkeypatch.setattr(daily_reports, "read_records", record_and_read)
    ledger, sums = await reopen(layout, clock)
    assert begun == [5]
    assert sums.get_spend("abcdefghijkl") == Decimal("1.5")
    await ledger.close()


async def test_a_report_of_another_file_is_not_believed(layout, clock):
    await run_once(layout, clock, [build_record(1, format_time(DAY), cost=Decimal(1))])
    shutil.copy(layout.get_ledger_report_path(DAY), layout.get_ledger_report_path(DAY) + ".kept")
    get_path(layout).unlink()
    Path(layout.get_ledger_report_path(DAY)).unlink()
    await run_once(layout, clock, [build_record(2, format_time(DAY), cost=Decimal(7))])
    shutil.move(layout.get_ledger_report_path(DAY) + ".kept", layout.get_ledger_report_path(DAY))
    clock.move(86400)
    ledger, sums = await reopen(layout, clock)
    assert sums.get_spend("abcdefghijkl") == Decimal(7)
    await ledger.close()


@pytest.mark.parametrize("part", ["key", "model/packed", "cells"])
async def test_a_damaged_part_of_a_report_is_rebuilt(layout, clock, part):
    await run_once(layout, clock, [build_record(n, format_time(DAY)) for n in range(3)])
    clock.move(86400)
    await run_once(layout, clock, [])
    Path(layout.ledger_balance).unlink()
    head = DayReportFile(layout, DAY)
    begin = head._parts._head + head.head.parts[part].at
    for _ in range(2):
        overwrite(layout.get_ledger_report_path(DAY), begin + 20, b"#")
        ledger, sums = await reopen(layout, clock)
        assert sums.get_spend("abcdefghijkl") == Decimal("0.75")
        (line,) = await list_rows(ledger, "model", DAY, DAY)
        (same,) = await list_rows(ledger, "model", DAY, DAY, ReportFilter(key="abcdefghijkl"))
        assert line == same
        assert line.requests == 3
        await ledger.close()
    overwrite(layout.get_ledger_report_path(DAY), begin + 20, b"#")
    get_path(layout).unlink()
    ledger, sums = await reopen(layout, clock)
    with pytest.raises(Unavailable, match="is damaged"):
        await list_rows(ledger, "model", DAY, DAY)
        await list_rows(ledger, "model", DAY, DAY, ReportFilter(key="abcdefghijkl"))
        await ledger.count_spend([BEGIN])
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
async def test_a_line_that_shows_what_cannot_be_counts_nowhere(layout, clock, wrong):
    await run_once(layout, clock, [build_record(1, format_time(DAY))])
    with get_path(layout).open("ab") as file:
        file.write(
            encode_checksummed(build_record(2, format_time(DAY), **wrong))
            + encode_checksummed(build_record(3, format_time(DAY)))
        )
    ledger, sums = await reopen(layout, clock)
    assert sums.get_spend("abcdefghijkl") == Decimal("0.5")
    assert (await ledger.get_totals("model", DAY, DAY)).total.requests == 2
    assert [one.lines for one in (await ledger.get_overview()).corrupt_days] == [1]
    await ledger.close()


async def test_a_start_reads_no_report_of_the_days_before_while_nothing_changed(
    layout, clock, monkeypatch
):
    cuts = [BEGIN + timedelta(hours=hours) for hours in (0, 5, 30)]
    entries = [build_record(n, format_time(day)) for n, day in enumerate((DAY, NEXT, "2026-01-03"))]
    await run_once(layout, clock, entries)
    clock.move(10 * 86400)
    before = await run_once(layout, clock, [], *cuts)
    read = []
    monkeypatch.setattr(daily_reports, "DayReportFile", lambda _, day: read.append(day))
    sums = await run_once(layout, clock, [], *cuts)
    assert sorted(sums.iter_rows()) == sorted(before.iter_rows())
    assert set(read) <= {clock.now()[:10]}


async def test_a_report_narrowed_to_a_key_is_the_same_of_a_closed_and_a_present_day(layout, clock):
    entries = [
        build_record(n, format_time(DAY), key=n % 3 * "b" + "k", cost=Decimal(n)) for n in range(12)
    ]
    ledger, _ = await reopen(layout, clock)
    await asyncio.gather(*map(ledger.add_record, entries))
    present = await list_rows(ledger, "model", DAY, DAY, ReportFilter(key="bk"))
    await ledger.close()
    clock.move(86400)
    again, _ = await reopen(layout, clock)
    assert await list_rows(again, "model", DAY, DAY, ReportFilter(key="bk")) == present
    assert present[0].cost == 1 + 4 + 7 + 10
    await again.close()


async def test_what_somebody_else_needs_does_not_go(layout, clock):
    await run_once(
        layout, clock, [build_record(1, format_time(DAY)), build_record(2, format_time(NEXT))]
    )
    clock.move(100 * 86400)
    ledger, _ = await reopen(layout, clock)
    assert await ledger.delete_old(30, clock.now()[:10], DAY) == []
    assert await ledger.delete_old(30, clock.now()[:10], NEXT) == [DAY]
    assert await ledger.delete_old(30, clock.now()[:10], LATER) == [NEXT]
    await ledger.close()


async def test_old_requests_go_and_what_they_add_up_to_stays(layout, clock):
    await run_once(
        layout, clock, [build_record(1, format_time(DAY)), build_record(2, format_time(NEXT))]
    )
    clock.move(31 * 86400)
    torn = [Path(f"{get_path(layout, day)}.torn-1") for day in (DAY, NEXT)]
    for path in torn:
        path.write_bytes(b"{")
    ledger, before = await reopen(layout, clock)
    days = await list_rows(ledger, "day", DAY, NEXT)
    assert await ledger.delete_old(30, clock.now()[:10]) == [DAY]
    assert not get_path(layout).exists()
    assert get_path(layout, NEXT).exists()
    assert [path.exists() for path in torn] == [False, True]
    assert await list_rows(ledger, "day", DAY, NEXT) == days
    await ledger.close()
    clock.move(100 * 86400)
    for _ in range(2):
        again, sums = await reopen(layout, clock)
        assert sums.get_spend("abcdefghijkl") == before.get_spend("abcdefghijkl") == Decimal("0.5")
        assert await list_rows(again, "day", DAY, NEXT) == days
        await again.close()


async def test_a_day_that_goes_while_its_file_is_open_still_counts(layout, clock):
    ledger, _ = await reopen(layout, clock)
    for number in range(3):
        await ledger.add_record(build_record(number, clock.now()))
        clock.move(86400)
    assert await ledger.delete_old(1, clock.now()[:10]) == [DAY, NEXT]
    spent = await ledger.count_spend()
    assert spent.get_spend("abcdefghijkl") == Decimal("0.75")
    by_model = await ledger.count_model_spend({"abcdefghijkl": DAY})
    assert by_model.get_spend("abcdefghijkl/large") == Decimal("0.75")
    await ledger.close()


async def test_a_window_that_begins_within_a_closed_day_counts_its_first_quarter_once(
    layout, clock
):
    times = [f"{DAY}T09:59:59.000Z", f"{DAY}T10:00:00.000Z"]
    await run_once(layout, clock, [build_record(n, at) for n, at in enumerate(times)])
    clock.move(2 * 86400)
    begin = parse_iso(times[1])
    for _ in range(2):  # the second time from the snapshot
        ledger, sums = await reopen(layout, clock, begin)
        assert sums.get_spend("abcdefghijkl") == Decimal("0.5")
        assert sums.get_spend("abcdefghijkl", begin) == Decimal("0.25")
        await ledger.close()


async def test_what_keys_spend_on_models_is_counted_from_the_first_day_of_each(layout, clock):
    ledger = Ledger(layout, clock)
    ledger.zone = ZoneInfo("Asia/Kathmandu")  # its hours begin at 15 minutes past
    await ledger.open()
    for number, (key, day) in enumerate([("a", DAY), ("b", DAY), ("b", NEXT)]):
        await ledger.add_record(build_record(number, f"{day}T10:45:00.000Z", key=key))
    found = await ledger.count_model_spend({"a": DAY, "b": NEXT})
    assert [found.get_spend(f"{key}/large") for key in "ab"] == [Decimal("0.25")] * 2
    moments = (parse_iso(f"{DAY}T10:{minute}:00.000Z") for minute in (45, 46))
    assert [found.get_spend("a/large", one) for one in moments] == [Decimal("0.25"), 0]
    await ledger.close()


@pytest.mark.parametrize("has_report", [True, False])
async def test_requests_stay_while_what_they_add_up_to_cannot_be_written(
    layout, clock, monkeypatch, has_report
):
    await run_once(layout, clock, [build_record(1, format_time(DAY))])
    if has_report:  # of fewer requests
        with get_path(layout).open("ab") as file:
            file.write(encode_checksummed(build_record(2, format_time(DAY))))
    else:
        Path(layout.get_ledger_report_path(DAY)).unlink()
    clock.move(300 * 86400)
    ledger = Ledger(layout, clock)

    def raise_disk_full(*_):
        raise Unavailable("disk full")

    monkeypatch.setattr(daily_reports, "write_report", raise_disk_full)
    await ledger.open()
    with pytest.raises(Unavailable, match="are kept"):
        await ledger.delete_old(90, clock.now()[:10])
    assert get_path(layout).exists()
    await ledger.close()


async def test_a_late_request_counts_though_the_report_of_its_day_cannot_be_written(
    layout, clock, monkeypatch
):
    await run_once(layout, clock, [build_record(1, format_time(DAY))])
    clock.move(86400)

    def raise_disk_full(*_):
        raise Unavailable("disk full")

    ledger, _ = await reopen(layout, clock)
    with monkeypatch.context() as patch:
        patch.setattr(daily_reports, "write_report", raise_disk_full)
        await ledger.add_record(build_record(2, format_time(DAY)))
        for _ in range(2):
            assert (await list_rows(ledger, "total", DAY, DAY))[0].requests == 2
    assert (await list_rows(ledger, "total", DAY, DAY))[0].requests == 2
    await ledger.close()
    ledger, sums = await reopen(layout, clock)
    assert sums.get_spend("abcdefghijkl") == Decimal("0.5")
    await ledger.close()


async def test_what_is_recorded_is_added_up_while_nobody_asks(layout, clock, monkeypatch):
    monkeypatch.setattr(daily_reports, "MAX_UNSAVED_LINES", 500)
    ledger, _ = await reopen(layout, clock)
    await asyncio.gather(*(ledger.add_record(build_record(n)) for n in range(1000)))
    await until(lambda: Path(layout.get_ledger_report_path(DAY)).exists())
    await ledger.close()


# Pages.


async def test_pages_show_every_request_once_the_newest_first(layout, clock):
    entries = [build_record(n, format_time(DAY if n < 30 else NEXT)) for n in range(70)]
    ledger, _ = await reopen(layout, clock)
    for one in entries:
        await ledger.add_record(one)
    found, cursor = [], ""
    while True:
        page = await ledger.read_page(RequestFilter(), 7, cursor)
        found += [one.id for one in page.records]
        await ledger.add_record(build_record(1000 + len(found), format_time(NEXT)))
        cursor = page.next
        if not cursor:
            break
    assert found == [f"r-{n}" for n in reversed(range(70))]
    await ledger.close()


async def test_a_page_of_what_is_rare_stops_looking_and_goes_on(layout, ledger, monkeypatch):
    for n in range(50):
        await ledger.add_record(build_record(n, model="rare" if n == 3 else "large"))
    monkeypatch.setattr(ledger_page, "MAX_SCANNED_BYTES", 3000)
    found, cursor, pages = [], "", 0
    while pages == 0 or cursor:
        page = await ledger.read_page(RequestFilter(model="rare"), 10, cursor)
        found += [one.id for one in page.records]
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
def test_pages_of_what_is_wanted_show_each_once_however_short_they_are(models, wanted, limit, look):
    entries = [
        build_record(n, format_time(DAY if n < 10 else NEXT), model=one)
        for n, one in enumerate(models)
    ]
    wanted = RequestFilter(**wanted)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        layout = Layout(folder, folder)
        os.makedirs(layout.ledger)
        for one in entries:
            with open(layout.get_ledger_day_path(one.at[:10]), "ab") as file:
                file.write(encode_checksummed(one))
        patch.setattr(ledger_page, "MAX_SCANNED_BYTES", look)
        patch.setattr(day_file, "_CHUNK", 80)
        found, cursor = [], ""
        while True:
            page = ledger_page.read_page(layout, wanted, limit, cursor)
            found += page.records
            assert len(page.records) <= limit
            assert page.next != cursor or not cursor
            cursor = page.next
            if not cursor:
                break
    assert found == [one for one in reversed(entries) if wanted.matches(one)]


async def test_a_page_of_a_day_opens_no_other_days_file(layout, ledger, monkeypatch):
    for n, day in enumerate((DAY, NEXT, "2026-01-03")):
        await ledger.add_record(build_record(n, format_time(day)))
    opened = []
    real = os.open
    monkeypatch.setattr(
        ledger_page.os,
        "open",
        lambda path, *more, **kw: opened.append(path) or real(path, *more, **kw),
    )
    page = await ledger.read_page(
        RequestFilter(since=format_time(NEXT), until="2026-01-02T23:59:59.999Z")
    )
    monkeypatch.undo()
    assert [one.id for one in page.records] == ["r-1"]
    assert [path for path in opened if str(path).endswith("jsonl")] == [str(get_path(layout, NEXT))]


@pytest.mark.parametrize("cursor", ["x", "2026-01-01", "2026-01-01.-1", "2026-01-01.1;"])
async def test_what_is_no_cursor_is_refused(ledger, cursor):
    with pytest.raises(BadRequest):
        await ledger.read_page(RequestFilter(), cursor=cursor)


# Pricing anew.

PRICES = Prices(input=Decimal(1000), output=Decimal(0))
"""A tenth of a cent for each token that goes in."""


def get_new_prices(entry):
    return PRICES, "v2"


async def test_repricing_changes_every_sum_and_keeps_the_first_cost(layout, clock):
    entries = [
        build_record(n, format_time(DAY if n < 3 else NEXT), usage=Usage(input=n))
        for n in range(1, 6)
    ]
    ledger, _ = await reopen(layout, clock)
    await asyncio.gather(*map(ledger.add_record, entries))
    assert (await list_rows(ledger, "total", DAY, NEXT))[0].cost == Decimal("1.25")
    dry = await ledger.reprice(DAY, NEXT, get_new_prices, dry_run=True)
    assert (dry.requests, dry.changed) == (5, 5)
    assert (dry.before, dry.after) == (Decimal("1.25"), Decimal("0.015"))
    assert (await list_rows(ledger, "total", DAY, NEXT))[0].cost == Decimal("1.25")
    assert await ledger.reprice(DAY, NEXT, get_new_prices) == dry
    assert (await list_rows(ledger, "total", DAY, NEXT))[0].cost == Decimal("0.015")
    assert (await ledger.count_spend()).get_spend("abcdefghijkl") == Decimal("0.015")
    (newest, *_) = (await ledger.read_page(RequestFilter())).records
    assert (newest.cost, newest.was, newest.priced) == (Decimal("0.005"), Decimal("0.25"), "v2")
    await ledger.add_record(build_record(6, format_time(NEXT), usage=Usage(input=6)))
    again = await ledger.reprice(NEXT, NEXT, get_new_prices)
    assert (again.requests, again.changed) == (4, 1)
    assert read_ids(layout, NEXT) == ["r-3", "r-4", "r-5", "r-6"]
    files = sorted(os.listdir(layout.ledger))
    assert (await ledger.reprice(NEXT, NEXT, get_new_prices)).changed == 0
    assert sorted(os.listdir(layout.ledger)) == files, "no copy is left of what did not change"
    await ledger.close()
    ledger, sums = await reopen(layout, clock)
    assert sums.get_spend("abcdefghijkl") == Decimal("0.021")
    await ledger.close()


async def test_requests_that_are_recorded_while_a_day_is_repriced_are_priced_too(layout, ledger):
    await ledger.add_record(build_record(1))

    def add_late_record(first):
        for number in (2, 3) if first.id == "r-1" else ():
            asyncio.run_coroutine_threadsafe(ledger.add_record(build_record(number)), loop).result(
                100
            )
        return PRICES, "v2"

    loop = asyncio.get_running_loop()
    difference = await ledger.reprice(DAY, DAY, add_late_record)
    assert difference.requests == 3
    await ledger.add_record(build_record(4))
    assert read_ids(layout) == [f"r-{n}" for n in (1, 2, 3, 4)]
    assert {
        one.priced for one in read_records(layout.get_ledger_day_path(DAY), ReadPosition())
    } == {
        "v2",
        "",
    }


async def test_a_day_that_is_to_go_while_it_is_repriced_goes_with_its_new_price(layout, clock):
    ledger, _ = await reopen(layout, clock)
    await ledger.add_record(build_record(1, usage=Usage(input=1)))
    clock.move(31 * 86400)
    deleting: list[asyncio.Task[list[str]]] = []

    async def begin_to_delete():
        deleting.append(asyncio.create_task(ledger.delete_old(30, clock.now()[:10])))
        await ledger.get_totals("day", DAY, DAY)  # by the thread that deletes, after it

    def find_prices_late(entry):
        asyncio.run_coroutine_threadsafe(begin_to_delete(), loop).result(100)
        return get_new_prices(entry)

    loop = asyncio.get_running_loop()
    assert (await ledger.reprice(DAY, DAY, find_prices_late)).changed == 1
    assert await deleting[0] == [DAY]
    assert (await list_rows(ledger, "total", DAY, DAY))[0].cost == Decimal("0.001")
    await ledger.close()


async def test_a_crash_or_a_full_disk_while_repricing_leaves_the_old_day(
    layout, clock, monkeypatch
):
    ledger, _ = await reopen(layout, clock)
    await ledger.add_record(build_record(1))
    before = get_path(layout).read_bytes()

    def raise_disk_full(*_):
        raise OSError(errno.ENOSPC, "")

    left = Path(layout.ledger, ".tmp-2026-01-01")
    for failing in ("fsync", "rename"):
        with monkeypatch.context() as patch:
            patch.setattr(reprice.os, failing, raise_disk_full)
            with pytest.raises(Unavailable, match="disk full"):
                await ledger.reprice(DAY, DAY, get_new_prices)
        assert get_path(layout).read_bytes() == before
        assert not left.exists()
    await ledger.add_record(build_record(2))
    await ledger.close()
    left.write_bytes(b"half")  # as a crash leaves it
    ledger, sums = await reopen(layout, clock)
    assert not left.exists()
    assert sums.get_spend("abcdefghijkl") == Decimal("0.5")
    await ledger.close()


async def test_damaged_lines_unknown_prices_and_unused_requests_stay_as_they_are(layout, clock):
    entries = [
        build_record(1),
        build_record(2, cost=Decimal(2)),
        build_record(3, model="?"),
        build_record(4, usage=NO_USAGE),
    ]
    await run_once(layout, clock, entries)
    damaged = get_path(layout).read_bytes().replace(b'"cost":"2"', b'"cost":"3"')
    get_path(layout).write_bytes(damaged)
    ledger, _ = await reopen(layout, clock)
    difference = await ledger.reprice(
        DAY, DAY, lambda one: (None, "") if one.model == "?" else (PRICES, "v2")
    )
    assert (difference.requests, difference.changed, difference.unpriced) == (2, 1, 1)
    lines = get_path(layout).read_bytes().splitlines()
    assert lines[1:] == damaged.splitlines()[1:]
    await ledger.close()


async def test_what_is_priced_with_an_assumed_rate_is_marked_and_the_first_price_comes_back(
    layout, ledger
):
    await ledger.add_record(build_record(1, usage=Usage(cache_read=1), cost=Decimal("0.25")))
    await ledger.reprice(DAY, DAY, get_new_prices)
    (one,) = (await ledger.read_page(RequestFilter())).records
    assert (one.estimated, one.was) == (True, Decimal("0.25"))
    first = Prices(input=Decimal(250_000), output=Decimal(0))
    await ledger.reprice(DAY, DAY, lambda _: (first, "v3"))
    (one,) = (await ledger.read_page(RequestFilter())).records
    assert (one.cost, one.was, one.priced) == (Decimal("0.25"), None, "v3")


async def test_a_cursor_from_before_the_pricing_is_refused(layout, ledger):
    for n in range(5):
        await ledger.add_record(build_record(n))
    cursor = (await ledger.read_page(RequestFilter(), 2)).next
    await ledger.reprice(DAY, DAY, get_new_prices)
    with pytest.raises(BadRequest, match="repriced"):
        await ledger.read_page(RequestFilter(), 2, cursor)


async def test_a_day_is_listed_though_its_folder_seems_unchanged(layout, monkeypatch):
    """Two changes of a folder within a moment may bear the same time."""
    reports = DailyReports(layout, lambda: LATER)
    folder = Path(layout.ledger)
    prepare_folders(layout)
    get_path(layout).touch()
    changed = folder.stat().st_mtime_ns
    monkeypatch.setattr(time, "time_ns", lambda: changed + 999_999_999)
    assert reports.list_days() == [DAY]
    get_path(layout, NEXT).touch()
    os.utime(folder, ns=(changed, changed))
    assert reports.list_days() == [DAY, NEXT]


async def test_the_requests_of_today_are_never_deleted(layout, clock):
    ledger, _ = await reopen(layout, clock)
    await ledger.add_record(build_record(1))
    assert await ledger.delete_old(1, LATER) == []  # whatever the day is taken for
    assert read_ids(layout) == ["r-1"]
    await ledger.close()


@pytest.mark.parametrize("in_place", [True, False])
async def test_a_file_of_today_that_somebody_replaces_is_counted_again(layout, clock, in_place):
    ledger, _ = await reopen(layout, clock)
    for number in (1, 2):
        await ledger.add_record(build_record(number))
    assert (await list_rows(ledger, "total", DAY, DAY))[0].cost == Decimal("0.5")
    path = get_path(layout)
    if in_place:  # the same file, with fewer requests
        path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
        expected = Decimal("0.25")
    else:  # another file of the same size
        dear = [build_record(number, cost=Decimal("0.75")) for number in (1, 2)]
        other = path.with_suffix(".new")
        other.write_bytes(b"".join(map(encode_checksummed, dear)))
        assert other.stat().st_size == path.stat().st_size
        other.rename(path)
        expected = Decimal("1.5")
    assert (await list_rows(ledger, "total", DAY, DAY))[0].cost == expected
    await ledger.close()


def test_a_day_without_requests_is_no_file_that_was_replaced(layout, clock, caplog):
    days, path = DailyReports(layout, lambda: clock.now()[:10]), get_path(layout, DAY)
    path.parent.mkdir(parents=True)

    def count():
        return days.get_day(DAY).total.totals.requests

    assert [count(), count()] == [0, 0]
    path.write_bytes(encode_checksummed(build_record(1, format_time(DAY))))
    assert count() == 1
    assert not caplog.messages
    path.unlink()
    assert [count(), count()] == [0, 0]
    assert caplog.messages == [f"{path} was replaced; it is read again"]
