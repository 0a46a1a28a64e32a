"""The channels: the suppliers of the model gateway, as they are managed."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from agentd.catalog.models import Models
from agentd.errors import NotFound, nearest
from agentd.proxy.channel import Channel
from agentd.proxy.masking import shown
from agentd.web.call import Answer, Call
from agentd.web.manage import shapes
from agentd.web.manage.listing import Listing

ChannelView = shapes.shown(Channel, models=tuple[str, ...])
"""A channel, its secrets masked, and the ``models`` that have a way through it."""
ChannelPage = shapes.listed(ChannelView)


class Channels(Protocol):
    """Who keeps them (``disk.channels.ChannelBook``)."""

    @property
    def current(self) -> Mapping[str, Channel]:
        """By name."""
        ...


class ChannelDesk:
    """The endpoints below ``/api/agent/channels``; ``models`` tells what ``models.yml`` says."""

    def __init__(self, channels: Channels, models: Callable[[], Models]) -> None:
        self._channels = channels
        self._models = models
        self._listing = Listing[Channel](
            lambda: channels.current, self._all, lambda one: one.name, lambda one: one.enabled
        )

    def list_channels(self, call: Call) -> Answer:
        """Page by page."""
        found, after = self._listing.page(call)
        return Answer(ChannelPage(items=list(map(self._view, found)), next=after))

    def one_channel(self, call: Call) -> Answer:
        """One of them."""
        return Answer(self._view(self._find(call.name())))

    def _all(self) -> Iterable[Channel]:
        return self._channels.current.values()

    def _find(self, name: str) -> Channel:
        known = self._channels.current
        if name not in known:
            raise NotFound(f'There is no channel "{name[:100]}"{nearest(name, known)}')
        return known[name]

    def _view(self, channel: Channel) -> object:
        using = self._models().using(channel.name)
        return shapes.told(shown(channel), ChannelView, models=using)
