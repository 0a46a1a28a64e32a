"""The conditions that are computed from requests: the error rate, and limits of keys. Pure."""

from collections import deque
from decimal import Decimal

from msgspec import Struct

from agentd.gateway.alerts.model import AlertRules
from agentd.gateway.channels.failures import CHANNEL_FAILURES
from agentd.gateway.ledger.record import RequestRecord
from agentd.gateway.limits.spend import LimitStatus

SLICE_SECONDS = 10.0
"""Requests are counted in slices of so many seconds."""


class ErrorRate(Struct, frozen=True):
    """How many of the last requests failed."""

    requests: int
    failed: int

    def exceeds(self, rules: AlertRules) -> bool:
        """Return whether it is an alert; too few requests are none."""
        if rules.error_rate is None or self.requests < rules.error_requests:
            return False
        return self.failed * 100 >= rules.error_rate * self.requests


class _Slice(Struct):
    number: int
    requests: int = 0
    failed: int = 0


class ErrorRateWindow:
    """Counts the requests of the last minutes; times are monotonic seconds."""

    def __init__(self) -> None:
        self._slices: deque[_Slice] = deque()

    def add(self, failed: bool, now: float) -> None:
        """Count a request."""
        number = int(now // SLICE_SECONDS)
        if not self._slices or self._slices[-1].number < number:
            self._slices.append(_Slice(number))
        self._slices[-1].requests += 1
        self._slices[-1].failed += failed

    def measure(self, minutes: int, now: float) -> ErrorRate:
        """Return the rate of the last minutes, and forget what is older."""
        first = int((now - minutes * 60) // SLICE_SECONDS)
        while self._slices and self._slices[0].number <= first:
            self._slices.popleft()
        requests = sum(one.requests for one in self._slices)
        return ErrorRate(requests, sum(one.failed for one in self._slices))


def has_failed(record: RequestRecord) -> bool:
    """Return whether a request failed, other than by its caller's fault or limits."""
    if record.outcome == "left":
        return False
    broken = record.outcome == "broken" or record.status >= 500
    return broken or record.error in CHANNEL_FAILURES


def is_near(limit: LimitStatus, rules: AlertRules) -> bool:
    """Return whether most of a limit in USD is used."""
    return isinstance(limit.limit, Decimal) and limit.used * 100 >= limit.limit * rules.near_limit


def is_used_up(limit: LimitStatus) -> bool:
    """Return whether nothing of a limit in USD is left."""
    return isinstance(limit.limit, Decimal) and limit.used >= limit.limit


def format_mark(limit: LimitStatus) -> str:
    """Return what distinguishes a limit from itself after its reset, or after it was raised."""
    return f"{limit.limit} {limit.resets or ''}"
