"""``channels.yml`` of the configuration folder: the suppliers of the model gateway.

It is written by hand, and by the API, which leaves the comments as they are. It may hold keys;
then nobody else may read it.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from agentd.disk import document, handwritten, secret
from agentd.disk.layout import Layout
from agentd.errors import Misconfigured, Mistake
from agentd.proxy.channel import Channel
from agentd.proxy.channels import contradictions, holds_secret


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


def _parsed(path: str, data: bytes) -> tuple[Channel, ...]:
    return handwritten.load(path, data, ChannelsYml, _contradictions).channels or ()


def _contradictions(content: ChannelsYml) -> Iterator[tuple[tuple[str | int, ...], str]]:
    return ((("channels", *place), what) for place, what in contradictions(content.channels or ()))
