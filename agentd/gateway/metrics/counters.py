"""Counts requests as the ledger records them: a few additions each, in memory only.

The counters start at 0 with the daemon, as monitoring expects; they are no source of truth. Names
that callers make up are not kept: as in the reports, a request for which no channel was called is
counted without its model.
"""

from bisect import bisect_left
from collections.abc import Iterable
from copy import copy
from decimal import Decimal
from typing import NamedTuple

from msgspec import Struct, field

from agentd.gateway.ledger.daily_totals import RequestTotals
from agentd.gateway.ledger.record import Outcome, RequestRecord
from agentd.gateway.limits.budgets import BudgetScope
from agentd.gateway.limits.spend_by_quarter_hour import KeySpend
from agentd.llm.price import add_amounts

MAX_GROUPS = 500
"""The most pairs of model and channel that are counted apart."""

MAX_SHARED = 100
"""The most owners that are counted apart, and the most tags."""

OTHER = "other"
"""Model and channel, owner or tag of all further requests."""

FIRST_TOKEN_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0)
"""Upper bounds in seconds until the first part of a streamed reply."""

DURATION_BOUNDS = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper bounds in seconds until the end of a reply."""


class DurationCounts(Struct):
    """Durations by upper bounds, as a histogram of Prometheus has them."""

    bounds: tuple[float, ...]
    counts: list[int]
    """One for each bound, not cumulative, and the last for what is longer."""
    milliseconds: float = 0.0
    """The sum of all of them."""

    @classmethod
    def from_bounds(cls, bounds: tuple[float, ...]) -> "DurationCounts":
        """Return an empty histogram."""
        return cls(bounds, [0] * (len(bounds) + 1))

    def add(self, milliseconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(self.bounds, milliseconds / 1000)] += 1
        self.milliseconds += milliseconds

    def copy(self) -> "DurationCounts":
        """Return the same, which does not change any more."""
        return DurationCounts(self.bounds, list(self.counts), self.milliseconds)


class RouteCounts(Struct):
    """The requests for one model that one channel answered, or was the last to be called for."""

    totals: RequestTotals = field(default_factory=RequestTotals)
    statuses: dict[tuple[Outcome, int], int] = field(default_factory=dict)
    """Requests by outcome and by HTTP status."""
    first_token: DurationCounts = field(
        default_factory=lambda: DurationCounts.from_bounds(FIRST_TOKEN_BOUNDS)
    )
    """Of streamed replies, until their first part was sent."""
    duration: DurationCounts = field(
        default_factory=lambda: DurationCounts.from_bounds(DURATION_BOUNDS)
    )
    """Of successful requests, until their end."""

    def add_record(self, record: RequestRecord) -> None:
        """Count a request."""
        self.totals.add_record(record)
        status = record.outcome, record.status
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if record.stream and record.timings.first > 0:
            self.first_token.add(record.timings.first)
        if record.outcome == "ok":
            self.duration.add(record.timings.total)

    def add_cost(self, cost: Decimal) -> None:
        """Count USD of no request, as of a call that was given up; less than 0: take it away."""
        self.totals.cost = add_amounts(self.totals.cost, cost)

    def copy(self) -> "RouteCounts":
        """Return the same, which does not change any more."""
        return RouteCounts(
            self.totals.copy(), dict(self.statuses), self.first_token.copy(), self.duration.copy()
        )


class RequestCounts(NamedTuple):
    """The counts at one moment."""

    groups: dict[tuple[str, str], RouteCounts]
    """By model and channel; both are empty where no channel was called."""
    failed_tries: dict[tuple[str, str], int]
    """Calls of channels that brought no reply, by channel and kind of error."""
    shared: dict[tuple[BudgetScope, str], KeySpend]
    """By owner or tag of the keys; a request counts in each tag of its key."""


class RequestCounters:
    """Counts all requests since the start; on the loop only."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], RouteCounts] = {}
        self._failed_tries: dict[tuple[str, str], int] = {}
        self._shared: dict[BudgetScope, dict[str, KeySpend]] = {"owner": {}, "tag": {}}

    def add_record(self, record: RequestRecord) -> None:
        """Count a recorded request."""
        place = (record.model, record.channel) if record.channel else ("", "")
        group = self._get_group(place)
        group.add_record(record)
        for failed in record.failed_tries:
            if failed.cost:  # of its own channel, not of the one that answered
                group.add_cost(failed.cost.copy_negate())
                self._get_group((record.model, failed.channel)).add_cost(failed.cost)
            call = failed.channel, failed.error
            if call not in self._failed_tries and len(self._failed_tries) >= MAX_GROUPS:
                call = OTHER, failed.error
            self._failed_tries[call] = self._failed_tries.get(call, 0) + 1
        if record.owner:
            self._add_shared("owner", (record.owner,), record)
        if record.tags:
            self._add_shared("tag", record.tags, record)

    def take_snapshot(self) -> RequestCounts:
        """Return the counts so far, as a copy that another thread may read."""
        ordered = sorted(self._groups.items(), key=lambda pair: pair[0])
        groups = {place: counts.copy() for place, counts in ordered}
        shared = {
            (scope, name): copy(spent)
            for scope, names in self._shared.items()
            for name, spent in sorted(names.items())
        }
        return RequestCounts(groups, dict(sorted(self._failed_tries.items())), shared)

    def _get_group(self, place: tuple[str, str]) -> RouteCounts:
        group = self._groups.get(place)
        if group is None:
            if len(self._groups) >= MAX_GROUPS:
                place = OTHER, OTHER
            group = self._groups.setdefault(place, RouteCounts())
        return group

    def _add_shared(self, scope: BudgetScope, names: Iterable[str], record: RequestRecord) -> None:
        known, counted = self._shared[scope], set[str]()
        for given in names:
            name = given if given in known or len(known) < MAX_SHARED else OTHER
            if name not in counted:
                counted.add(name)
                known.setdefault(name, KeySpend()).add_record(record)
