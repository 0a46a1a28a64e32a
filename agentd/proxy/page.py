"""Reading the ledger as a person does: the newest first, page by page, only what is wanted."""

from decimal import Decimal

from msgspec import Struct

from agentd.clock import Timestamp
from agentd.proxy.entry import Entry


class Filter(Struct, frozen=True, kw_only=True):
    """What is wanted; what is empty or ``None`` is not asked for."""

    key: str = ""
    """The access key's id."""
    model: str = ""
    channel: str = ""
    outcome: str = ""
    error: str = ""
    status: int | None = None
    since: Timestamp = ""
    """Not before this moment ..."""
    until: Timestamp = ""
    """... and before this one."""
    min_cost: Decimal | None = None
    """USD."""
    text: str = ""
    """A part of the request's id."""

    def fits(self, entry: Entry) -> bool:
        """Whether the request is wanted."""
        return (
            (not self.key or entry.key == self.key)
            and (not self.model or entry.model == self.model)
            and (not self.channel or entry.channel == self.channel)
            and (not self.outcome or entry.outcome == self.outcome)
            and (not self.error or entry.error == self.error)
            and (self.status is None or entry.status == self.status)
            and (not self.since or entry.at >= self.since)
            and (not self.until or entry.at < self.until)
            and (self.min_cost is None or entry.cost >= self.min_cost)
            and self.text in entry.id
        )


class Page(Struct, frozen=True):
    """Some requests, the newest first."""

    entries: list[Entry]
    next: str
    """Where to go on; empty at the end. A page that looked long and found little has one, too."""
    damaged: int = 0
    """Lines on the way that are not sound, and so are not among the entries; where not all are
    wanted, maybe only those that look as if they were."""
