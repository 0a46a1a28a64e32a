"""Keys that agentd took away: they stay dead in an older file of keys that comes back."""

from collections.abc import Collection, Iterable
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from agentd.access.key import Digest
from agentd.clock import Timestamp
from agentd.disk import document
from agentd.errors import Misconfigured, Mistake

T = TypeVar("T")

_LIMIT = 16 * 1024 * 1024


class Grave(Struct, frozen=True):
    """A key that was taken away."""

    name: str
    sha256: Digest
    at: Timestamp


class RevokedJson(Struct, frozen=True):
    """The content of ``revoked.json``, and of ``proxy/revoked.json``."""

    format: Literal[1] = 1
    revoked: tuple[Grave, ...] = ()


class Graves:
    """One such file. Everything blocks; whoever changes it holds the lock of its keys' file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self) -> tuple[Grave, ...]:
        """All of them. ``Misconfigured`` when the file is damaged or unsafe."""
        return read_json(self._path, RevokedJson, _LIMIT).revoked

    def digests(self) -> frozenset[str]:
        """Those of their keys."""
        return frozenset(grave.sha256 for grave in self.read())

    def change(
        self, *, bury: Iterable[Grave] = (), exhume: Collection[str] = frozenset()
    ) -> tuple[str, ...]:
        """Remember these, and forget those of some digests; the digests that were forgotten."""
        known = self.read()
        left = {grave.sha256: grave for grave in known if grave.sha256 not in exhume}
        gone = tuple(grave.sha256 for grave in known if grave.sha256 not in left)
        after = tuple({**{grave.sha256: grave for grave in bury}, **left}.values())
        if set(after) != set(known):
            write_json(self._path, RevokedJson(revoked=after))
        return gone


def read_json(path: str, shape: type[T], limit: int) -> T:
    """What a small file of the daemon's own holds; its default where there is none.

    Raises ``Misconfigured`` when it is damaged or unsafe, and ``Unavailable``.
    """
    found = document.read(path, limit, guarded=True)
    if found is None:
        return shape()
    try:
        return msgspec.json.decode(found.data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Misconfigured([Mistake(path, 0, f"is damaged: {error}")]) from error


def write_json(path: str, value: Struct) -> None:
    """Write such a file, for people to read. ``Unavailable``."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    document.replace(path, text + b"\n")
