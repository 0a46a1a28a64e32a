"""A management key as it is stored, and matching a presented key against all of them. Pure."""

import hmac
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Annotated

from msgspec import Meta, Struct

from agentd.auth.key import MAX_KEY_BYTES, Digest, Name, hash_key
from agentd.core import ids
from agentd.core.clock import Timestamp
from agentd.http.access import ManagementScope


class ManagementKey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key of one program that manages the model gateway, as stored in its file."""

    name: Name
    """The name, which the journal of changes shows."""
    scope: ManagementScope
    """``read``: may read all that shows no secrets; ``keys``: may read and change access keys;
    ``all``: may do everything."""
    enabled: bool = True
    """False: it is refused."""
    sha256: Digest
    """The SHA-256 of the salt's digits followed by the key."""
    salt: Annotated[
        str, Meta(pattern="^([0-9a-f]{32})?$", extra={"form": "32 lowercase hexadecimal digits"})
    ] = ""
    """Random hexadecimal digits; empty for a hash that was written by hand."""
    created: Annotated[Timestamp, Meta(max_length=40)] = ""
    """When it was created; empty: by hand."""
    created_by: Annotated[str, Meta(max_length=200)] = ""
    """The creator, such as ``user:ann`` or ``cli``; empty: unknown."""


def issue_management_key(
    name: str, scope: ManagementScope, created: Timestamp, by: str
) -> tuple[str, ManagementKey]:
    """Return a new key, to be shown once, and what is stored of it."""
    key, salt = ids.generate_management_key(), ids.generate_salt()
    digest = hash_key(salt, key.encode())
    return key, ManagementKey(
        name=name, scope=scope, sha256=digest, salt=salt, created=created, created_by=by
    )


class ManagementKeyRing:
    """The keys of the file, disabled ones included; immutable."""

    def __init__(self, keys: Iterable[ManagementKey] = ()) -> None:
        self._keys = {key.name: key for key in keys}
        self._digests = [
            (key.salt.encode(), bytes.fromhex(key.sha256), key) for key in self if key.enabled
        ]

    def __iter__(self) -> Iterator[ManagementKey]:
        return iter(self._keys.values())

    def get(self, name: str) -> ManagementKey | None:
        """Return the key of that name, if any."""
        return self._keys.get(name)

    def find(self, presented: str) -> ManagementKey | None:
        """Return the enabled key that was presented, or ``None``.

        Digests are compared in constant time and always with every key. A comma is of a header
        that was sent twice.
        """
        sent = presented.encode("utf-8", "surrogatepass")
        if not 0 < len(sent) <= MAX_KEY_BYTES or b"," in sent:
            return None
        found = None
        for salt, digest, key in self._digests:
            if hmac.compare_digest(sha256(salt + sent).digest(), digest):
                found = key
        return found

    def find_revoked(self, after: "ManagementKeyRing") -> frozenset[str]:
        """Return the names of keys that ``after`` does not accept, or with another scope."""
        return frozenset(
            key.name
            for key in self
            if key.enabled
            and not (
                (now := after.get(key.name))
                and (now.enabled, now.scope, now.sha256) == (True, key.scope, key.sha256)
            )
        )
