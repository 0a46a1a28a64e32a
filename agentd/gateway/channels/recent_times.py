"""How fast channels replied lately: the times of their last successful calls, in memory only."""

from collections import deque
from collections.abc import Collection

from msgspec import Struct

from agentd.core.quantile import Histogram, add_duration, estimate_quantiles
from agentd.gateway.ledger.record import RequestRecord

KEPT_CALLS = 100
"""The number of calls of each channel whose times are kept."""


class CallTimes(Struct, frozen=True):
    """Milliseconds from the call of the supplier; null if there is no such call."""

    calls: int = 0
    """The number of calls that these times are of."""
    head_p50: float | None = None
    """Until the response began, at the median ..."""
    head_p95: float | None = None
    """... and at the 95th percentile."""
    first_p50: float | None = None
    """Until the first part of the reply was sent to the caller, at the median ..."""
    first_p95: float | None = None
    """... and at the 95th percentile."""


class RecentCallTimes:
    """The times of the last calls of each channel; on the loop only."""

    def __init__(self) -> None:
        self._by_channel: dict[str, deque[tuple[float, float]]] = {}
        """Until the head and until the first part, by the channel's name."""

    def add_record(self, record: RequestRecord) -> None:
        """Take the times of a successful request."""
        times = record.timings
        if record.outcome != "ok" or not record.channel or times.head < times.ready:
            return
        kept = self._by_channel.get(record.channel)
        if kept is None:
            kept = self._by_channel[record.channel] = deque(maxlen=KEPT_CALLS)
        kept.append((times.head - times.ready, times.first - times.ready))

    def retain_only(self, channels: Collection[str]) -> None:
        """Forget the times of all other channels."""
        for name in self._by_channel.keys() - channels:
            del self._by_channel[name]

    def get_times(self, channel: str) -> CallTimes:
        """Return the times of a channel."""
        heads: Histogram = {}
        firsts: Histogram = {}
        kept = self._by_channel.get(channel, ())
        for head, first in kept:
            add_duration(heads, round(head))
            if first >= 0:
                add_duration(firsts, round(first))
        quantiles = (
            *estimate_quantiles(heads, (0.5, 0.95)),
            *estimate_quantiles(firsts, (0.5, 0.95)),
        )
        return CallTimes(len(kept), *quantiles)
