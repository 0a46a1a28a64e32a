"""The ledger in short: the current day and month in a time zone."""

from msgspec import Struct

from agentd.gateway.ledger.daily_totals import RequestTotals


class CorruptDay(Struct, frozen=True):
    """A day of the ledger with corrupt lines, which are not counted."""

    day: str
    lines: int


class LedgerOverview(Struct, frozen=True):
    """Summary of the ledger; never modified."""

    day: str
    """The current day."""
    today: RequestTotals
    month: RequestTotals
    """The totals of the month, from its first day to now."""
    models: list[tuple[str, RequestTotals]]
    """Today's models with the highest cost."""
    corrupt_days: list[CorruptDay]
