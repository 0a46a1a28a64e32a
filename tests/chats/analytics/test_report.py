"""The rows of all chats, put together: in any order, and by anything, the same."""

import random
from copy import deepcopy
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.chats.analytics.daily_totals import ChatDailyTotals, DayRow, UsageAccount, UsageTotals
from agentd.chats.analytics.report import (
    GroupBy,
    RowsByDay,
    Table,
    merge_tables,
    sort_rows,
    sum_rows,
)
from tests.chats.records import journals
from tests.support.examples import limit_examples

EVER = ("0001-01-01", "9999-12-31")
KINDS: list[GroupBy] = ["day", "model", "engine", "skill", "chat", "key"]

totals = st.builds(
    UsageTotals,
    user=st.integers(0, 9),
    tool=st.integers(0, 9),
    input=st.integers(0, 10**9),
    cost=st.decimals(0, 1000, places=9).map(Decimal),
    endings=st.dictionaries(st.sampled_from(["completed", "failed"]), st.integers(1, 5)),
    took=st.dictionaries(st.integers(-1, 50), st.integers(1, 5)),
    tools=st.dictionaries(st.sampled_from("abc"), st.integers(1, 5)),
)
days = st.sampled_from([f"2026-01-{number:02}" for number in range(1, 8)])
words = st.sampled_from(["x", "y", ""])
rows = st.builds(DayRow, days, st.builds(UsageAccount, words, words, words, words), totals)
chats = st.dictionaries(
    st.integers(1, 5), st.lists(rows, max_size=8).map(lambda found: sorted(found, key=_read_day))
)


def _read_day(row: DayRow) -> str:
    return row.day


def build_rows(given: dict[int, list[DayRow]], order: list[int]) -> RowsByDay:
    book = RowsByDay()
    for chat in order:
        book.set_rows(chat, given[chat])
    return book


@given(chats, st.randoms(use_true_random=False), st.sampled_from(KINDS))
@settings(max_examples=limit_examples(50))
def test_roll_ups_merged_in_any_order_are_the_fold_of_everything(
    given: dict[int, list[DayRow]], chance: random.Random, by: GroupBy
) -> None:
    whole = sum_rows(given, by)
    single = [sum_rows({chat: [row]}, by) for chat, of in given.items() for row in of]
    chance.shuffle(single)
    assert merge_tables(single) == whole
    order = list(given)
    chance.shuffle(order)
    assert build_rows(given, order).sum_by(by, *EVER, {}) == whole


@given(st.lists(journals(steps=25), max_size=3), st.data())
@settings(max_examples=limit_examples(40))
def test_reading_on_in_steps_gives_what_reading_at_once_gives(
    told: list[list], data: st.DataObject
) -> None:
    """Whenever somebody asks in between, and whatever was remembered of it."""
    book, at_once = RowsByDay(), {}
    for chat, journal in enumerate(told, 1):
        tally, whole = ChatDailyTotals(), ChatDailyTotals()
        for entry, line in journal:
            since = tally.day
            tally.apply(entry, len(line))
            if data.draw(st.booleans()):
                book.set_rows(chat, tally.rows, since)
                for by in KINDS:
                    book.sum_by(by, *EVER, {})
            else:
                book.set_rows(chat, tally.rows, since)
            whole.apply(entry, len(line))
        at_once[chat] = whole.rows
    for by in KINDS:
        assert book.sum_by(by, *EVER, {}) == sum_rows(at_once, by)


@given(chats, days, days)
@settings(max_examples=limit_examples(40))
def test_a_range_is_the_days_in_it_and_no_other(
    given: dict[int, list[DayRow]], first: str, last: str
) -> None:
    inside = {chat: [row for row in of if first <= row.day <= last] for chat, of in given.items()}
    assert build_rows(given, list(given)).sum_by("model", first, last, {}) == sum_rows(
        inside, "model"
    )


@given(chats)
@settings(max_examples=limit_examples(40))
def test_what_is_asked_changes_nothing(given: dict[int, list[DayRow]]) -> None:
    before = deepcopy(given)
    book = build_rows(given, list(given))
    for _ in range(2):
        for by in KINDS:
            first = book.sum_by(by, *EVER, {})
            for found in first.values():
                found.add(UsageTotals(user=1))
    assert given == before
    assert book.sum_by("day", *EVER, {}) == sum_rows(before, "day")


@given(chats, st.integers(1, 5))
@settings(max_examples=limit_examples(40))
def test_a_chat_that_is_dropped_no_longer_counts_and_comes_back_whole(
    given: dict[int, list[DayRow]], gone: int
) -> None:
    book = build_rows(given, list(given))
    rest = {chat: of for chat, of in given.items() if chat != gone}
    for by in KINDS:
        book.sum_by(by, *EVER, {})
    book.remove_chat(gone)
    assert book.sum_by("key", *EVER, {}) == sum_rows(rest, "key")
    book.set_rows(gone, given.get(gone, []))
    assert book.sum_by("key", *EVER, {}) == sum_rows(given, "key")


def test_a_chat_counts_for_each_of_its_labels() -> None:
    row = DayRow("2026-01-01", UsageAccount("", "", "", ""), UsageTotals(user=1))
    book = build_rows({1: [row], 2: [row], 3: [row]}, [1, 2, 3])
    table = book.sum_by("label", *EVER, {1: ("a", "b"), 2: ("b",)})
    assert {name: found.user for name, found in table.items()} == {"a": 1, "b": 2}


def test_days_are_reported_in_their_order_and_all_else_by_cost() -> None:
    table: Table = {
        "b": UsageTotals(cost=Decimal(1)),
        "a": UsageTotals(cost=Decimal(1)),
        "c": UsageTotals(cost=Decimal(2)),
        "d": UsageTotals(cost=Decimal(1), endings={"failed": 1}),
    }
    assert [name for name, _ in sort_rows("model", table)] == ["c", "d", "a", "b"]
    assert [name for name, _ in sort_rows("day", table)] == ["a", "b", "c", "d"]
