"""The models of the gateway: how the API changes section ``proxy`` of ``models.yml``."""

from functools import partial

from msgspec import structs

from agentd.models.gateway_model import GatewayModel
from agentd.models.model import Models, validate
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile
from agentd.storage.yaml.entries import NamedEntries, WatchedEntries


def open_entries(layout: Layout) -> NamedEntries[GatewayModel]:
    """Return the editor of the section's models."""
    return NamedEntries(layout.models, Models, "proxy", validate, "model")


class GatewayModelRepository(WatchedEntries[GatewayModel]):
    """Changes the models of the gateway; ``models`` is ``models.yml`` as it is followed."""

    def __init__(self, layout: Layout, models: WatchedFile[Models]) -> None:
        super().__init__(open_entries(layout), models)
        self._file = models

    @property
    def current(self) -> tuple[GatewayModel, ...]:
        """The models, as of the last valid version of the file."""
        return self._file.current.proxy

    async def copy(self, name: str, new: str, *, dry_run: bool = False) -> GatewayModel:
        """Add a copy of a model, named ``new``."""
        revise = partial(_rename_copy, new, name)
        return await self.write(partial(self.entries.copy, name, revise), dry_run=dry_run)


def _rename_copy(new: str, name: str, old: GatewayModel) -> GatewayModel:
    """Return the copy: what the supplier calls the model does not change with our name of it."""
    routes = tuple(structs.replace(route, model=route.model or name) for route in old.routes)
    return structs.replace(old, name=new, routes=routes)
