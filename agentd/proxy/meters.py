"""The meters of all access keys, each made when its key is first used."""

from collections.abc import Iterator
from datetime import datetime, tzinfo
from functools import partial

from agentd.clock import Clock, parse_iso
from agentd.proxy.access_key import AccessKey
from agentd.proxy.spend import Calendar, LimitStanding, Meter, Windows
from agentd.proxy.sums import Sums


class Meters:
    """What every key spends. ``sums`` is what the ledger said when it was asked last."""

    def __init__(self, zone: tzinfo, clock: Clock) -> None:
        self._clock = clock
        self._zone = zone
        self._calendar = Calendar(zone, clock)
        self._sums = Sums()
        self._meters: dict[str, Meter] = {}

    @property
    def zone(self) -> tzinfo:
        """In which days, weeks and months begin."""
        return self._zone

    @property
    def windows(self) -> Windows:
        """The day, the week and the month of now."""
        return self._calendar.now()[1]

    def cuts(self, zone: tzinfo | None = None) -> Iterator[datetime]:
        """The beginnings of the windows of now: the moments since which sums are wanted."""
        calendar = self._calendar if zone is None else Calendar(zone, self._clock)
        _, windows = calendar.now()
        for span in (windows.day, windows.week, windows.month):
            yield parse_iso(span.start)

    def take(self, sums: Sums, zone: tzinfo) -> None:
        """Count from these sums on, in this zone, where they hold all that was settled by now.

        Calls under way keep what they reserved.
        """
        self._sums, self._zone = sums, zone
        self._calendar = Calendar(zone, self._clock)
        for key_id, meter in self._meters.items():
            meter.recount(self._calendar.used(partial(sums.spent, key_id)), self._calendar)

    def of(self, key: AccessKey) -> Meter:
        """The meter of a key."""
        meter = self._meters.get(key.id)
        if meter is None:
            used = self._calendar.used(partial(self._sums.spent, key.id))
            meter = self._meters[key.id] = Meter(self._calendar, used)
        return meter

    def standing(self, key: AccessKey) -> tuple[LimitStanding, ...]:
        """Each limit of a key and how much of it is gone: the numbers that enforce it."""
        return self.of(key).standing(key.limits)
