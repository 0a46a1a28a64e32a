"""The spend of each access key, by quarter of an hour.

Quarters of an hour, because the days of every time zone begin at one of them. A row may also cover
more than a quarter, when nobody will ask for less: it is then named by its first one.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from msgspec import Struct

from agentd.core.clock import Timestamp
from agentd.gateway.ledger.record import RequestRecord
from agentd.llm.price import add_amounts, sum_amounts

QUARTERS_PER_DAY = 96
"""The number of quarters of an hour in a day (UTC)."""


class KeySpend(Struct, array_like=True, gc=False):
    """Money in USD, exactly; tokens in and out; requests, however they ended."""

    cost: Decimal = Decimal(0)
    tokens: int = 0
    requests: int = 0

    def add(self, other: "KeySpend") -> None:
        """Count the other in."""
        self.cost = add_amounts(self.cost, other.cost)
        self.tokens += other.tokens
        self.requests += other.requests

    def add_record(self, entry: RequestRecord) -> None:
        """Count a request in."""
        self.cost = add_amounts(self.cost, entry.cost)
        self.tokens += entry.usage.total_input + entry.usage.total_output
        self.requests += 1


class SpendRow(NamedTuple):
    """The spend of a key from ``start`` on, until the next row of that key begins or later."""

    key: str
    start: datetime
    """The beginning of a quarter of an hour."""
    spent: KeySpend


def get_quarter(at: Timestamp) -> int:
    """Return the quarter of an hour, of its day (UTC), that contains a moment; the first is 0."""
    return int(at[11:13]) * 4 + int(at[14:16]) // 15


def get_quarter_start(day: str, number: int = 0) -> datetime:
    """Return when a quarter of an hour of a day such as ``2026-01-31`` begins."""
    return datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(minutes=15 * number)


class SpendByQuarterHour:
    """The fold of ledger entries, or of rows that were folded before.

    What is asked is exact where no row straddles the moment that is asked for: at every quarter of
    an hour, unless larger rows were taken in.
    """

    def __init__(self, rows: Iterable[SpendRow] = ()) -> None:
        self._keys: dict[str, dict[datetime, KeySpend]] = {}
        for row in rows:
            self.add_row(row)

    def add_row(self, row: SpendRow) -> None:
        """Count a row in."""
        self._get_or_create(row.key, row.start).add(row.spent)

    def add_quarters(self, day: str, quarters: Mapping[int, Mapping[str, KeySpend]]) -> None:
        """Count in what each key spent on a day, by the quarter of an hour."""
        for number, keys in quarters.items():
            start = get_quarter_start(day, number)
            for key, spent in keys.items():
                self._get_or_create(key, start).add(spent)

    def add_record(self, entry: RequestRecord) -> None:
        """Count a request in."""
        self._get_or_create(
            entry.key, get_quarter_start(entry.at[:10], get_quarter(entry.at))
        ).add_record(entry)

    def get_spend(self, key: str, since: datetime | None = None) -> Decimal:
        """Return a key's spend since a time, in USD; in total if that is ``None``."""
        known = self._keys.get(key, {})
        return sum_amounts(
            row.cost for start, row in known.items() if since is None or start >= since
        )

    def iter_rows(self) -> Iterator[SpendRow]:
        """Iterate over all rows, in no order."""
        for key, starts in self._keys.items():
            for start, spent in starts.items():
                yield SpendRow(key, start, spent)

    def _get_or_create(self, key: str, start: datetime) -> KeySpend:
        known = self._keys.setdefault(key, {})
        found = known.get(start)
        if found is None:
            found = known[start] = KeySpend()
        return found
