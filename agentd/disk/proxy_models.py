"""The models of the gateway: how the API changes section ``proxy`` of ``models.yml``."""

import asyncio
from collections.abc import Callable
from functools import partial

from msgspec import structs

from agentd.catalog.models import Models, contradictions
from agentd.disk.entries import Entries
from agentd.disk.layout import Layout
from agentd.disk.reload import Reloaded
from agentd.proxy.channel import ProxyModel


def entries(layout: Layout) -> Entries[ProxyModel]:
    """How the section is changed, model by model."""
    return Entries(layout.models, Models, "proxy", contradictions, "model")


class ProxyModelBook:
    """How the models of the gateway are changed; ``models`` is ``models.yml`` as it is followed.

    Each change answers what the model is then, unless it is a ``dry_run`` what it would be, and
    raises what ``Entries`` does.
    """

    def __init__(self, layout: Layout, models: Reloaded[Models]) -> None:
        self._file = models
        self._entries = entries(layout)
        self._writing = asyncio.Lock()

    @property
    def current(self) -> tuple[ProxyModel, ...]:
        """The models as the file last said without a mistake."""
        return self._file.current.proxy

    async def add(self, model: ProxyModel, *, dry_run: bool = False) -> ProxyModel:
        """One more, at the end."""
        return await self._change(partial(self._entries.add, model), dry_run)

    async def change(
        self, name: str, revise: Callable[[ProxyModel], ProxyModel], *, dry_run: bool = False
    ) -> ProxyModel:
        """``revise`` tells what becomes of the model of this name; it may be renamed."""
        return await self._change(partial(self._entries.change, name, revise), dry_run)

    async def copy(
        self,
        name: str,
        new: str,
        revise: Callable[[ProxyModel], ProxyModel] = lambda model: model,
        *,
        dry_run: bool = False,
    ) -> ProxyModel:
        """One more like this one, called ``new``."""
        made = partial(_named, new, name, revise)
        return await self._change(partial(self._entries.copy, name, made), dry_run)

    async def enable(self, name: str, enabled: bool) -> ProxyModel:
        """Switch it on or off."""
        return await self.change(name, lambda old: structs.replace(old, enabled=enabled))

    async def remove(
        self, name: str, check: Callable[[ProxyModel], object] = bool, *, dry_run: bool = False
    ) -> ProxyModel:
        """One less, unless ``check`` raises."""
        return await self._change(partial(self._entries.remove, name, check), dry_run)

    async def _change(self, change: Callable[..., ProxyModel], dry_run: bool) -> ProxyModel:
        async with self._writing:
            model = await asyncio.to_thread(change, dry_run=dry_run)
            if not dry_run:
                await self._file.refresh()
        return model


def _named(
    new: str, name: str, revise: Callable[[ProxyModel], ProxyModel], old: ProxyModel
) -> ProxyModel:
    """The copy: what the supplier calls the model does not change with our name of it."""
    ways = tuple(structs.replace(way, model=way.model or name) for way in old.ways)
    return revise(structs.replace(old, name=new, ways=ways))
