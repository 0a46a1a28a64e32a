"""The price catalogue as the daemon uses it: read when it is asked for, refreshed daily."""

import asyncio
import importlib.util
import logging
from collections.abc import Callable, Iterable, Mapping

from agentd.core.clock import Clock
from agentd.core.errors import AgentdError
from agentd.gateway.catalogue.listed import (
    ListedPrices,
    find_channel_prices,
    find_model_prices,
    make_dated_lookup,
)
from agentd.gateway.catalogue.model import PriceCatalogue
from agentd.gateway.catalogue.refresh import refresh_catalogue
from agentd.gateway.catalogue.store import is_current, load_catalogue, require_catalogue
from agentd.gateway.channels.model import Channel
from agentd.gateway.pricing.repricing import PricesOf
from agentd.models.gateway_model import GatewayModel
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

LIBRARY = "genai_prices"
"""The package that the extra ``prices`` installs."""


class PriceCatalogueService:
    """Looks prices up; ``channels`` returns the channels by name."""

    def __init__(
        self, layout: Layout, clock: Clock, channels: Callable[[], Mapping[str, Channel]]
    ) -> None:
        self._layout = layout
        self._clock = clock
        self._channels = channels
        self._refreshing = asyncio.Lock()

    @property
    def today(self) -> str:
        """The day (UTC), such as ``2026-01-31``."""
        return self._clock.now()[:10]

    async def load(self) -> PriceCatalogue | None:
        """Return the whole catalogue, if there is one."""
        return await asyncio.to_thread(load_catalogue, self._layout)

    async def refresh(self) -> PriceCatalogue:
        """Read the catalogue from the installed library. Raises ``Unavailable``."""
        async with self._refreshing:
            return await refresh_catalogue(self._layout, self._clock.now())

    async def refresh_if_old(self) -> None:
        """Reload it when it is older than a day; a failure is only logged."""
        if await asyncio.to_thread(importlib.util.find_spec, LIBRARY) is None:
            return
        try:
            if not await asyncio.to_thread(is_current, self._layout, self._clock.now()):
                await self.refresh()
        except AgentdError as error:
            log.warning("the price catalogue stays as it is: %s", error.message)

    async def require(self) -> "OpenCatalogue":
        """Return the catalogue for several lookups. ``Unavailable`` without one."""
        catalogue = await asyncio.to_thread(require_catalogue, self._layout)
        return OpenCatalogue(catalogue, self._channels(), self.today)

    async def open(self, new_channels: Iterable[Channel] = ()) -> "OpenCatalogue | None":
        """Return the catalogue for several lookups, also through new channels, if there is one."""
        catalogue = await self.load()
        channels = {**self._channels(), **{one.name: one for one in new_channels}}
        return OpenCatalogue(catalogue, channels, self.today) if catalogue else None


class OpenCatalogue:
    """The catalogue with the channels and the day of its lookups."""

    def __init__(self, content: PriceCatalogue, channels: Mapping[str, Channel], day: str) -> None:
        self.content = content
        self.day = day
        self._channels = channels

    def find_for_model(self, model: GatewayModel) -> ListedPrices | None:
        """Return the prices of a model of the gateway."""
        return find_model_prices(self.content, self._channels, model, self.day)

    def find_for_channel(self, channel: Channel, name: str) -> ListedPrices | None:
        """Return the prices of what a channel's supplier calls ``name``."""
        return find_channel_prices(self.content, channel, name, self.day)

    def make_lookup(self, otherwise: PricesOf) -> PricesOf:
        """Return a lookup of each request's prices on its own day."""
        return make_dated_lookup(self.content, self._channels, otherwise)
