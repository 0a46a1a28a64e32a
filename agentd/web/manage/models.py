"""The models that callers of the gateway can name, as they are managed."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from agentd.errors import Conflict, NotFound, nearest
from agentd.proxy.channel import Channel, ProxyModel
from agentd.proxy.channels import reachable
from agentd.proxy.management.changes import Shown
from agentd.proxy.management.check import first_way
from agentd.proxy.management.service import Book, Journal, Managed
from agentd.web.call import Answer, Call
from agentd.web.manage import shapes
from agentd.web.manage.checks import Checks, Wish, checked
from agentd.web.manage.listing import Listing, flag
from agentd.web.manage.resource import Resource

ModelView = shapes.shown(ProxyModel)
ModelPage = shapes.listed(ModelView)
NewModel = shapes.new(ProxyModel)
ModelPatch = shapes.patch(ProxyModel)


class ModelBook(Book[ProxyModel], Protocol):
    """Who keeps them (``disk.proxy_models.ProxyModelBook``)."""

    @property
    def current(self) -> tuple[ProxyModel, ...]:
        """In the file's order."""
        ...

    async def copy(
        self,
        name: str,
        new: str,
        revise: Callable[[ProxyModel], ProxyModel] = lambda model: model,
        *,
        dry_run: bool = False,
    ) -> ProxyModel:
        """One more like this one."""
        ...


class ProxyModelDesk:
    """The endpoints below ``/api/agent/models``.

    ``channels`` tells those that there are, ``busy`` what needs a model, and ``checks`` tries one.
    """

    def __init__(
        self,
        models: ModelBook,
        channels: Callable[[], Mapping[str, Channel]],
        journal: Journal,
        busy: Callable[[ProxyModel], str],
        checks: Checks,
    ) -> None:
        self._checks = checks
        self._models = models
        self._channels = channels
        self.managed = Managed[ProxyModel](
            "models",
            ProxyModel,
            models,
            journal,
            name=lambda one: one.name,
            show=_shown,
            busy=busy,
            require=lambda new, old: reachable(new, channels(), old),
        )
        listing = Listing[ProxyModel](
            lambda: models.current,
            lambda: models.current,
            lambda one: one.name,
            lambda one: one.enabled,
        )
        self._one = Resource[ProxyModel](self.managed, listing, self._find, _view, ModelPage)

    def list_proxy_models(self, call: Call) -> Answer:
        """Page by page."""
        return self._one.listed(call)

    def one_proxy_model(self, call: Call) -> Answer:
        """One of them."""
        return self._one.one(call)

    async def add_proxy_model(self, call: Call) -> Answer:
        """One more; it can be called at once."""
        return await self._one.add(call, shapes.made(call.json(NewModel), ProxyModel))

    async def change_proxy_model(self, call: Call) -> Answer:
        """Other ways, prices or limits."""
        wish = call.json(ModelPatch)
        return await self._one.change(call, lambda old: shapes.patched(old, wish))

    async def copy_proxy_model(self, call: Call) -> Answer:
        """One more like it."""
        return await self._one.copy(call, self._models.copy)

    async def enable_proxy_model(self, call: Call) -> Answer:
        """It can be called again."""
        return await self._one.enable(call, True)

    async def disable_proxy_model(self, call: Call) -> Answer:
        """Nobody can call it."""
        return await self._one.enable(call, False)

    async def remove_proxy_model(self, call: Call) -> Answer:
        """One less, unless it is in use."""
        return await self._one.remove(call)

    async def check_proxy_model(self, call: Call) -> Answer:
        """Try its first way step by step; with ``paid`` to the end."""
        model = self._find(call.name())
        channel = self._channels().get(first_way(model).channel)
        if channel is None:
            raise Conflict(
                f'Its first way leads through "{first_way(model).channel}", which is gone'
            )
        wish = Wish(model, flag(call, "paid") or False, call.request_id, call.remote_ip)
        return Answer(checked(await self._checks.check(channel, wish)))

    def _find(self, name: str) -> ProxyModel:
        known = {model.name: model for model in self._models.current}
        if name not in known:
            raise NotFound(f'There is no model "{name[:100]}"{nearest(name, known)}')
        return known[name]


def _view(model: ProxyModel) -> Any:
    return shapes.told(model, ModelView)


def _shown(model: ProxyModel) -> Shown:
    told: Shown = msgspec.to_builtins(_view(model))
    return told
