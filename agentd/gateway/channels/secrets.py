"""The secrets of channels at the moment of use."""

import asyncio
from collections.abc import Callable, Mapping
from os.path import expanduser
from typing import NamedTuple, TypeAlias

from agentd.gateway.channels.model import Channel
from agentd.storage import document
from agentd.storage.document import FileStamp
from agentd.storage.secret_ref import resolve_secret

SecretField: TypeAlias = str
"""Where a channel's secret is: one of ``Channel.key_fields``, or ``transport``."""

TRANSPORT: SecretField = "transport"


class _CachedSecret(NamedTuple):
    stamp: FileStamp
    value: str


class ChannelSecrets:
    """The secrets of channels at the moment of use.

    A secret in a file is read again only if the file changed, so that an ordinary call costs one
    ``stat`` and never waits. ``on_replaced`` is called when such a file has another secret.
    """

    def __init__(
        self, environ: Mapping[str, str], on_replaced: Callable[[], None] = lambda: None
    ) -> None:
        self._environ = environ
        self._on_replaced = on_replaced
        self._files: dict[str, _CachedSecret] = {}

    def get(self, channel: Channel, field: SecretField = "key") -> str | None:
        """Return the channel's secret, empty if it has none; ``None``: ask ``fetch``.

        Raises ``ConfigError`` as ``resolve_secret`` does.
        """
        secret = get_reference(channel, field)
        if not secret.startswith("file:"):
            return self._resolve(channel, field)
        kept = self._files.get(secret)
        return (
            kept.value
            if kept and kept.stamp == document.get_stamp(_get_file_path(secret))
            else None
        )

    async def fetch(self, channel: Channel, field: SecretField = "key") -> str:
        """Read the channel's secret again. Raises ``ConfigError`` or ``Unavailable``."""
        secret = get_reference(channel, field)
        stamp = document.get_stamp(
            _get_file_path(secret)
        )  # before the content: an edit in between is seen
        value = await asyncio.to_thread(self._resolve, channel, field)
        if stamp and secret.startswith("file:"):
            before = self._files.get(secret)
            self._files[secret] = _CachedSecret(stamp, value)
            if before and before.value != value:
                self._on_replaced()
        return value

    def _resolve(self, channel: Channel, field: SecretField) -> str:
        return resolve_channel_secret(channel, self._environ, field)


def resolve_channel_secret(
    channel: Channel, environ: Mapping[str, str], field: SecretField = "key"
) -> str:
    """Return a channel's secret, as ``resolve_secret``. Blocking."""
    is_transport = field == TRANSPORT
    where = f"channels.{channel.name}.{'transport.url' if is_transport else field}"
    whose = "the proxy's address or the VPN's" if is_transport else "the supplier's"
    return resolve_secret(get_reference(channel, field), environ, where, whose)


def get_reference(channel: Channel, field: SecretField) -> str:
    """Return a channel's secret as written in the file."""
    return channel.transport.url if field == TRANSPORT else channel.get_key(field)


def _get_file_path(secret: str) -> str:
    return expanduser(secret.removeprefix("file:"))
