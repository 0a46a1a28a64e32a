"""The suppliers of ``models.yml`` at the moment of use: where each is, and its key."""

import asyncio
from collections.abc import Callable, Mapping

from agentd.agent.foreign import Endpoint
from agentd.agent.native.supplier import SupplierAccess
from agentd.catalog.models import Models, Supplier
from agentd.disk.models import supplier_key
from agentd.errors import AgentdError, NotFound
from agentd.proxy.price import Prices


class SupplierBook:
    """Looks suppliers up for the engines; ``models`` tells the file's present content."""

    def __init__(self, models: Callable[[], Models], environ: Mapping[str, str]) -> None:
        self._models = models
        self._environ = environ

    async def access(self, name: str) -> SupplierAccess:
        """How to call one. Raises ``NotFound``, or ``Misconfigured`` when its key is not there."""
        supplier = self._find(name)
        return SupplierAccess(name, supplier.dialect, supplier.url, await self._key(name, supplier))

    async def endpoint(self, name: str) -> Endpoint | None:
        """Where a foreign program is to reach its model; None without a name: its own sign-in."""
        if not name:
            return None
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
        for one in self._models().models:
            if (one.supplier, one.model) == (supplier, model):
                return one.prices
        return None

    async def _key(self, name: str, supplier: Supplier) -> str:
        return await asyncio.to_thread(supplier_key, name, supplier, self._environ)

    def _find(self, name: str) -> Supplier:
        supplier = self._models().suppliers.get(name)
        if supplier is None:
            raise NotFound(f"No supplier is named {name!r} in models.yml any more.")
        return supplier
