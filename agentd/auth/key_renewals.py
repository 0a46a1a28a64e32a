"""Regenerated keys whose new value may not have been delivered yet.

Regenerating replaces a key and returns the new one in a response that may never arrive: if the
disk fails, or the daemon is killed before it has answered, nobody has the new key. So the old key
is first recorded in ``renewals.json`` with the digest of the new one; then the key file is
replaced; and only after the response was sent is the old key revoked. A recorded old key is valid
as long as the key file has the new one and that one was neither used nor delivered; the process
that sends the response refuses the old key from just before it. The API keys and the access keys
of the model gateway have one such file each.
"""

from collections.abc import Collection
from typing import Any, Generic, Literal, Protocol, TypeVar

from msgspec import Struct

from agentd.storage.json_document import read_json, write_json

_LIMIT = 16 * 1024 * 1024


class RenewedKey(Protocol):
    """An old key, and the digest of the new one."""

    @property
    def name(self) -> str:
        """The name, which regenerating does not change."""
        ...

    @property
    def new(self) -> str:
        """The digest of the new key."""
        ...

    @property
    def sha256(self) -> str:
        """The digest of the old key."""
        ...


R = TypeVar("R", bound=RenewedKey)


class RenewalsJson(Struct, Generic[R], frozen=True):
    """The content of ``renewals.json``, and of ``proxy/renewals.json``."""

    format: Literal[1] = 1
    renewals: tuple[R, ...] = ()


class RenewalFile(Generic[R]):
    """A file of renewals. All methods block; writers must hold the lock of the key file."""

    def __init__(self, path: str, kind: type[R]) -> None:
        self.path = path
        self._shape: Any = RenewalsJson[kind]  # type: ignore[valid-type]
        self._delivered: frozenset[str] = frozenset()
        """Digests of new keys that this process has delivered, or is about to deliver."""

    def read(self) -> tuple[R, ...]:
        """Return all entries. ``ConfigError`` when the file is damaged or unsafe."""
        content: RenewalsJson[R] = read_json(self.path, self._shape, _LIMIT)
        return content.renewals

    def find_active(self, current: Collection[str], revoked: Collection[str]) -> tuple[R, ...]:
        """Return the entries whose old key is valid.

        ``current`` are the key file's digests. An old key among the ``revoked`` was given up for
        the new one, though the process died before it could remove the entry.
        """
        return tuple(
            one
            for one in self.read()
            if one.new in current and one.new not in self._delivered and one.sha256 not in revoked
        )

    def find_up_to(self, name: str, new: str) -> tuple[R, ...]:
        """Return the entries of a name up to the one for this new key; empty when there is none.

        Later entries stay: their keys have not been delivered yet.
        """
        known = [one for one in self.read() if one.name == name]
        last = max((at for at, one in enumerate(known, 1) if one.new == new), default=0)
        return tuple(known[:last])

    def add(self, renewal: R, current: Collection[str]) -> None:
        """Add an entry, and remove those whose new key is not in the key file any more.

        Those of the same name stay, so that revoking it revokes every key that it had.
        """
        kept = (one for one in self.read() if one.new in current or one.name == renewal.name)
        self._write((*kept, renewal))

    def mark_delivered(self, new: str) -> None:
        """Refuse the old key from now on, because the new one is about to be sent."""
        self._delivered |= {new}

    def mark_undelivered(self, new: str) -> None:
        """Make the old key valid again, because the response with the new one was not sent."""
        self._delivered -= {new}

    def remove(self, ended: Collection[R]) -> None:
        """Remove these entries."""
        known = self.read()
        kept = tuple(one for one in known if one not in ended)
        if kept != known:
            self._write(kept)

    def _write(self, renewals: tuple[R, ...]) -> None:
        write_json(self.path, RenewalsJson(renewals=renewals))
