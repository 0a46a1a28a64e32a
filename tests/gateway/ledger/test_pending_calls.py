"""A call that is marked is booked once: by whoever made it, or else by the next start."""

import asyncio
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.core.clock import FrozenClock, Timestamp
from agentd.core.errors import Unavailable
from agentd.gateway.ledger import pending_calls
from agentd.gateway.ledger.day_file import decode_record as read_entry
from agentd.gateway.ledger.day_file import iter_lines, list_days
from agentd.gateway.ledger.ledger import Ledger
from agentd.gateway.ledger.pending_calls import record_interrupted_calls
from agentd.gateway.ledger.record import CRASH, PendingCall, RequestRecord
from agentd.llm.price import Usage
from agentd.storage.checksummed_json import encode_checksummed
from agentd.storage.layout import Layout
from tests.gateway.ledger.entries import build_record
from tests.support.examples import limit_examples

pytestmark = pytest.mark.gen_test

DAY = "2026-01-01"
NOW = f"{DAY}T12:00:00.000Z"
KEY = "abcdefghijkl"
MOST = Decimal("0.75")
RESERVED = Usage(cache_write=300, output=100)

both_ways = pytest.mark.parametrize("sync", [False, True])


def build_pending_call(number: int, at: Timestamp = NOW, cost: Decimal = MOST) -> PendingCall:
    """Build a call whose supplier is about to be asked."""
    return PendingCall(
        begun=at, id=f"r-{number}", key=KEY, endpoint="/v1/messages", usage=RESERVED, cost=cost
    )


def build_former_mark(number: int) -> RequestRecord:
    """Build a mark as an earlier agentd wrote it."""
    return build_record(number, NOW, cost=MOST, outcome="broken", error=CRASH, estimated=True)


def read_costs(layout: Layout) -> list[tuple[str, Decimal]]:
    """Read the ids and costs of all days."""
    found = (iter_lines(layout.get_ledger_day_path(day)) for day in list_days(layout.ledger))
    return [(one.id, one.cost) for lines in found for one in map(read_entry, lines)]


def list_mark_files(layout: Layout) -> list[str]:
    """List the files of marks."""
    return sorted(name for name in os.listdir(layout.ledger) if name.startswith("begun"))


async def crash_ledger(layout: Layout, *numbers: int, sync: bool = False, ended: int = 0) -> None:
    """Mark these calls, record the first of them, and die."""
    ledger = Ledger(layout, FrozenClock(NOW), sync=sync)
    await ledger.open()
    for number in numbers:
        await ledger.mark_pending(build_pending_call(number))
    for number in numbers[:ended]:
        await ledger.add_record(build_record(number, NOW))
    assert ledger._writer
    await ledger._writer.close()  # as the kernel does: nothing that was written is lost


async def restart_ledger(layout: Layout, now: Timestamp = NOW) -> tuple[int, Decimal]:
    """Start and stop: return how many calls were cut off, and the key's spend."""
    ledger = Ledger(layout, FrozenClock(now))
    sums = await ledger.open()
    await ledger.close()
    return ledger.interrupted_calls, sums.get_spend(KEY)


@both_ways
async def test_what_a_crash_cut_off_is_recorded_at_the_next_start_and_only_there(layout, sync):
    await crash_ledger(layout, 1, 2, 3, sync=sync, ended=1)
    assert await restart_ledger(layout) == (2, 2 * MOST + Decimal("0.25"))
    assert await restart_ledger(layout) == (0, 2 * MOST + Decimal("0.25"))
    assert dict(read_costs(layout)) == {"r-1": Decimal("0.25"), "r-2": MOST, "r-3": MOST}
    assert len(read_costs(layout)) == 3
    assert not list_mark_files(layout)


async def test_what_is_recorded_of_a_mark_shows_all_that_was_known_by_then(layout):
    made = PendingCall(
        begun=NOW, id="r-1", key=KEY, key_name="laptop", endpoint="/v1/messages", model="large",
        channel="one", supplier_model="large-2", fallback="small", tier="priority", tries=2,
        stream=True, usage=RESERVED, cost=MOST, priced="0123456789ab", received=900,
        hidden={"aws": 2},
    )  # fmt: skip
    ledger = Ledger(layout, FrozenClock(NOW))
    await ledger.open()
    await ledger.mark_pending(made)
    assert ledger._writer
    await ledger._writer.close()
    await restart_ledger(layout)
    [line] = iter_lines(layout.get_ledger_day_path(DAY))
    assert read_entry(line) == RequestRecord(
        id="r-1", at=NOW, key=KEY, key_name="laptop", endpoint="/v1/messages", model="large",
        channel="one", supplier_model="large-2", fallback="small", tier="priority", tries=2,
        stream=True, status=500, outcome="broken", error=CRASH, usage=RESERVED, cost=MOST,
        priced="0123456789ab", estimated=True, received=900, hidden={"aws": 2},
    )  # fmt: skip


async def test_marks_that_an_earlier_agentd_wrote_are_recorded_too(layout):
    await crash_ledger(layout, 1)
    lines = (
        encode_checksummed(build_former_mark(2))
        + encode_checksummed(build_former_mark(3))
        + encode_checksummed(build_record(3, NOW))
    )
    Path(layout.ledger, "begun-7.jsonl").write_bytes(lines)
    assert await restart_ledger(layout) == (2, 2 * MOST + Decimal("0.25"))


@pytest.mark.parametrize("cost", [Decimal(-1), Decimal("NaN"), Decimal("1e30")])
async def test_a_mark_with_an_impossible_cost_is_passed_over(layout, cost):
    await crash_ledger(layout, 1)
    path = Path(layout.ledger, list_mark_files(layout)[0])
    path.write_bytes(path.read_bytes() + encode_checksummed(build_pending_call(2, cost=cost)))
    assert await restart_ledger(layout) == (1, MOST)


def test_a_mark_is_shorter_than_the_entry_that_is_recorded_of_it():
    assert len(encode_checksummed(build_pending_call(1))) < len(
        encode_checksummed(build_pending_call(1).to_record())
    )


@both_ways
async def test_a_start_that_is_killed_itself_records_nothing_twice(layout, sync, monkeypatch):
    await crash_ledger(layout, 1, 2, 3, sync=sync, ended=1)
    with monkeypatch.context() as patch:
        patch.setattr(pending_calls.os, "unlink", _raise_interrupt)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                record_interrupted_calls(layout, NOW)
    assert await restart_ledger(layout) == (0, 2 * MOST + Decimal("0.25"))
    assert len(read_costs(layout)) == 3


def _raise_interrupt(_: str) -> None:
    raise KeyboardInterrupt


async def test_a_mark_counts_nowhere_while_its_call_is_under_way(layout):
    ledger = Ledger(layout, FrozenClock(NOW))
    await ledger.open()
    for number in range(3):
        await ledger.mark_pending(build_pending_call(number))
    assert (await ledger.count_spend()).get_spend(KEY) == 0
    await ledger.add_record(build_record(1, NOW))
    assert (await ledger.count_spend()).get_spend(KEY) == Decimal("0.25")
    assert not (await ledger.get_overview()).corrupt_days
    assert (await ledger.get_totals("total", DAY, DAY)).total.requests == 1
    await ledger.close()


@both_ways
async def test_files_of_marks_go_when_their_calls_are_recorded(layout, sync, monkeypatch):
    monkeypatch.setattr(pending_calls, "CALLS_PER_FILE", 3)
    ledger = Ledger(layout, FrozenClock(NOW), sync=sync)
    await ledger.open()
    await ledger.mark_pending(build_pending_call(0))  # goes on while all others come and go
    for number in range(1, 30):
        await ledger.mark_pending(build_pending_call(number))
        await ledger.add_record(build_record(number, NOW))
    await ledger.close()
    assert "begun-1.jsonl" in list_mark_files(layout)
    assert len(list_mark_files(layout)) <= 2
    assert await restart_ledger(layout) == (1, MOST + 29 * Decimal("0.25"))


@both_ways
async def test_a_mark_is_synced_soon_though_no_call_waits_for_that(layout, sync, monkeypatch):
    asked, let = Event(), Event()
    fdatasync = os.fdatasync

    def held(fd: int) -> None:
        asked.set()
        assert let.wait(60)
        fdatasync(fd)

    ledger = Ledger(layout, FrozenClock(NOW), sync=sync)
    await ledger.open()
    monkeypatch.setattr(os, "fdatasync", held)
    await ledger.mark_pending(build_pending_call(1))
    assert await asyncio.to_thread(asked.wait, 60)
    await ledger.mark_pending(build_pending_call(2))  # while the disk is busy
    let.set()
    await ledger.close()


async def test_nothing_is_left_of_a_life_that_ended_well(layout):
    ledger = Ledger(layout, FrozenClock(NOW))
    await ledger.open()
    await ledger.mark_pending(build_pending_call(1))
    assert list_mark_files(layout)
    await ledger.add_record(build_record(1, NOW))
    await ledger.close()
    assert not list_mark_files(layout)


@pytest.mark.parametrize("sync", [False, True])
async def test_a_caller_that_leaves_while_its_call_is_recorded_leaves_no_mark(layout, sync):
    ledger, heard = Ledger(layout, FrozenClock(NOW), sync=sync), list[RequestRecord]()
    await ledger.open()
    ledger.on_recorded.append(heard.append)
    await ledger.mark_pending(build_pending_call(1))
    leaving = asyncio.create_task(ledger.add_record(build_record(1, NOW)))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    assert leaving.cancelled()
    await ledger.close()
    assert [one.id for one in heard] == ["r-1"]
    assert list_mark_files(layout) == []
    assert [id_ for id_, _ in read_costs(layout)] == ["r-1"]


async def test_of_two_marks_of_one_call_the_last_counts(layout):
    ledger = Ledger(layout, FrozenClock(NOW))
    await ledger.open()
    await ledger.mark_pending(build_pending_call(1, cost=Decimal(5)))
    await ledger.mark_pending(build_pending_call(1))
    assert ledger._writer
    await ledger._writer.close()
    assert await restart_ledger(layout) == (1, MOST)


async def test_what_the_day_lost_in_a_power_cut_is_taken_from_beside_the_marks(layout):
    await crash_ledger(layout, 1, 2, sync=True, ended=2)
    path = Path(layout.get_ledger_day_path(DAY))
    path.write_bytes(path.read_bytes()[:-40])  # the day is synced later than the marks
    assert await restart_ledger(layout) == (0, 2 * Decimal("0.25"))
    assert sorted(read_costs(layout)) == [("r-1", Decimal("0.25")), ("r-2", Decimal("0.25"))]


async def test_a_torn_mark_was_never_acknowledged(layout):
    await crash_ledger(layout, 1, 2)
    path = Path(layout.ledger, list_mark_files(layout)[0])
    path.write_bytes(path.read_bytes()[:-5])
    assert await restart_ledger(layout) == (1, MOST)


async def test_a_call_of_an_earlier_day_is_recorded_on_that_day(layout):
    await crash_ledger(layout, 1, 2, ended=1)
    assert await restart_ledger(layout, "2026-01-09T08:00:00.000Z") == (1, MOST + Decimal("0.25"))
    assert list_days(layout.ledger) == [DAY]


async def test_a_day_of_which_only_the_sums_are_kept_stays_what_it_was(layout):
    await crash_ledger(layout, 1, 2, ended=1)
    ledger = Ledger(layout, FrozenClock("2026-01-09T08:00:00.000Z"))
    await ledger.open()
    await ledger.delete_old(1, "2026-01-09")
    await ledger.close()
    Path(layout.ledger, "begun-7.jsonl").write_bytes(
        encode_checksummed(build_record(1, NOW))
        + encode_checksummed(build_pending_call(2))
        + encode_checksummed(build_pending_call(3))
    )
    assert await restart_ledger(layout, "2026-01-10T08:00:00.000Z") == (
        2,
        MOST + Decimal("0.25") + 2 * MOST,
    )


async def test_what_cannot_be_recorded_at_a_start_waits_for_the_next(layout, monkeypatch):
    await crash_ledger(layout, 1)
    with monkeypatch.context() as patch:
        patch.setattr(pending_calls, "_append_records", _raise_disk_full)
        assert await restart_ledger(layout) == (0, 0)
    assert list_mark_files(layout) == ["begun-1.jsonl"]
    assert await restart_ledger(layout) == (1, MOST)


def _raise_disk_full(*_: object) -> None:
    raise Unavailable("disk full")


@settings(max_examples=limit_examples(40), deadline=None)
@given(
    calls=st.lists(st.sampled_from(["ended", "cut off", "refused"]), max_size=12),
    kills=st.integers(0, 3),
    sync=st.booleans(),
)
def test_each_call_is_there_once_however_many_starts_follow(calls, kills, sync):
    with TemporaryDirectory() as folder:
        layout = Layout(folder, folder)
        asyncio.run(_run_calls(layout, calls, sync=sync))
        for _ in range(kills):
            asyncio.run(restart_ledger(layout))
        asyncio.run(restart_ledger(layout))
        prices = {"ended": Decimal("0.25"), "cut off": MOST, "refused": Decimal(0)}
        result = [(f"r-{number}", prices[call]) for number, call in enumerate(calls)]
        assert sorted(read_costs(layout)) == sorted(result)


async def _run_calls(layout: Layout, calls: list[str], *, sync: bool) -> None:
    ledger = Ledger(layout, FrozenClock(NOW), sync=sync)
    await ledger.open()
    for number, call in enumerate(calls):
        if call != "refused":
            await ledger.mark_pending(build_pending_call(number))
    for number, call in _reorder(calls):
        if call != "cut off":
            price = Decimal("0.25") if call == "ended" else Decimal(0)
            await ledger.add_record(build_record(number, NOW, cost=price))
    assert ledger._writer
    await ledger._writer.close()


def _reorder(calls: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the calls in another order than that in which they began."""
    yield from sorted(enumerate(calls), key=lambda call: (call[0] % 3, call[0]))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=40))
@pytest.mark.parametrize("most", [1, 3])
def test_a_file_is_full_after_so_many_calls_and_goes_once_all_of_them_are_over(most, steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pending_calls, "CALLS_PER_FILE", most)
        pending, files, open_in, gone = pending_calls.PendingCalls(7), ["begun-7"], {}, []
        begun = 0
        for begins, call in steps:
            if begins:
                begun += 1
                open_in[call] = pending.begin(f"r-{call}")
                if open_in[call] not in files:
                    files.append(open_in[call])
            else:
                open_in.pop(call, None)
                pending.end(f"r-{call}")
            gone += pending.pop_finished()
            assert files == [f"begun-{7 + number}" for number in range(-(-max(begun, 1) // most))]
            assert sorted(gone) == sorted({*files[:-1]} - {*open_in.values()})
        gone += pending.pop_finished(closing=True)
        assert sorted(gone) == sorted({*files} - {*open_in.values()})
