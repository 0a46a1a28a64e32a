"""Analytics: the rows of all chats, put together by day, model, skill and whatever else.

``Book`` keeps the rows by day and remembers what it once added up, so a question costs what the
days that it asks about hold, however long the history before them is.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.chats.tally import Row, Totals

By: TypeAlias = Literal["day", "model", "engine", "skill", "label", "chat", "key"]
Table: TypeAlias = dict[str, Totals]


class Report(Struct, frozen=True):
    """What a question is answered with: the days, both included, and the totals by name."""

    first: str
    last: str
    by: By
    total: Totals
    rows: list[tuple[str, Totals]]
    """Days in their order; all else the most expensive first, then by turns, then by name."""
    titles: Mapping[str, str]
    """Of chats, by their names here, which are ids; empty when the rows are none."""
    damaged: Mapping[int, str]
    """Chats that count only up to some line, or not at all, and why."""


class Book:
    """The rows of all chats, by day."""

    def __init__(self) -> None:
        self._days: list[str] = []
        self._rows: dict[str, dict[int, list[Row]]] = {}
        self._of: dict[int, set[str]] = {}
        """The days of each chat."""
        self._tables: dict[str, dict[By, Table]] = {}
        """What was added up of a day, for as long as nothing in it changes."""

    def take(self, chat: int, rows: Sequence[Row], since: str = "") -> None:
        """The chat's rows are these; those of the days before ``since`` are as they were."""
        if not since:
            self.drop(chat)
        changed: dict[str, list[Row]] = {}
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

    def drop(self, chat: int) -> None:
        """The chat counts no more."""
        for day in self._of.pop(chat, ()):
            del self._rows[day][chat]
            self._tables.pop(day, None)

    def table(self, by: By, first: str, last: str, labels: Mapping[int, Sequence[str]]) -> Table:
        """The totals by name, of the days from ``first`` to ``last``.

        A chat with several labels counts for each of them, one without any for none.
        """
        if by == "label":
            return _by_label(self.table("chat", first, last, {}), labels)
        begin, end = bisect_left(self._days, first), bisect_right(self._days, last)
        return merged(self._table(day, by) for day in self._days[begin:end])

    def _table(self, day: str, by: By) -> Table:
        known = self._tables.setdefault(day, {})
        if by not in known:
            known[by] = added_up(self._rows[day], by)
        return known[by]


def added_up(rows: Mapping[int, Iterable[Row]], by: By) -> Table:
    """The totals of all chats' rows, by name."""
    table: Table = {}
    for chat, of_chat in rows.items():
        for row in of_chat:
            table.setdefault(_name(by, chat, row), Totals()).add(row.totals)
    return table


def merged(tables: Iterable[Table]) -> Table:
    """The sum of several tables; they stay as they are."""
    found: Table = {}
    for table in tables:
        for name, totals in table.items():
            found.setdefault(name, Totals()).add(totals)
    return found


def ordered(by: By, table: Table) -> list[tuple[str, Totals]]:
    """The rows of a report."""
    if by == "day":
        return sorted(table.items(), key=lambda row: row[0])
    return sorted(table.items(), key=lambda row: (-row[1].cost, -row[1].turns, row[0]))


def _name(by: By, chat: int, row: Row) -> str:
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


def _by_label(chats: Table, labels: Mapping[int, Sequence[str]]) -> Table:
    found: Table = {}
    for chat, totals in chats.items():
        for label in labels.get(int(chat), ()):
            found.setdefault(label, Totals()).add(totals)
    return found
