"""The revoked keys, which stay revoked even if an older key file is restored."""

from collections.abc import Collection, Iterable
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from agentd.auth.key import Digest
from agentd.core.clock import Timestamp
from agentd.core.errors import ConfigError, ConfigProblem, Conflict
from agentd.storage import document

T = TypeVar("T")

_LIMIT = 64 * 1024 * 1024
"""The most bytes of the file, for some 400,000 keys."""


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
        """Add keys, and remove those with the digests ``remove``; return the removed digests.

        Raises ``Conflict`` when the file would be larger than what is read: no key would be
        accepted any more, since each might be a revoked one.
        """
        known = self.read()
        left = {key.sha256: key for key in known if key.sha256 not in remove}
        removed = tuple(key.sha256 for key in known if key.sha256 not in left)
        after = tuple({**{key.sha256: key for key in add}, **left}.values())
        if set(after) != set(known):
            text = _format_json(RevokedJson(revoked=after))
            if len(text) > _LIMIT and len(after) > len(known):
                raise Conflict(
                    f"{self._path} is full: it has {len(known):,} revoked keys",
                    "Remove the last entries, the oldest ones, whose keys are in no backup.",
                )
            document.replace_document(self._path, text)
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
    """Write such a file. ``Unavailable``."""
    document.replace_document(path, _format_json(value))


def _format_json(value: Struct) -> bytes:
    """Return the content of such a file, indented for people to read."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
