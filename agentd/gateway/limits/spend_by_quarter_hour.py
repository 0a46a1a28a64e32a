"""The spend of each account, by quarter of an hour.

An account is an access key (by its id), an owner of keys (``owner:ann``), a tag on them
(``tag:research``), or where models are counted one of a key (``<id>/gpt-5``). What is booked on an
owner or tag is what its keys spent while they had it.

Quarters of an hour, because the days of every time zone begin at one of them. A row may also cover
more than a quarter, when nobody will ask for less: it is then named by its first one.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from msgspec import Struct

from agentd.core.clock import Timestamp
from agentd.gateway.ledger.record import RequestRecord
from agentd.llm.price import add_amounts, sum_amounts

QUARTERS_PER_DAY = 96
"""The number of quarters of an hour in a day (UTC)."""

AHEAD = timedelta(days=62)
"""A time so long after the beginning of a day, week or month is that of a wrong clock."""


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
    """The spend of an account from ``start`` on, until its next row begins or later."""

    account: str
    start: datetime
    """The beginning of a quarter of an hour."""
    spent: KeySpend


def format_shared_account(scope: str, name: str) -> str:
    """Return the account of an ``owner`` or a ``tag``; no id of a key has a colon."""
    return f"{scope}:{name}"


def iter_shared_accounts(entry: RequestRecord) -> Iterator[str]:
    """Iterate over the accounts of the owner and tags that the key of a request had."""
    if entry.owner:
        yield format_shared_account("owner", entry.owner)
    for tag in entry.tags:
        yield format_shared_account("tag", tag)


def list_accounts(entry: RequestRecord) -> Sequence[str]:
    """Return the accounts of a request: its key, and the owner and tags that it had."""
    if entry.owner or entry.tags:
        return [entry.key, *iter_shared_accounts(entry)]
    return (entry.key,)


def list_model_accounts(keys: Container[str], entry: RequestRecord) -> Sequence[str]:
    """Return the accounts of a request where the models of some keys are counted."""
    if entry.key not in keys:
        return ()
    return (format_model_account(entry.key, entry.model if entry.channel else ""),)


def format_model_account(key: str, model: str) -> str:
    """Return the account of a model within a key."""
    return f"{key}/{model}"


def get_quarter(at: Timestamp) -> int:
    """Return the quarter of an hour, of its day (UTC), that contains a moment; the first is 0."""
    return int(at[11:13]) * 4 + int(at[14:16]) // 15


def get_quarter_start(day: str, number: int = 0) -> datetime:
    """Return when a quarter of an hour of a day such as ``2026-01-31`` begins."""
    return datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(minutes=15 * number)


class SpendByQuarterHour:
    """The fold of ledger entries, or of rows that were folded before.

    What is asked is exact where no row straddles the moment that is asked for: at every quarter of
    an hour, unless larger rows were taken in. ``accounts`` returns those of an entry.
    """

    def __init__(
        self,
        rows: Iterable[SpendRow] = (),
        accounts: Callable[[RequestRecord], Sequence[str]] = list_accounts,
    ) -> None:
        self._accounts: dict[str, dict[datetime, KeySpend]] = {}
        self._list_accounts = accounts
        self.latest = datetime.min.replace(tzinfo=UTC)
        """The beginning of the last row."""
        for row in rows:
            self.add_row(row)

    def add_row(self, row: SpendRow) -> None:
        """Count a row in."""
        self._get_or_create(row.account, row.start).add(row.spent)

    def add_quarters(self, day: str, quarters: Mapping[int, Mapping[str, KeySpend]]) -> None:
        """Count in what each account spent on a day, by the quarter of an hour."""
        for number, accounts in quarters.items():
            start = get_quarter_start(day, number)
            for account, spent in accounts.items():
                self._get_or_create(account, start).add(spent)

    def add_record(self, entry: RequestRecord) -> None:
        """Count a request in."""
        start = get_quarter_start(entry.at[:10], get_quarter(entry.at))
        for account in self._list_accounts(entry):
            self._get_or_create(account, start).add_record(entry)

    def list_accounts(self) -> Collection[str]:
        """Return all accounts."""
        return self._accounts.keys()

    def get_spend(self, account: str, since: datetime | None = None) -> Decimal:
        """Return an account's spend since a time, in USD; in total if that is ``None``.

        What is ``AHEAD`` of the time counts only in total.
        """
        known = self._accounts.get(account, {})
        return sum_amounts(
            row.cost
            for start, row in known.items()
            if since is None or since <= start < since + AHEAD
        )

    def iter_rows(self) -> Iterator[SpendRow]:
        """Iterate over all rows, in no order."""
        for account, starts in self._accounts.items():
            for start, spent in starts.items():
                yield SpendRow(account, start, spent)

    def _get_or_create(self, account: str, start: datetime) -> KeySpend:
        known = self._accounts.setdefault(account, {})
        found = known.get(start)
        if found is None:
            found = known[start] = KeySpend()
            self.latest = max(self.latest, start)
        return found
