"""The report of limits: when each access key's are used up, at the rate at which they are used."""

from collections.abc import Awaitable
from datetime import tzinfo
from typing import Annotated, Protocol

from msgspec import Meta

from agentd.clock import Clock
from agentd.proxy.access_key import AccessKey
from agentd.proxy.burn_down import BurnLine, burn_down
from agentd.proxy.keyring import AccessKeys
from agentd.proxy.spend import LimitStanding, Windows
from agentd.web.call import Answer, Call
from agentd.web.manage import shapes
from agentd.web.manage.listing import Listing
from agentd.web.manage.pages import page_of
from agentd.web.manage.reports import as_csv, wants_csv

BurnView = shapes.shown(BurnLine)
BurnReport = page_of(
    "BurnReport",
    BurnView,
    zone=Annotated[str, Meta(description="The time zone in which windows begin.")],
)
"""The limits of some keys, in the order of their names; ``next`` is where to go on."""


class Keys(Protocol):
    """The keys as they are now (``disk.access_key_book.AccessKeyBook``)."""

    @property
    def keys(self) -> AccessKeys:
        """Those that are valid."""
        ...

    def fresh(self) -> Awaitable[None]:
        """Return once they are as their file is."""
        ...


class Meters(Protocol):
    """What every key spends (``proxy.meters.Meters``)."""

    @property
    def windows(self) -> Windows:
        """Those of now."""
        ...

    @property
    def zone(self) -> tzinfo:
        """In which they begin."""
        ...

    def standing(self, key: AccessKey) -> tuple[LimitStanding, ...]:
        """Each limit of a key and how much of it is gone."""
        ...


class LimitDesk:
    """The endpoint ``/api/agent/reports/limits``."""

    def __init__(self, keys: Keys, meters: Meters, clock: Clock) -> None:
        self._keys = keys
        self._meters = meters
        self._clock = clock
        self._listing = Listing[AccessKey](
            lambda: keys.keys, self._limited, lambda one: one.name, lambda one: one.enabled
        )

    async def report_limits(self, call: Call) -> Answer:
        """Key by key, page by page."""
        await self._keys.fresh()
        keys, after = self._listing.page(call)
        now, windows = self._clock.now(), self._meters.windows
        lines = [
            line
            for key in keys
            for line in burn_down(key, self._meters.standing(key), windows, now)
        ]
        if wants_csv(call):
            return as_csv(call, f"limits-{now[:10]}", lines, after)
        items = [shapes.told(one, BurnView) for one in lines]
        return Answer(BurnReport(zone=str(self._meters.zone), items=items, next=after))

    def _limited(self) -> list[AccessKey]:
        return [key for key in self._keys.keys if key.limits.in_usd]
