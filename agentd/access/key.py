"""Access keys: how one is kept, and whether a presented one is among them.

Specification, sections 2 and 5. A key is 190 random bits, so one salted SHA-256 is enough: there
is nothing to guess, and the keys themselves are not in what is kept.
"""

import hmac
import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from agentd import ids
from agentd.clock import Timestamp
from agentd.errors import BadRequest

ENVIRONMENT = "environment"
"""What the key of ``AGENT_API_KEY`` is called; no named key may be."""

LONGEST = 4096
"""No key is longer, in bytes; what is presented beyond that is not even hashed."""

_NAMED_LENGTH = len(ids.KEY_PREFIX) + ids.KEY_LETTERS

_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"

Name: TypeAlias = Annotated[str, Meta(pattern=_NAME)]
Digest: TypeAlias = Annotated[str, Meta(pattern="[0-9a-f]{64}")]
Salt: TypeAlias = Annotated[str, Meta(pattern="[0-9a-f]{32}")]


class NamedKey(Struct, frozen=True):
    """One device's or program's key, as it is kept."""

    name: Name
    salt: Salt
    sha256: Digest
    """Of the salt's digits followed by the key."""
    created: Annotated[str, Meta(min_length=1, max_length=40)]
    created_by: Annotated[str, Meta(max_length=200)] = ""
    """Who has seen its letters first: ``key:laptop``, ``user:ann`` or ``cli``; empty: not known."""

    def __post_init__(self) -> None:
        if self.name.lower() == ENVIRONMENT:
            raise ValueError(f'"{self.name}" is what the key of AGENT_API_KEY is called')


class Renewal(Struct, frozen=True):
    """A key that was made anew, while nobody is known to have the new one: the old one holds."""

    name: Name
    new: Digest
    """Of the key that stands in the file now."""
    salt: Salt
    sha256: Digest
    """Of the key before, which is good until the new one is."""


def issue(name: str, created: Timestamp, by: str = "") -> tuple[str, NamedKey]:
    """Make a key: the key itself, to be shown once, and what is kept of it."""
    key, salt = ids.new_key(), ids.new_salt()
    return key, NamedKey(name, salt, digest(salt, key.encode()), created, by)


def find_descendants(keys: Iterable[NamedKey], name: str) -> tuple[str, ...]:
    """Return the names of the keys that a key made, that those made, and so on."""
    by_maker: dict[str, list[str]] = {}
    for key in keys:
        by_maker.setdefault(key.created_by, []).append(key.name)
    found: dict[str, None] = {}
    makers = [name]
    while makers:
        made = [one for one in by_maker.get(f"key:{makers.pop()}", ()) if one not in found]
        found.update(dict.fromkeys(made))
        makers += made
    found.pop(name, None)
    return tuple(found)


def check_name(name: str) -> None:
    """Raise ``BadRequest`` for what cannot be the name of a key."""
    if not re.fullmatch(_NAME, name):
        raise BadRequest(
            "A key's name is 1 to 64 letters, digits, dots, dashes and underscores,"
            " beginning with a letter or digit"
        )
    if name.lower() == ENVIRONMENT:
        raise BadRequest(f'"{name}" is what the key of AGENT_API_KEY is called; take another name')


def digest(salt: str, key: bytes) -> str:
    """The salted SHA-256 of a key, in lowercase hexadecimal digits."""
    return sha256(salt.encode() + key).hexdigest()


class KeyRing:
    """The keys that are good now; it does not change.

    ``environment`` is the hash in ``AGENT_API_KEY``, or empty. ``defined`` tells that the file
    names keys, though none of them may be good (revoked, or the file is damaged): the remote API
    is then configured, and whoever calls is refused rather than told that it is off.
    ``configured`` tells whether there is any source of keys, ``digests`` the digest by name;
    ``renewals`` are keys before those, which are still good.
    """

    def __init__(
        self,
        environment: str = "",
        named: Iterable[NamedKey] = (),
        *,
        defined: bool = False,
        renewals: Iterable[Renewal] = (),
    ) -> None:
        kept = list(named)
        self.configured = bool(environment or kept or defined)
        self.digests = {key.name: key.sha256 for key in kept}
        self._environment = bytes.fromhex(environment)
        secrets = [(key.salt, key.sha256, key.name) for key in kept]
        secrets += [(one.salt, one.sha256, one.name) for one in renewals]
        self._named = [
            (salt.encode(), bytes.fromhex(sha256), name) for salt, sha256, name in secrets
        ]

    def match(self, presented: str) -> str | None:
        """The name of the key that was presented, or ``None``."""
        found = self.find(presented)
        return found[0] if found else None

    def find(self, presented: str) -> tuple[str, str] | None:
        """The name and the digest of the key that was presented, or ``None``.

        Digests are compared in constant time and always with every key. What no key can be
        (empty, too long, with a comma: a header that came twice) is not hashed at all.
        """
        key = presented.encode("utf-8", "surrogatepass")
        if not key or len(key) > LONGEST or b"," in key:
            return None
        found = None
        if self._environment and hmac.compare_digest(sha256(key).digest(), self._environment):
            found = ENVIRONMENT, ""
        if len(key) == _NAMED_LENGTH:
            for salt, expected, name in self._named:
                if hmac.compare_digest(sha256(salt + key).digest(), expected):
                    found = name, expected.hex()
        return found
