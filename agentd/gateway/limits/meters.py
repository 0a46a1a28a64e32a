"""The meters of all access keys, each made when its key is first used."""

from collections.abc import Iterator
from datetime import datetime, tzinfo
from functools import partial

from agentd.core.clock import Clock, parse_iso
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.limits.spend import KeyMeter, LimitStatus, WindowCalendar, Windows
from agentd.gateway.limits.spend_by_quarter_hour import SpendByQuarterHour


class KeyMeters:
    """The spend of every key. ``sums`` is the ledger's most recent answer."""

    def __init__(self, zone: tzinfo, clock: Clock) -> None:
        self._clock = clock
        self._zone = zone
        self._calendar = WindowCalendar(zone, clock)
        self._sums = SpendByQuarterHour()
        self._meters: dict[str, KeyMeter] = {}

    @property
    def zone(self) -> tzinfo:
        """The time zone in which days, weeks and months begin."""
        return self._zone

    @property
    def windows(self) -> Windows:
        """The day, the week and the month of now."""
        return self._calendar.now()[1]

    def iter_window_starts(self, zone: tzinfo | None = None) -> Iterator[datetime]:
        """Yield the beginnings of the windows of now: the moments since which sums are wanted."""
        calendar = self._calendar if zone is None else WindowCalendar(zone, self._clock)
        _, windows = calendar.now()
        for span in (windows.day, windows.week, windows.month):
            yield parse_iso(span.start)

    def reset_to(self, sums: SpendByQuarterHour, zone: tzinfo) -> None:
        """Count from these sums on, in this zone, where they hold all that was settled by now.

        Calls under way keep what they reserved.
        """
        self._sums, self._zone = sums, zone
        self._calendar = WindowCalendar(zone, self._clock)
        for key_id, meter in self._meters.items():
            meter.reset_to(self._calendar.sum_used(partial(sums.get_spend, key_id)), self._calendar)

    def for_key(self, key: AccessKey) -> KeyMeter:
        """Return the meter of a key."""
        meter = self._meters.get(key.id)
        if meter is None:
            used = self._calendar.sum_used(partial(self._sums.get_spend, key.id))
            meter = self._meters[key.id] = KeyMeter(self._calendar, used)
        return meter

    def describe_limits(self, key: AccessKey) -> tuple[LimitStatus, ...]:
        """Describe each limit of a key and its use: the numbers that enforce it."""
        return self.for_key(key).describe_limits(key.limits)
