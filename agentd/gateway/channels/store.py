"""``channels.yml`` of the configuration folder: the suppliers of the model gateway.

It is written by hand, and by the API, which leaves the comments as they are. It may hold keys;
then nobody else may read it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct, structs

from agentd.core.errors import ConfigError, ConfigProblem
from agentd.gateway.channels import secrets as channel_secrets
from agentd.gateway.channels.masking import apply_edit, require_no_mask
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.validation import holds_secret, validate
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile
from agentd.storage.yaml import reader as yaml_reader
from agentd.storage.yaml.entries import NamedEntries, WatchedEntries


class ChannelsYml(Struct, frozen=True):
    """The content of ``channels.yml``."""

    channels: tuple[Channel, ...] | None = None


def load(layout: Layout) -> Mapping[str, Channel]:
    """Return the channels by name, in the file's order; none without a file. Blocking.

    A file that holds a secret itself must be readable by nobody else. Raises ``ConfigError``
    with every problem, or ``Unavailable``.
    """
    path = layout.channels
    found = document.read_document(path, yaml_reader.MAX_FILE_SIZE)
    channels = _parse(path, found.data) if found else ()
    if any(map(holds_secret, channels)):
        document.read_document(path, yaml_reader.MAX_FILE_SIZE, private=True)
    return {channel.name: channel.clear_outdated() for channel in channels}


def check(layout: Layout) -> None:
    """Raise if ``channels.yml``, or a file that it refers to, is invalid. Blocking.

    Variables are not looked up: the daemon's environment differs from that of this process.
    """
    problems: list[ConfigProblem] = []
    for channel in load(layout).values():
        for field in (*channel.key_fields, channel_secrets.TRANSPORT):
            if channel_secrets.get_reference(channel, field).startswith("file:"):
                try:
                    channel_secrets.resolve_channel_secret(channel, {}, field)
                except ConfigError as error:
                    problems += error.problems
    if problems:
        raise ConfigError(problems)


def watch_channels(
    layout: Layout, changed: Callable[[], None]
) -> WatchedFile[Mapping[str, Channel]]:
    """Return the file as it is followed; ``changed`` is called on the loop when it changes."""
    nothing: Mapping[str, Channel] = {}
    return WatchedFile(layout.channels, partial(load, layout), nothing, changed)


def open_entries(layout: Layout) -> NamedEntries[Channel]:
    """Return the editor of the file's channels; secrets are written as they are given."""
    return NamedEntries(
        layout.channels, ChannelsYml, "channels", _validate, "channel", private=True
    )


class ChannelRepository(WatchedEntries[Channel]):
    """The channels as they are now, and how they are changed; ``file`` is followed already.

    Secrets may be masked in what is written (``masking``). Each change returns what the channel is
    then, with its secrets.
    """

    def __init__(self, layout: Layout, file: WatchedFile[Mapping[str, Channel]]) -> None:
        super().__init__(open_entries(layout), file)
        self.file = file

    @property
    def current(self) -> Mapping[str, Channel]:
        """The channels by name, as of the last valid version of the file."""
        return self.file.current

    async def add(self, channel: Channel, *, dry_run: bool = False) -> Channel:
        """Add a channel at the end."""
        return await super().add(require_no_mask(channel), dry_run=dry_run)

    async def add_all(
        self, added: Sequence[Channel], *, dry_run: bool = False
    ) -> Sequence[Channel]:
        """Add several channels at the end, all or none."""
        return await super().add_all([*map(require_no_mask, added)], dry_run=dry_run)

    async def change(
        self, name: str, revise: Callable[[Channel], Channel], *, dry_run: bool = False
    ) -> Channel:
        """Replace a channel; its secrets are not sent to another address (``apply_edit``)."""

        def edit(old: Channel) -> Channel:
            return apply_edit(revise(old), old).clear_outdated()

        return await super().change(name, edit, dry_run=dry_run)

    async def edit_all(
        self,
        names: Sequence[str],
        revise: Callable[[Channel], Channel | None],
        added: Sequence[Channel] = (),
        *,
        dry_run: bool = False,
    ) -> list[tuple[Channel | None, Channel | None]]:
        """Revise channels (``None`` removes one) and add others, all or none."""

        def edit(old: Channel) -> Channel | None:
            new = revise(old)
            return apply_edit(new, old).clear_outdated() if new else None

        return await super().edit_all(names, edit, [*map(require_no_mask, added)], dry_run=dry_run)

    async def copy(self, name: str, new: str, *, dry_run: bool = False) -> Channel:
        """Add a copy of a channel, named ``new``."""
        revise = partial(structs.replace, name=new)
        return await self.write(partial(self.entries.copy, name, revise), dry_run=dry_run)


def _parse(path: str, data: bytes) -> tuple[Channel, ...]:
    return yaml_reader.load_yaml(path, data, ChannelsYml, _validate).channels or ()


def _validate(content: ChannelsYml) -> Iterator[tuple[tuple[str | int, ...], str]]:
    return ((("channels", *place), what) for place, what in validate(content.channels or ()))
