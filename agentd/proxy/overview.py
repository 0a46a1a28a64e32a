"""The gateway's main page in short: the present day and month of a zone."""

from msgspec import Struct

from agentd.proxy.tally import Totals


class Damaged(Struct, frozen=True):
    """A day of the ledger of which some lines are not sound: they count nowhere."""

    day: str
    lines: int


class Overview(Struct, frozen=True):
    """What is told of the ledger at a glance; nobody changes it."""

    day: str
    """The present one."""
    today: Totals
    month: Totals
    """From its first day to now."""
    models: list[tuple[str, Totals]]
    """Today's dearest."""
    damaged: list[Damaged]
