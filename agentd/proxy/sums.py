"""What each access key has spent: added up by the quarter of an hour.

Quarters of an hour, because the days of every time zone begin at one of them. A row may also cover
more than a quarter, when nobody will ask for less: it is then told by its first one.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from msgspec import Struct

from agentd.clock import Timestamp
from agentd.proxy.entry import Entry
from agentd.proxy.price import plus, total

QUARTERS = 96
"""Of an hour, in a day (UTC)."""


class Spent(Struct, array_like=True, gc=False):
    """Money in USD, exactly; tokens in and out; requests, however they ended."""

    cost: Decimal = Decimal(0)
    tokens: int = 0
    requests: int = 0

    def add(self, other: "Spent") -> None:
        """Count the other in."""
        self.cost = plus(self.cost, other.cost)
        self.tokens += other.tokens
        self.requests += other.requests

    def book(self, entry: Entry) -> None:
        """Count a request in."""
        self.cost = plus(self.cost, entry.cost)
        self.tokens += entry.usage.total_input + entry.usage.total_output
        self.requests += 1


class Row(NamedTuple):
    """What one key spent from ``start`` on, until the next row of that key begins or later."""

    key: str
    start: datetime
    """The beginning of a quarter of an hour."""
    spent: Spent


def quarter(at: Timestamp) -> int:
    """Which quarter of an hour of its day (UTC) a moment is in, from 0."""
    return int(at[11:13]) * 4 + int(at[14:16]) // 15


def beginning(day: str, number: int = 0) -> datetime:
    """When a quarter of an hour of a day such as ``2026-01-31`` begins."""
    return datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(minutes=15 * number)


class Sums:
    """The fold of ledger entries, or of rows that were folded before.

    What is asked is exact where no row straddles the moment that is asked for: at every quarter of
    an hour, unless larger rows were taken in.
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._keys: dict[str, dict[datetime, Spent]] = {}
        for row in rows:
            self.take(row)

    def take(self, row: Row) -> None:
        """Count a row in."""
        self._of(row.key, row.start).add(row.spent)

    def take_quarters(self, day: str, quarters: Mapping[int, Mapping[str, Spent]]) -> None:
        """Count in what each key spent on a day, by the quarter of an hour."""
        for number, keys in quarters.items():
            start = beginning(day, number)
            for key, spent in keys.items():
                self._of(key, start).add(spent)

    def book(self, entry: Entry) -> None:
        """Count a request in."""
        self._of(entry.key, beginning(entry.at[:10], quarter(entry.at))).book(entry)

    def spent(self, key: str, since: datetime | None = None) -> Decimal:
        """What a key spent from a moment on, in USD; since ever with ``None``."""
        known = self._keys.get(key, {})
        return total(row.cost for start, row in known.items() if since is None or start >= since)

    def rows(self) -> Iterator[Row]:
        """All rows, in no order."""
        for key, starts in self._keys.items():
            for start, spent in starts.items():
                yield Row(key, start, spent)

    def _of(self, key: str, start: datetime) -> Spent:
        known = self._keys.setdefault(key, {})
        found = known.get(start)
        if found is None:
            found = known[start] = Spent()
        return found
