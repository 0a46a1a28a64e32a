"""The revoked keys, which stay revoked even if an older key file is restored."""

from collections.abc import Collection, Iterable
from typing import Literal

from msgspec import Struct

from agentd.auth.key import Digest
from agentd.core.clock import Timestamp
from agentd.core.errors import Conflict
from agentd.storage import document
from agentd.storage.json_document import format_json, read_json

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
            text = format_json(RevokedJson(revoked=after))
            if len(text) > _LIMIT and len(after) > len(known):
                raise Conflict(
                    f"{self._path} is full: it has {len(known):,} revoked keys",
                    "Remove the last entries, the oldest ones, whose keys are in no backup.",
                )
            document.replace_document(self._path, text)
        return removed
