"""The secrets that settings point to: written out, in a variable, or in a file of their own."""

import asyncio
import re
from collections.abc import Mapping
from os.path import expanduser
from typing import Literal, NamedTuple, TypeAlias

from agentd.disk import document
from agentd.disk.document import Stamp
from agentd.errors import Misconfigured, Mistake
from agentd.proxy.channel import Channel, is_reference

LIMIT = 16 * 1024
"""The largest file with a secret in it, in bytes."""

Field: TypeAlias = Literal["key", "transport"]
"""Which of a channel's secrets."""

FIELDS: tuple[Field, ...] = ("key", "transport")


def resolve(secret: str, environ: Mapping[str, str], where: str, whose: str) -> str:
    """What a secret in a settings file stands for: itself, ``env:NAME`` or ``file:PATH``. Blocking.

    Empty when it is. Raises ``Misconfigured`` at ``where`` when it is not to be had, or when
    others could read its file, and says that ``whose`` key must be put there; it is never told.
    """
    if not is_reference(secret):
        return secret
    kind, _, place = secret.partition(":")
    if kind == "env":
        found = environ.get(place, "")
        missing = f"the environment variable {place} is not set"
    else:
        found, missing = _of_file(expanduser(place))
    if not found:
        raise _wrong(where, f"{missing}; put {whose} key there")
    if not re.fullmatch("[!-~]+", found):
        raise _wrong(where, f"what {secret} holds is no key: it has blanks or odd characters")
    return found


class _Kept(NamedTuple):
    stamp: Stamp
    value: str


class SecretBook:
    """The secrets of channels at the moment of use.

    One in a file is read again only when the file is another, so that an ordinary call costs one
    ``stat`` and never waits.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._files: dict[str, _Kept] = {}

    def get(self, channel: Channel, field: Field = "key") -> str | None:
        """The channel's secret, empty if it has none; ``None``: ask ``fetch``.

        Raises ``Misconfigured`` as ``resolve`` does.
        """
        secret = written(channel, field)
        if not secret.startswith("file:"):
            return self._resolved(channel, field)
        kept = self._files.get(secret)
        return kept.value if kept and kept.stamp == document.stamp(_path(secret)) else None

    async def fetch(self, channel: Channel, field: Field = "key") -> str:
        """The channel's secret, read anew. Raises ``Misconfigured`` or ``Unavailable``."""
        secret = written(channel, field)
        stamp = document.stamp(_path(secret))  # before the content: an edit in between is seen
        value = await asyncio.to_thread(self._resolved, channel, field)
        if stamp and secret.startswith("file:"):
            self._files[secret] = _Kept(stamp, value)
        return value

    def _resolved(self, channel: Channel, field: Field) -> str:
        return of_channel(channel, self._environ, field)


def of_channel(channel: Channel, environ: Mapping[str, str], field: Field = "key") -> str:
    """A channel's secret, as ``resolve``. Blocking."""
    where = f"channels.{channel.name}.{'key' if field == 'key' else 'transport.url'}"
    whose = "the supplier's" if field == "key" else "the proxy's address or the VPN's"
    return resolve(written(channel, field), environ, where, whose)


def written(channel: Channel, field: Field) -> str:
    """A channel's secret as it stands in the file."""
    return channel.key if field == "key" else channel.transport.url


def _path(secret: str) -> str:
    return expanduser(secret.removeprefix("file:"))


def _of_file(path: str) -> tuple[str, str]:
    """What the file holds, and how to tell that this is nothing."""
    found = document.read(path, LIMIT, private=True)
    if found is None:
        return "", f"there is no file {path}"
    return found.data.decode("utf-8", "replace").strip(), f"{path} is empty"


def _wrong(where: str, what: str) -> Misconfigured:
    return Misconfigured([Mistake(where, 0, what)])
