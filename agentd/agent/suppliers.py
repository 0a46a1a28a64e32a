"""The suppliers of ``models.yml`` at the time of use: addresses and keys."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from agentd.agent.engines.external.common import ModelEndpoint
from agentd.core.errors import AgentdError, NotFound, Unavailable
from agentd.llm.endpoint import ChannelDialect, SupplierAccess
from agentd.llm.price import Prices
from agentd.models.model import GATEWAY, Dialect, Models, Supplier
from agentd.models.store import read_supplier_key


class SupplierDirectory:
    """Looks up suppliers for the engines; ``models`` returns the current file.

    ``gateway`` is where engines reach the gateway of this daemon, once it is running.
    """

    def __init__(self, models: Callable[[], Models], environ: Mapping[str, str]) -> None:
        self._models = models
        self._environ = environ
        self.gateway: ModelEndpoint | None = None
        self.find_gateway_dialects: Callable[[str], Sequence[ChannelDialect]] = lambda model: ()
        """Returns the dialects in which the gateway reaches a model without translation."""

    async def get_access(self, name: str, model: str = "") -> SupplierAccess:
        """Return the access to a supplier; ``NotFound``, or ``ConfigError`` without a key.

        The gateway is called in the dialect of the ``model``'s own supplier, so that nothing is
        lost in translation.
        """
        if name == GATEWAY:
            own = self._require_gateway()
            return SupplierAccess(name, self._choose_dialect(model), own.url, own.key)
        supplier = self._find(name)
        return SupplierAccess(
            name, supplier.dialect, supplier.url, await self._read_key(name, supplier)
        )

    async def get_endpoint(self, name: str) -> ModelEndpoint | None:
        """Return the endpoint of a program's model; None, without a name, for its own sign-in."""
        if not name:
            return None
        if name == GATEWAY:
            return self._require_gateway()
        supplier = self._find(name)
        return ModelEndpoint(supplier.url, await self._read_key(name, supplier))

    async def find_problem(self, name: str) -> str:
        """Explain why a supplier cannot be called, judging by its key; empty if it can."""
        try:
            await self.get_endpoint(name)
        except AgentdError as error:
            return error.message
        return ""

    def get_prices(self, supplier: str, model: str) -> Prices | None:
        """Return the prices of a supplier's model, by the supplier's name; None: unknown."""
        if supplier == GATEWAY:
            return self._models().get_gateway_prices(model)
        for one in self._models().models:
            if (one.supplier, one.model) == (supplier, model):
                return one.prices
        return None

    def _choose_dialect(self, model: str) -> Dialect:
        for spoken in self.find_gateway_dialects(model):
            if spoken != "gemini":
                return spoken
        return "openai-chat"

    def _require_gateway(self) -> ModelEndpoint:
        if self.gateway is None:
            raise Unavailable("The gateway of this daemon is not running yet.")
        return self.gateway

    async def _read_key(self, name: str, supplier: Supplier) -> str:
        return await asyncio.to_thread(read_supplier_key, name, supplier, self._environ)

    def _find(self, name: str) -> Supplier:
        supplier = self._models().suppliers.get(name)
        if supplier is None:
            raise NotFound(f"The supplier {name!r} is no longer defined in models.yml.")
        return supplier
