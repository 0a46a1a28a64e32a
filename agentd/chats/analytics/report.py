"""Analytics: the rows of all chats, put together by day, model, skill and whatever else.

``Book`` keeps the rows by day and remembers what it once added up, so a question costs what the
days that it asks about hold, however long the history before them is.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.chats.analytics.daily_totals import DayRow, UsageTotals

GroupBy: TypeAlias = Literal["day", "model", "engine", "skill", "label", "chat", "key"]
Table: TypeAlias = dict[str, UsageTotals]
DayTotals: TypeAlias = list[tuple[str, UsageTotals]]
"""The totals of each day that has any, in the order of the days."""


class AnalyticsReport(Struct, frozen=True):
    """The answer to a query: the days, both included, and the totals by name."""

    first: str
    last: str
    by: GroupBy
    total: UsageTotals
    rows: list[tuple[str, UsageTotals]]
    """Days in their order; all else the most expensive first, then by turns, then by name."""
    titles: Mapping[str, str]
    """The titles of chats by their ids, which are the names of rows here; empty otherwise."""
    corrupt: Mapping[int, str]
    """Chats that count only up to some line, or not at all, and why."""
    days: DayTotals
    """The days of the total."""
    row_days: Mapping[str, DayTotals] | None = None
    """The days of each row by its name; only when asked for."""


class RowsByDay:
    """The rows of all chats, by day."""

    def __init__(self) -> None:
        self._days: list[str] = []
        self._rows: dict[str, dict[int, list[DayRow]]] = {}
        self._of: dict[int, set[str]] = {}
        """The days of each chat."""
        self._tables: dict[str, dict[GroupBy, Table]] = {}
        """The totals of each day, valid while nothing in it changes."""

    def set_rows(self, chat: int, rows: Sequence[DayRow], since: str = "") -> None:
        """Replace the chat's rows from the day ``since`` on."""
        if not since:
            self.remove_chat(chat)
        changed: dict[str, list[DayRow]] = {}
        for row in reversed(rows):
            if row.day < since:
                break
            changed.setdefault(row.day, []).append(row)
        for day, found in changed.items():
            if day not in self._rows:
                insort(self._days, day)
                self._rows[day] = {}
            self._rows[day][chat] = found
            self._of.setdefault(chat, set()).add(day)
            self._tables.pop(day, None)

    def remove_chat(self, chat: int) -> None:
        """Remove a chat from the totals."""
        for day in self._of.pop(chat, ()):
            del self._rows[day][chat]
            self._tables.pop(day, None)

    def sum_by(
        self, by: GroupBy, first: str, last: str, labels: Mapping[int, Sequence[str]]
    ) -> Table:
        """Return the totals by name of the days ``first`` to ``last``.

        A chat with several labels counts for each of them, one without any for none.
        """
        if by == "label":
            return _group_by_label(self.sum_by("chat", first, last, {}), labels)
        begin, end = bisect_left(self._days, first), bisect_right(self._days, last)
        return merge_tables(self._build_table(day, by) for day in self._days[begin:end])

    def list_days_by(
        self, by: GroupBy, first: str, last: str, labels: Mapping[int, Sequence[str]]
    ) -> dict[str, DayTotals]:
        """Return the sums of ``sum_by`` by name, separately for each day."""
        found: dict[str, DayTotals] = {}
        begin, end = bisect_left(self._days, first), bisect_right(self._days, last)
        for day in self._days[begin:end]:
            for name, totals in self.sum_by(by, day, day, labels).items():
                found.setdefault(name, []).append((day, totals))
        return found

    def _build_table(self, day: str, by: GroupBy) -> Table:
        known = self._tables.setdefault(day, {})
        if by not in known:
            known[by] = sum_rows(self._rows[day], by)
        return known[by]


def sum_rows(rows: Mapping[int, Iterable[DayRow]], by: GroupBy) -> Table:
    """Sum the rows of all chats by name."""
    table: Table = {}
    for chat, of_chat in rows.items():
        for row in of_chat:
            table.setdefault(_name(by, chat, row), UsageTotals()).add(row.totals)
    return table


def merge_tables(tables: Iterable[Table]) -> Table:
    """Return the sum of several tables without changing them."""
    found: Table = {}
    for table in tables:
        for name, totals in table.items():
            found.setdefault(name, UsageTotals()).add(totals)
    return found


def sort_rows(by: GroupBy, table: Table) -> list[tuple[str, UsageTotals]]:
    """Sort the rows of a report."""
    if by == "day":
        return sorted(table.items(), key=lambda row: row[0])
    return sorted(table.items(), key=lambda row: (-row[1].cost, -row[1].turns, row[0]))


def _name(by: GroupBy, chat: int, row: DayRow) -> str:
    match by:
        case "day":
            return row.day
        case "model":
            return row.account.model
        case "engine":
            return row.account.engine
        case "skill":
            return row.account.skill
        case "key":
            return row.account.by
        case _:
            return str(chat)


def _group_by_label(chats: Table, labels: Mapping[int, Sequence[str]]) -> Table:
    found: Table = {}
    for chat, totals in chats.items():
        for label in labels.get(int(chat), ()):
            found.setdefault(label, UsageTotals()).add(totals)
    return found
