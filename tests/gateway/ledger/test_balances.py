"""The stored spend of closed days: what a count takes over from it is counted once."""

from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.gateway.ledger.balances import SpendSnapshot
from agentd.gateway.ledger.day_file import ReadPosition
from agentd.gateway.limits.spend_by_quarter_hour import KeySpend, get_quarter_start
from agentd.storage.layout import Layout

ONE, TWO, THREE = "2026-01-01", "2026-01-02", "2026-01-03"
KEY = "k"


class Day:
    """A day on which the key spent something in its first quarter of an hour."""

    def __init__(self, cost: int) -> None:
        self.position = ReadPosition(size=cost)
        self._cost = Decimal(cost)

    def get_spent(self) -> dict[str, KeySpend]:
        return {KEY: KeySpend(self._cost)}

    def get_quarters(self) -> dict[int, dict[str, KeySpend]]:
        return {0: self.get_spent()}


class Days:
    """The days of a ledger, whose files have as many bytes as they cost USD."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._days: dict[str, Day] = {}
        for folder in (layout.ledger, layout.ledger_reports):
            Path(folder).mkdir(parents=True)

    def set_cost(self, day: str, cost: int) -> None:
        self._days[day] = Day(cost)
        Path(self._layout.get_ledger_day_path(day)).write_bytes(b"x" * cost)

    def count(
        self,
        today: str,
        *,
        windows: Iterable[str] = (),
        on_size: Callable[[str], None] = lambda day: None,
    ) -> tuple[Decimal, dict[str, int]]:
        """Return what the key spent in all, and the sizes of the files that may still grow."""

        def size(day: str) -> int:
            on_size(day)
            return self._days[day].position.size

        snapshot = SpendSnapshot(self._layout, sorted(self._days), self._days.__getitem__)
        starts = map(get_quarter_start, windows)
        counted = snapshot.count_spend(starts, today, size, writes=True)
        return counted.spend.get_spend(KEY), counted.sizes


@pytest.fixture
def days(tmp_path: Path) -> Days:
    return Days(Layout(str(tmp_path / "state"), str(tmp_path / "config")))


def test_a_day_that_grows_while_it_is_counted_is_counted_once(days: Days) -> None:
    """All is then counted a second time, on top of the same stored days."""
    days.set_cost(ONE, 1)
    assert days.count(TWO)[0] == 1
    days.set_cost(TWO, 10)
    asked: list[str] = []

    def grow_once(day: str) -> None:
        asked.append(day)
        if asked.count(TWO) == 2:
            days.set_cost(TWO, 100)

    assert days.count(THREE, on_size=grow_once) == (Decimal(101), {ONE: 1, TWO: 100})


def test_a_stored_span_that_ends_later_than_is_asked_for_is_not_taken(days: Days) -> None:
    """The clock was ahead: its tomorrow is a day that is not over."""
    days.set_cost(ONE, 1)
    days.set_cost(TWO, 10)
    assert days.count(THREE)[0] == 11
    assert days.count(TWO)[0] == 11
    assert days.count(THREE, windows=[TWO])[0] == 11
    assert days.count(THREE)[0] == 11


@pytest.mark.parametrize("day", [ONE, TWO])
def test_a_closed_day_that_is_other_by_now_is_counted_anew(days: Days, day: str) -> None:
    days.set_cost(ONE, 1)
    days.set_cost(TWO, 10)
    assert days.count(THREE)[0] == 11
    days.set_cost(day, 500)
    assert days.count(THREE)[0] == 500 + {ONE: 10, TWO: 1}[day]
