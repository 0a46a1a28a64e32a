"""Filters and pages of the request log, newest first."""

from decimal import Decimal

from msgspec import Struct

from agentd.core.clock import Timestamp
from agentd.gateway.ledger.record import RequestRecord


class RequestFilter(Struct, frozen=True, kw_only=True):
    """Conditions on request records; an empty or ``None`` field matches everything."""

    key: str = ""
    """Id of the access key."""
    owner: str = ""
    """Owner that the key had when the request was made."""
    tag: str = ""
    """One of the tags that it had then."""
    model: str = ""
    channel: str = ""
    outcome: str = ""
    error: str = ""
    status: int | None = None
    since: Timestamp = ""
    """Start of the range, inclusive."""
    until: Timestamp = ""
    """End of the range, exclusive."""
    min_cost: Decimal | None = None
    """USD."""
    text: str = ""
    """A substring of the request id."""
    successful: bool | None = None
    """Only requests whose outcome is ``ok``, or is not; None: both."""
    hidden: bool | None = None
    """Only requests in which secrets were found, or none; None: both."""
    rule: str = ""
    """Id of a secret rule that found something."""

    def matches(self, entry: RequestRecord) -> bool:
        """Return whether a record meets all conditions."""
        return (
            (not self.key or entry.key == self.key)
            and (not self.owner or entry.owner == self.owner)
            and (not self.tag or self.tag in entry.tags)
            and (not self.model or entry.model == self.model)
            and (not self.channel or entry.channel == self.channel)
            and (not self.outcome or entry.outcome == self.outcome)
            and (not self.error or entry.error == self.error)
            and (self.status is None or entry.status == self.status)
            and (not self.since or entry.at >= self.since)
            and (not self.until or entry.at < self.until)
            and (self.min_cost is None or entry.cost >= self.min_cost)
            and self.text in entry.id
            and self.successful in (None, entry.outcome == "ok")
            and self.hidden in (None, bool(entry.hidden))
            and (not self.rule or self.rule in entry.hidden)
        )


class RecordPage(Struct, frozen=True):
    """A page of request records, newest first."""

    records: list[RequestRecord]
    next: str
    """Cursor of the next page; empty if this is the last one. A page whose search was cut short may
    have few records and still a next page."""
    corrupt: int = 0
    """Corrupt lines that were skipped; with a filter, possibly only likely matches."""
