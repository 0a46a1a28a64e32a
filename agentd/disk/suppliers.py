"""The suppliers of ``models.yml`` at the moment of use: where each is, and its key."""

import asyncio
from collections.abc import Callable, Mapping

from agentd.agent.foreign import Endpoint
from agentd.agent.native.supplier import SupplierAccess
from agentd.catalog.models import GATEWAY, Models, Supplier
from agentd.disk.models import supplier_key
from agentd.errors import AgentdError, NotFound, Unavailable
from agentd.proxy.price import Prices


class SupplierBook:
    """Looks suppliers up for the engines; ``models`` tells the file's present content.

    ``gateway`` is where the engines reach the gateway of this daemon, once it is up.
    """

    def __init__(self, models: Callable[[], Models], environ: Mapping[str, str]) -> None:
        self._models = models
        self._environ = environ
        self.gateway: Endpoint | None = None

    async def access(self, name: str) -> SupplierAccess:
        """How to call one. Raises ``NotFound``, or ``Misconfigured`` when its key is not there."""
        if name == GATEWAY:
            own = self._own()
            return SupplierAccess(name, "openai-chat", own.url, own.key)
        supplier = self._find(name)
        return SupplierAccess(name, supplier.dialect, supplier.url, await self._key(name, supplier))

    async def endpoint(self, name: str) -> Endpoint | None:
        """Where a foreign program is to reach its model; None without a name: its own sign-in."""
        if not name:
            return None
        if name == GATEWAY:
            return self._own()
        supplier = self._find(name)
        return Endpoint(supplier.url, await self._key(name, supplier))

    async def trouble(self, name: str) -> str:
        """Why a supplier cannot be called, as far as its key tells; empty: it may be."""
        try:
            await self.endpoint(name)
        except AgentdError as error:
            return error.message
        return ""

    def prices(self, supplier: str, model: str) -> Prices | None:
        """What a supplier's model costs, by the supplier's name of it; None: not known."""
        if supplier == GATEWAY:
            return self._models().gateway_prices(model)
        for one in self._models().models:
            if (one.supplier, one.model) == (supplier, model):
                return one.prices
        return None

    def _own(self) -> Endpoint:
        if self.gateway is None:
            raise Unavailable("The gateway of this daemon is not up yet.")
        return self.gateway

    async def _key(self, name: str, supplier: Supplier) -> str:
        return await asyncio.to_thread(supplier_key, name, supplier, self._environ)

    def _find(self, name: str) -> Supplier:
        supplier = self._models().suppliers.get(name)
        if supplier is None:
            raise NotFound(f"No supplier is named {name!r} in models.yml any more.")
        return supplier
