"""A call that is marked is booked once: by whoever made it, or else by the next start."""

import asyncio
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.clock import FrozenClock, Timestamp
from agentd.disk import ledger_begun
from agentd.disk.layout import Layout
from agentd.disk.ledger import Ledger
from agentd.disk.ledger_begun import book_unfinished
from agentd.disk.ledger_file import days_in, lines_of
from agentd.disk.ledger_file import entry_in as read_entry
from agentd.disk.lines import seal
from agentd.errors import Unavailable
from agentd.proxy.entry import CRASH, Entry
from tests.proxy.entries import entry

pytestmark = pytest.mark.gen_test

DAY = "2026-01-01"
NOW = f"{DAY}T12:00:00.000Z"
KEY = "abcdefghijkl"
MOST = Decimal("0.75")

both_ways = pytest.mark.parametrize("sync", [False, True])


def mark(number: int, at: Timestamp = NOW) -> Entry:
    """What is booked of a call if nothing else is."""
    ended = {"outcome": "broken", "error": CRASH, "estimated": True}
    return entry(number, at, cost=MOST, **ended)


def booked(layout: Layout) -> list[tuple[str, Decimal]]:
    """All entries of all days."""
    found = (lines_of(layout.ledger_day(day)) for day in days_in(layout.ledger))
    return [(one.id, one.cost) for lines in found for one in map(read_entry, lines)]


def marks(layout: Layout) -> list[str]:
    """The files of marks."""
    return sorted(name for name in os.listdir(layout.ledger) if name.startswith("begun"))


async def crashed(layout: Layout, *numbers: int, sync: bool = False, ended: int = 0) -> None:
    """A life that marked these calls, and booked the first of them, when it was killed."""
    ledger = Ledger(layout, FrozenClock(NOW), sync=sync)
    await ledger.open()
    for number in numbers:
        await ledger.begin(mark(number))
    for number in numbers[:ended]:
        await ledger.book(entry(number, NOW))
    assert ledger._writer
    await ledger._writer.close()  # as the kernel does: nothing that was written is lost


async def started(layout: Layout, now: Timestamp = NOW) -> tuple[int, Decimal]:
    """A start and a stop: how many calls were cut off, and what the key has spent."""
    ledger = Ledger(layout, FrozenClock(now))
    sums = await ledger.open()
    await ledger.close()
    return ledger.unfinished, sums.spent(KEY)


@both_ways
async def test_what_a_crash_cut_off_is_booked_at_the_next_start_and_only_there(layout, sync):
    await crashed(layout, 1, 2, 3, sync=sync, ended=1)
    assert await started(layout) == (2, 2 * MOST + Decimal("0.25"))
    assert await started(layout) == (0, 2 * MOST + Decimal("0.25"))
    assert dict(booked(layout)) == {"r-1": Decimal("0.25"), "r-2": MOST, "r-3": MOST}
    assert len(booked(layout)) == 3
    assert not marks(layout)


@both_ways
async def test_a_start_that_is_killed_itself_books_nothing_twice(layout, sync, monkeypatch):
    await crashed(layout, 1, 2, 3, sync=sync, ended=1)
    with monkeypatch.context() as patch:
        patch.setattr(ledger_begun.os, "unlink", _killed)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                book_unfinished(layout, NOW)
    assert await started(layout) == (0, 2 * MOST + Decimal("0.25"))
    assert len(booked(layout)) == 3


def _killed(_: str) -> None:
    raise KeyboardInterrupt


async def test_a_mark_counts_nowhere_while_its_call_is_under_way(layout):
    ledger = Ledger(layout, FrozenClock(NOW))
    await ledger.open()
    for number in range(3):
        await ledger.begin(mark(number))
    assert (await ledger.sums()).spent(KEY) == 0
    await ledger.book(entry(1, NOW))
    assert (await ledger.sums()).spent(KEY) == Decimal("0.25")
    assert not await ledger.damaged()
    assert (await ledger.totals("total", DAY, DAY)).total.requests == 1
    await ledger.close()


@both_ways
async def test_files_of_marks_go_when_their_calls_are_booked(layout, sync, monkeypatch):
    monkeypatch.setattr(ledger_begun, "MARKS_PER_FILE", 3)
    ledger = Ledger(layout, FrozenClock(NOW), sync=sync)
    await ledger.open()
    await ledger.begin(mark(0))  # goes on while all others come and go
    for number in range(1, 30):
        await ledger.begin(mark(number))
        await ledger.book(entry(number, NOW))
    await ledger.close()
    assert "begun-1.jsonl" in marks(layout)
    assert len(marks(layout)) <= 2
    assert await started(layout) == (1, MOST + 29 * Decimal("0.25"))


async def test_nothing_is_left_of_a_life_that_ended_well(layout):
    ledger = Ledger(layout, FrozenClock(NOW))
    await ledger.open()
    await ledger.begin(mark(1))
    assert marks(layout)
    await ledger.book(entry(1, NOW))
    await ledger.close()
    assert not marks(layout)


async def test_of_two_marks_of_one_call_the_last_counts(layout):
    ledger = Ledger(layout, FrozenClock(NOW))
    await ledger.open()
    await ledger.begin(entry(1, NOW, cost=Decimal(5), error=CRASH))
    await ledger.begin(mark(1))
    assert ledger._writer
    await ledger._writer.close()
    assert await started(layout) == (1, MOST)


async def test_what_the_day_lost_in_a_power_cut_is_taken_from_beside_the_marks(layout):
    await crashed(layout, 1, 2, sync=True, ended=2)
    path = Path(layout.ledger_day(DAY))
    path.write_bytes(path.read_bytes()[:-40])  # the day is synced later than the marks
    assert await started(layout) == (0, 2 * Decimal("0.25"))
    assert sorted(booked(layout)) == [("r-1", Decimal("0.25")), ("r-2", Decimal("0.25"))]


async def test_a_torn_mark_was_never_acknowledged(layout):
    await crashed(layout, 1, 2)
    path = Path(layout.ledger, marks(layout)[0])
    path.write_bytes(path.read_bytes()[:-5])
    assert await started(layout) == (1, MOST)


async def test_a_call_of_an_earlier_day_is_booked_on_that_day(layout):
    await crashed(layout, 1, 2, ended=1)
    assert await started(layout, "2026-01-09T08:00:00.000Z") == (1, MOST + Decimal("0.25"))
    assert days_in(layout.ledger) == [DAY]


async def test_a_day_of_which_only_the_sums_are_kept_stays_what_it_was(layout):
    await crashed(layout, 1, 2, ended=1)
    ledger = Ledger(layout, FrozenClock("2026-01-09T08:00:00.000Z"))
    await ledger.open()
    await ledger.retain(1)
    await ledger.close()
    Path(layout.ledger, "begun-7.jsonl").write_bytes(
        seal(entry(1, NOW)) + seal(mark(2)) + seal(mark(3))
    )
    assert await started(layout, "2026-01-10T08:00:00.000Z") == (
        2,
        MOST + Decimal("0.25") + 2 * MOST,
    )


async def test_what_cannot_be_booked_at_a_start_waits_for_the_next(layout, monkeypatch):
    await crashed(layout, 1)
    with monkeypatch.context() as patch:
        patch.setattr(ledger_begun, "_append", _full)
        assert await started(layout) == (0, 0)
    assert marks(layout) == ["begun-1.jsonl"]
    assert await started(layout) == (1, MOST)


def _full(*_: object) -> None:
    raise Unavailable("disk full")


@settings(max_examples=40, deadline=None)
@given(
    calls=st.lists(st.sampled_from(["ended", "cut off", "refused"]), max_size=12),
    kills=st.integers(0, 3),
    sync=st.booleans(),
)
def test_each_call_is_there_once_however_many_starts_follow(calls, kills, sync):
    with TemporaryDirectory() as folder:
        layout = Layout(folder, folder)
        asyncio.run(_lived(layout, calls, sync=sync))
        for _ in range(kills):
            asyncio.run(started(layout))
        asyncio.run(started(layout))
        prices = {"ended": Decimal("0.25"), "cut off": MOST, "refused": Decimal(0)}
        told = [(f"r-{number}", prices[call]) for number, call in enumerate(calls)]
        assert sorted(booked(layout)) == sorted(told)


async def _lived(layout: Layout, calls: list[str], *, sync: bool) -> None:
    ledger = Ledger(layout, FrozenClock(NOW), sync=sync)
    await ledger.open()
    for number, call in enumerate(calls):
        if call != "refused":
            await ledger.begin(mark(number))
    for number, call in _shuffled(calls):
        if call != "cut off":
            price = Decimal("0.25") if call == "ended" else Decimal(0)
            await ledger.book(entry(number, NOW, cost=price))
    assert ledger._writer
    await ledger._writer.close()


def _shuffled(calls: list[str]) -> Iterator[tuple[int, str]]:
    """In another order than that in which they began."""
    yield from sorted(enumerate(calls), key=lambda call: (call[0] % 3, call[0]))
