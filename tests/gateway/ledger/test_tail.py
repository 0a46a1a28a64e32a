"""Following the ledger: each request is told once, however often the reader comes back."""

import asyncio
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agentd.core.clock import FrozenClock
from agentd.core.errors import BadRequest
from agentd.gateway.ledger import tail
from agentd.gateway.ledger.day_file import decode_record
from agentd.gateway.ledger.ledger import Ledger
from agentd.gateway.ledger.query import RequestFilter
from agentd.gateway.ledger.record import RequestRecord
from agentd.gateway.ledger.tail import (
    DayPlace,
    LedgerTail,
    LeftOut,
    find_end_places,
    open_tail,
    parse_cursor,
)
from agentd.llm.price import Prices
from agentd.storage.checksummed_json import encode_checksummed
from agentd.storage.layout import Layout
from tests.gateway.ledger.entries import build_record

ALL = RequestFilter()
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04")
START = {DAYS[0]: DayPlace()}


def build_layout(folder: Path) -> Layout:
    layout = Layout(str(folder / "state"), str(folder / "config"))
    Path(layout.ledger).mkdir(parents=True, exist_ok=True)
    return layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return build_layout(tmp_path)


def append(layout: Layout, day: str, *records: RequestRecord | bytes) -> None:
    with Path(layout.get_ledger_day_path(day)).open("ab") as file:
        for one in records:
            file.write(one if isinstance(one, bytes) else encode_checksummed(one))


def at(day: str, number: int, **more: Any) -> RequestRecord:
    return build_record(number, f"{day}T12:00:00.000Z", **more)


def follow(layout: Layout, places: dict[str, DayPlace] | None = None) -> LedgerTail:
    return LedgerTail(layout, lambda _: None, START if places is None else places)


def read_ids(following: LedgerTail, wanted: RequestFilter = ALL) -> list[str]:
    """Return the ids of the requests of one reading; nothing is left out of it."""
    found = []
    for _, one in following.read(wanted).entries:
        assert isinstance(one, RequestRecord)
        found.append(one.id)
    return found


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("read"), st.integers(0, 6), st.just(False)),
        st.tuples(st.just("return"), st.integers(0, 6), st.just(False)),
        st.tuples(st.just("reprice"), st.integers(0, 3), st.just(False)),
    ),
    max_size=40,
)


@given(STEPS)
def test_each_request_is_told_once_also_late_ones_and_after_repricing(steps: Any) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tail, "MAX_RECORDS", 3)
        layout = build_layout(Path(folder))
        following, written, told, newest = follow(layout), [], [], 0
        cursor = following.cursor
        for number, (what, which, is_late) in enumerate(steps):
            if what == "append":
                newest = max(newest, which)
                day = DAYS[max(newest - is_late, 0)]
                append(layout, day, at(day, number, key="k" * (number % 7)))
                written.append(f"r-{number}")
            elif what == "reprice":
                reprice_file(layout, DAYS[which], number)
            else:
                entries = following.read(ALL).entries
                taken = entries[:which] if what == "return" else entries
                for cursor_after, one in taken:
                    assert isinstance(one, RequestRecord)
                    told.append(one.id)
                    cursor = cursor_after
                if what == "return":  # what it had not taken yet is told to it again
                    following = follow(layout, parse_cursor(cursor))
        while not (batch := following.read(ALL)).is_last or batch.entries:
            told += [one.id for _, one in batch.entries if isinstance(one, RequestRecord)]
        assert sorted(told) == sorted(written)


def reprice_file(layout: Layout, day: str, number: int) -> None:
    """Replace a day's file by one with the same requests in lines of other lengths."""
    path = Path(layout.get_ledger_day_path(day))
    if not path.exists():
        return
    records = [decode_record(line) for line in path.read_bytes().splitlines(keepends=True)]
    other = path.with_suffix(".new")
    dearer = (structs.replace(one, cost=Decimal(10) ** (number % 9)) for one in records)
    other.write_bytes(b"".join(map(encode_checksummed, dearer)))
    other.rename(path)


def test_without_a_cursor_only_what_comes_is_told(layout: Layout) -> None:
    append(layout, DAYS[1], at(DAYS[1], 1))
    following = follow(layout, find_end_places(layout, lambda _: None, DAYS[2]))
    assert read_ids(following) == []
    append(layout, DAYS[1], at(DAYS[1], 2))  # began before midnight
    append(layout, DAYS[2], at(DAYS[2], 3))
    assert read_ids(following) == ["r-2", "r-3"]
    append(layout, DAYS[1], at(DAYS[1], 4))
    assert read_ids(follow(layout, parse_cursor(following.cursor))) == ["r-4"]


def test_filters_hold_and_the_cursor_passes_what_they_leave_out(layout: Layout) -> None:
    append(layout, DAYS[0], *(at(DAYS[0], number, model="ab"[number % 2]) for number in range(6)))
    following = follow(layout)
    assert read_ids(following, RequestFilter(model="a")) == ["r-0", "r-2", "r-4"]
    assert read_ids(follow(layout, parse_cursor(following.cursor))) == []


def test_an_unfinished_line_waits_until_it_is_whole(layout: Layout) -> None:
    line = encode_checksummed(at(DAYS[0], 1))
    append(layout, DAYS[0], line[:30])
    following = follow(layout)
    assert read_ids(following) == []
    append(layout, DAYS[0], line[30:])
    assert read_ids(following) == ["r-1"]


def test_only_what_the_writer_finished_is_read(layout: Layout) -> None:
    first = encode_checksummed(at(DAYS[0], 1))
    append(layout, DAYS[0], first, at(DAYS[0], 2))
    following = LedgerTail(layout, lambda _: len(first), START)
    assert read_ids(following) == ["r-1"]


def test_corrupt_lines_are_told_before_the_request_after_them(layout: Layout) -> None:
    append(layout, DAYS[0], b"{}\n", b"nothing\n", at(DAYS[0], 1))
    ((before, left_out), (_, record)) = follow(layout).read(ALL).entries
    assert left_out == LeftOut("corrupt", DAYS[0], 2)
    assert isinstance(record, RequestRecord)
    again = follow(layout, parse_cursor(before)).read(ALL).entries
    assert [one for _, one in again] == [left_out, record]


def test_days_that_were_deleted_before_they_were_read_are_told(layout: Layout) -> None:
    append(layout, DAYS[0], at(DAYS[0], 1))
    following = follow(layout)
    assert read_ids(following) == ["r-1"]
    late = follow(layout, parse_cursor(following.cursor))
    Path(layout.get_ledger_day_path(DAYS[0])).unlink()
    append(layout, DAYS[3], at(DAYS[3], 2))
    assert read_ids(following) == ["r-2"]  # it had read all of that day
    told = [one for _, one in late.read(ALL).entries]
    assert told[0] == LeftOut("deleted", DAYS[0])
    assert len(told) == 2


def test_a_file_without_the_last_request_is_told_and_read_on_at_its_end(layout: Layout) -> None:
    append(layout, DAYS[0], at(DAYS[0], 1), at(DAYS[0], 2))
    following = follow(layout)
    assert read_ids(following) == ["r-1", "r-2"]
    Path(layout.get_ledger_day_path(DAYS[0])).write_bytes(encode_checksummed(at(DAYS[0], 1)))
    assert [one for _, one in following.read(ALL).entries] == [LeftOut("replaced", DAYS[0])]
    append(layout, DAYS[0], at(DAYS[0], 3))
    assert read_ids(following) == ["r-3"]


def test_a_reader_comes_back_also_where_a_clock_that_was_ahead_left_many_days(
    layout: Layout,
) -> None:
    days = [f"2026-02-{number:02d}" for number in range(1, 29)]
    for number, day in enumerate(days):
        append(layout, day, at(day, number))
    cursor = open_tail(layout, lambda _: None, DAYS[0]).cursor
    append(layout, DAYS[0], at(DAYS[0], 100))
    assert read_ids(open_tail(layout, lambda _: None, DAYS[0], cursor)) == ["r-100"]


@pytest.mark.parametrize(
    "text", ["x", "2026-01-01", "2026-13-01.0", "2026-01-01.1.a b", "2026-01-01.-1", ",", "1~2"]
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_cursor(text)


def test_a_ledger_is_followed_while_it_is_written_and_repriced(tmp_path: Path) -> None:
    async def run() -> None:
        layout = build_layout(tmp_path)
        ledger = Ledger(layout, FrozenClock("2026-01-02T12:00:00.000Z"))
        await ledger.open()
        await ledger.add_record(at(DAYS[1], 0))
        following = open_tail(layout, ledger.get_size, DAYS[1])
        for number in (1, 2):
            await ledger.add_record(at(DAYS[1], number))
        assert read_ids(following) == ["r-1", "r-2"]
        prices = Prices(input=Decimal(3), output=Decimal(5))
        assert (await ledger.reprice(DAYS[0], DAYS[2], lambda _: (prices, "v2"))).changed == 3
        await ledger.add_record(at(DAYS[1], 3))
        assert read_ids(following) == ["r-3"]
        since = open_tail(layout, ledger.get_size, DAYS[1], since="2026-01-02T00:00:00.000Z")
        assert read_ids(since) == ["r-0", "r-1", "r-2", "r-3"]
        cursor = following.cursor
        await ledger.close()
        ledger = Ledger(build_layout(tmp_path), FrozenClock("2026-01-02T13:00:00.000Z"))
        await ledger.open()
        await ledger.add_record(at(DAYS[1], 4))
        assert read_ids(open_tail(layout, ledger.get_size, DAYS[1], cursor)) == ["r-4"]
        await ledger.close()

    asyncio.run(run())
