"""``channels.yml`` of the configuration folder: the suppliers of the model gateway.

It is written by hand, and by the API, which leaves the comments as they are. It may hold keys;
then nobody else may read it.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from msgspec import Struct, structs

from agentd.disk import document, handwritten, secret
from agentd.disk.entries import Entries
from agentd.disk.layout import Layout
from agentd.disk.reload import Reloaded
from agentd.errors import Misconfigured, Mistake
from agentd.proxy.channel import Channel
from agentd.proxy.channels import contradictions, holds_secret
from agentd.proxy.masking import fresh, revised


class ChannelsYml(Struct, frozen=True):
    """The content of ``channels.yml``."""

    channels: tuple[Channel, ...] | None = None


def load(layout: Layout) -> Mapping[str, Channel]:
    """The channels by name, in the file's order; none without a file. Blocking.

    A file that holds a secret itself must be readable by nobody else. Raises ``Misconfigured``
    with every mistake, or ``Unavailable``.
    """
    path = layout.channels
    found = document.read(path, handwritten.LIMIT)
    channels = _parsed(path, found.data) if found else ()
    if any(map(holds_secret, channels)):
        document.read(path, handwritten.LIMIT, private=True)
    return {channel.name: channel for channel in channels}


def check(layout: Layout) -> None:
    """Raise what is wrong with ``channels.yml``, or with a file that it points to. Blocking.

    Variables are not looked up: the daemon's environment is another than that of whoever asks.
    """
    mistakes: list[Mistake] = []
    for channel in load(layout).values():
        for field in secret.FIELDS:
            if secret.written(channel, field).startswith("file:"):
                try:
                    secret.of_channel(channel, {}, field)
                except Misconfigured as error:
                    mistakes += error.mistakes
    if mistakes:
        raise Misconfigured(mistakes)


def entries(layout: Layout) -> Entries[Channel]:
    """How the file is changed, channel by channel; secrets are written as they are given."""
    return Entries(
        layout.channels, ChannelsYml, "channels", _contradictions, "channel", private=True
    )


class ChannelBook:
    """The channels as they are now, and how they are changed.

    ``changed`` is called on the loop when they are others; ``file`` is ``channels.yml`` where it
    is followed already. Secrets may be masked in what is written (``proxy.masking``). Each change
    answers what the channel is then, its secrets in it, and raises what ``Entries`` does.
    """

    def __init__(
        self,
        layout: Layout,
        changed: Callable[[], None] = lambda: None,
        file: Reloaded[Mapping[str, Channel]] | None = None,
    ) -> None:
        none: Mapping[str, Channel] = {}
        self.file = file or Reloaded(layout.channels, partial(load, layout), none, changed)
        self._entries = entries(layout)
        self._writing = asyncio.Lock()

    @property
    def current(self) -> Mapping[str, Channel]:
        """The channels by name, as the file last said without a mistake."""
        return self.file.current

    async def add(self, channel: Channel, *, dry_run: bool = False) -> Channel:
        """One more, at the end."""
        return await self._change(partial(self._entries.add, fresh(channel)), dry_run)

    async def change(
        self, name: str, revise: Callable[[Channel], Channel], *, dry_run: bool = False
    ) -> Channel:
        """``revise`` tells what becomes of the channel of this name; it may be renamed.

        Secrets do not go to another address: ``proxy.masking.carried`` and ``revised``.
        """
        change = partial(self._entries.change, name, lambda old: revised(revise(old), old))
        return await self._change(change, dry_run)

    async def copy(
        self,
        name: str,
        new: str,
        revise: Callable[[Channel], Channel] = lambda channel: channel,
        *,
        dry_run: bool = False,
    ) -> Channel:
        """One more like this one, called ``new``; else as ``change``."""

        def made(old: Channel) -> Channel:
            return revised(revise(structs.replace(old, name=new)), old)

        return await self._change(partial(self._entries.copy, name, made), dry_run)

    async def enable(self, name: str, enabled: bool) -> Channel:
        """Switch it on or off."""
        return await self.change(name, lambda old: structs.replace(old, enabled=enabled))

    async def remove(
        self, name: str, check: Callable[[Channel], object] = bool, *, dry_run: bool = False
    ) -> Channel:
        """One less, unless ``check`` raises.

        Ways of models to it are left out from then on: ask ``Models.using`` first.
        """
        return await self._change(partial(self._entries.remove, name, check), dry_run)

    async def _change(self, change: Callable[..., Channel], dry_run: bool) -> Channel:
        async with self._writing:
            channel = await asyncio.to_thread(change, dry_run=dry_run)
            if not dry_run:
                await self.file.refresh()
        return channel


def _parsed(path: str, data: bytes) -> tuple[Channel, ...]:
    return handwritten.load(path, data, ChannelsYml, _contradictions).channels or ()


def _contradictions(content: ChannelsYml) -> Iterator[tuple[tuple[str | int, ...], str]]:
    return ((("channels", *place), what) for place, what in contradictions(content.channels or ()))
