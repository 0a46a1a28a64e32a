"""The channels: the suppliers of the model gateway, as they are managed."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta

from agentd.catalog.models import Models
from agentd.errors import BadRequest, NotFound, nearest
from agentd.proxy.channel import Channel
from agentd.proxy.management.changes import Shown
from agentd.proxy.management.check import request_by
from agentd.proxy.management.service import Book, Journal, Managed
from agentd.proxy.masking import by_value, carried, shown
from agentd.web.call import Answer, Call
from agentd.web.manage import shapes
from agentd.web.manage.checks import Checks, Wish, checked
from agentd.web.manage.listing import Listing, flag
from agentd.web.manage.resource import Resource

ChannelView = shapes.shown(
    Channel,
    models=Annotated[tuple[str, ...], Meta(description="The models that are had through it.")],
)
"""A channel, its secrets masked, and the ``models`` that have a way through it."""
ChannelPage = shapes.listed(ChannelView)
NewChannel = shapes.new(Channel)
ChannelPatch = shapes.patch(Channel, readonly=("models",))


class Channels(Book[Channel], Protocol):
    """Who keeps them (``disk.channels.ChannelBook``)."""

    @property
    def current(self) -> Mapping[str, Channel]:
        """By name."""
        ...

    async def copy(
        self,
        name: str,
        new: str,
        revise: Callable[[Channel], Channel] = lambda channel: channel,
        *,
        dry_run: bool = False,
    ) -> Channel:
        """One more like this one."""
        ...


class ChannelDesk:
    """The endpoints below ``/api/agent/channels``.

    ``models`` tells what ``models.yml`` says, ``busy`` what else needs a channel, and ``checks``
    tries one.
    """

    def __init__(
        self,
        channels: Channels,
        models: Callable[[], Models],
        journal: Journal,
        busy: Callable[[Channel], str],
        checks: Checks,
    ) -> None:
        self._checks = checks
        self._known: tuple[Models | None, Mapping[str, tuple[str, ...]]] = (None, {})
        self._views: dict[str, tuple[Channel, tuple[str, ...], Any]] = {}
        self._views_of: object = None
        self._channels = channels
        self._models = models
        self.managed = Managed[Channel](
            "channels",
            Channel,
            channels,
            journal,
            name=lambda one: one.name,
            show=self._shown,
            busy=busy,
        )
        listing = Listing[Channel](
            lambda: channels.current, self._all, lambda one: one.name, lambda one: one.enabled
        )
        self._one = Resource[Channel](self.managed, listing, self._find, self._view, ChannelPage)

    def list_channels(self, call: Call) -> Answer:
        """Page by page."""
        return self._one.listed(call)

    def one_channel(self, call: Call) -> Answer:
        """One of them."""
        return self._one.one(call)

    async def add_channel(self, call: Call) -> Answer:
        """One more; requests can go through it at once."""
        wish = by_value(shapes.made(call.json(NewChannel), Channel))
        return await self._one.add(call, wish)

    async def change_channel(self, call: Call) -> Answer:
        """Another key, address, …; a key does not go to another address."""
        wish = call.json(ChannelPatch)

        def revise(old: Channel) -> Channel:
            along = carried(old, shapes.patched(old, wish))
            return by_value(shapes.patched(along, wish), old)

        return await self._one.change(call, revise)

    async def copy_channel(self, call: Call) -> Answer:
        """One more like it, with its secrets."""
        return await self._one.copy(call, self._channels.copy)

    async def enable_channel(self, call: Call) -> Answer:
        """Requests go through it again."""
        return await self._one.enable(call, True)

    async def disable_channel(self, call: Call) -> Answer:
        """No request goes through it."""
        return await self._one.enable(call, False)

    async def remove_channel(self, call: Call) -> Answer:
        """One less, unless it is in use."""
        return await self._one.remove(call)

    async def check_channel(self, call: Call) -> Answer:
        """Try it step by step; with ``paid`` to the end."""
        channel = self._find(call.name())
        known = {one.name: one for one in self._models().proxy}
        named = call.query("model")
        if named and named not in known:
            raise BadRequest(f'There is no model "{named[:100]}"{nearest(named, known)}')
        model = known.get(named or next(iter(self._models().using(channel.name)), ""))
        paid = flag(call, "paid") or False
        if paid and (model is None or request_by(channel, model) is None):
            raise BadRequest("No model leads through this channel", "Name one that does: model=…")
        wish = Wish(model, paid, call.request_id, call.remote_ip)
        return Answer(checked(await self._checks.check(channel, wish)))

    def _all(self) -> Iterable[Channel]:
        return self._channels.current.values()

    def _find(self, name: str) -> Channel:
        known = self._channels.current
        if name not in known:
            raise NotFound(f'There is no channel "{name[:100]}"{nearest(name, known)}')
        return known[name]

    def _view(self, channel: Channel) -> Any:
        """Made once for as long as the channel and its models stay: a page may have 200."""
        if self._views_of is not self._channels.current:
            self._views, self._views_of = {}, self._channels.current
        using = self._used().get(channel.name, ())
        known = self._views.get(channel.name)
        if known is None or known[0] is not channel or known[1] is not using:
            view = shapes.told(shown(channel), ChannelView, models=using)
            known = self._views[channel.name] = channel, using, view
        return known[2]

    def _used(self) -> Mapping[str, tuple[str, ...]]:
        """The models that lead through each channel; looked up once for as long as they stay."""
        now = self._models()
        if self._known[0] is not now:
            self._known = (now, now.by_channel)
        return self._known[1]

    def _shown(self, channel: Channel) -> Shown:
        told: Shown = msgspec.to_builtins(shapes.told(shown(channel), shapes.shown(Channel)))
        return told
