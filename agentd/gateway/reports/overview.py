"""The ledger in short: the current day and month in a time zone."""

from msgspec import Struct

from agentd.gateway.ledger.daily_totals import RequestTotals
from agentd.gateway.reports.reports import Quantiles


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


class DayFigures(Struct, frozen=True):
    """The current day beside the one before, hour by hour; never modified."""

    day: str
    """The current day."""
    yesterday: RequestTotals
    """The totals of the whole day before."""
    hours: list[tuple[str, RequestTotals]]
    """The hours of both days, such as ``2026-01-31T07``, in order; without those of no requests."""
    hour_medians: dict[str, float | None]
    """Milliseconds to the first token in half of the requests of each hour of the current day."""
    first_token: Quantiles
    """The times to the first token of the current day."""
    channels: list[tuple[str, RequestTotals]]
    """The channels that were used today, the busiest first; also those that are gone."""
    channel_medians: dict[str, float | None]
    """The medians of these channels."""
