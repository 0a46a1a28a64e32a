"""The revoked keys, which stay revoked even if an older key file is restored."""

from collections.abc import Collection, Iterable
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from agentd.auth.key import Digest
from agentd.core.clock import Timestamp
from agentd.core.errors import ConfigError, ConfigProblem
from agentd.storage import document

T = TypeVar("T")

_LIMIT = 16 * 1024 * 1024


class RevokedKey(Struct, frozen=True):
    """A revoked key."""

    name: str
    sha256: Digest
    at: Timestamp


class RevokedJson(Struct, frozen=True):
    """The content of ``revoked.json``, and of ``proxy/revoked.json``."""

    format: Literal[1] = 1
    revoked: tuple[RevokedKey, ...] = ()


class RevokedKeys:
    """A file of revoked keys. All methods block; writers must hold the lock of the key file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self) -> tuple[RevokedKey, ...]:
        """Return all revoked keys. ``ConfigError`` when the file is damaged or unsafe."""
        return read_json(self._path, RevokedJson, _LIMIT).revoked

    def read_digests(self) -> frozenset[str]:
        """Return the digests of all revoked keys."""
        return frozenset(key.sha256 for key in self.read())

    def update(
        self, *, add: Iterable[RevokedKey] = (), remove: Collection[str] = frozenset()
    ) -> tuple[str, ...]:
        """Add keys, and remove those with the digests ``remove``; return the removed digests."""
        known = self.read()
        left = {key.sha256: key for key in known if key.sha256 not in remove}
        removed = tuple(key.sha256 for key in known if key.sha256 not in left)
        after = tuple({**{key.sha256: key for key in add}, **left}.values())
        if set(after) != set(known):
            write_json(self._path, RevokedJson(revoked=after))
        return removed


def read_json(path: str, shape: type[T], limit: int) -> T:
    """Return the content of a small file of the daemon's own; the default if there is none.

    Raises ``ConfigError`` when it is damaged or unsafe, and ``Unavailable``.
    """
    found = document.read_document(path, limit, own=True)
    if found is None:
        return shape()
    try:
        return msgspec.json.decode(found.data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError([ConfigProblem(path, 0, f"is damaged: {error}")]) from error


def write_json(path: str, value: Struct) -> None:
    """Write such a file, indented for people to read. ``Unavailable``."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    document.replace_document(path, text + b"\n")
