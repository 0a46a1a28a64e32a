"""API keys: how they are hashed, and matching a presented key against them.

Specification, sections 2 and 5. A key has 190 random bits, so one salted SHA-256 is enough: it
cannot be guessed from its hash, and only hashes are stored.
"""

import hmac
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from agentd.core import ids
from agentd.core.clock import Timestamp
from agentd.core.errors import BadRequest

ENVIRONMENT = "environment"
"""The name of the key of ``AGENT_API_KEY``; no named key may have it."""

MAX_KEY_BYTES = 4096
"""The most bytes of a key; anything longer is refused without hashing it."""

_NAMED_LENGTH = len(ids.KEY_PREFIX) + ids.KEY_LENGTH

_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
NAME_FORM = "at most 64 letters, digits and . _ -, not beginning with a sign"

Name: TypeAlias = Annotated[
    str,
    Meta(
        pattern=_NAME,
        extra={"form": NAME_FORM},
    ),
]
Digest: TypeAlias = Annotated[
    str, Meta(pattern="[0-9a-f]{64}", extra={"form": "64 lowercase hexadecimal digits"})
]
Salt: TypeAlias = Annotated[
    str, Meta(pattern="[0-9a-f]{32}", extra={"form": "32 lowercase hexadecimal digits"})
]


class NamedKey(Struct, frozen=True):
    """The API key of one device or program, as it is stored."""

    name: Name
    salt: Salt
    sha256: Digest
    """The SHA-256 of the salt's hexadecimal digits followed by the key."""
    created: Annotated[str, Meta(min_length=1, max_length=40)]
    created_by: Annotated[str, Meta(max_length=200)] = ""
    """The creator: ``key:laptop``, ``user:ann`` or ``cli``; empty: unknown."""
    answers: bool = True
    """False: the key may not decide what agents ask people (the scope ``answers``)."""

    def __post_init__(self) -> None:
        if self.name.lower() == ENVIRONMENT:
            raise ValueError(f'the name "{self.name}" is reserved for the key of AGENT_API_KEY')


class AccessKeyRef(Struct, frozen=True):
    """An access key of the model gateway, as listed with the API key that made it."""

    id: str
    name: str


class Renewal(Struct, frozen=True):
    """A regenerated key whose new value may not have reached anybody: the old one stays valid."""

    name: Name
    new: Digest
    """The digest of the new key, which is in the key file now."""
    salt: Salt
    sha256: Digest
    """The digest of the old key, which is valid until the new one is delivered."""


def issue_key(
    name: str, created: Timestamp, by: str = "", *, answers: bool = True
) -> tuple[str, NamedKey]:
    """Return a new key, to be shown once, and what is stored of it."""
    key, salt = ids.generate_key(), ids.generate_salt()
    return key, NamedKey(name, salt, hash_key(salt, key.encode()), created, by, answers)


def find_descendants(keys: Iterable[NamedKey], name: str) -> tuple[str, ...]:
    """Return the names of the keys that a key made, directly or through other keys."""
    by_creator: dict[str, list[str]] = {}
    for key in keys:
        by_creator.setdefault(key.created_by, []).append(key.name)
    found: dict[str, None] = {}
    creators = [name]
    while creators:
        made = [one for one in by_creator.get(f"key:{creators.pop()}", ()) if one not in found]
        found.update(dict.fromkeys(made))
        creators += made
    found.pop(name, None)
    return tuple(found)


def find_gateway_keys(
    by_creator: Mapping[str, tuple[AccessKeyRef, ...]], names: Iterable[str]
) -> tuple[AccessKeyRef, ...]:
    """Return the access keys that API keys made; ``by_creator`` has keys as ``key:laptop``."""
    return tuple(one for name in names for one in by_creator.get(f"key:{name}", ()))


def check_name(name: str) -> None:
    """Raise ``BadRequest`` for an invalid name of a key."""
    if not re.fullmatch(_NAME, name):
        raise BadRequest(
            "The name of a key has 1 to 64 letters, digits, dots, dashes and underscores,"
            " and begins with a letter or digit"
        )
    if name.lower() == ENVIRONMENT:
        raise BadRequest(
            f'The name "{name}" is reserved for the key of AGENT_API_KEY; choose another name'
        )


def hash_key(salt: str, key: bytes) -> str:
    """Return the salted SHA-256 of a key, in lowercase hexadecimal digits."""
    return sha256(salt.encode() + key).hexdigest()


class KeyRing:
    """The valid API keys; immutable.

    ``environment`` is the hash in ``AGENT_API_KEY``, or empty. ``defined`` means that the file
    defines keys, though none of them may be valid (revoked, or the file is damaged): the remote
    API is then configured, so that callers get 401 instead of "disabled". ``is_configured`` is
    whether there is any source of keys, ``digests`` the digest of each key by name, ``silent`` the
    names of keys without the scope ``answers``; ``renewals`` are old keys that are still valid.
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
        self.is_configured = bool(environment or kept or defined)
        self.digests = {key.name: key.sha256 for key in kept}
        self.silent = frozenset(key.name for key in kept if not key.answers)
        self._environment = bytes.fromhex(environment)
        secrets = [(key.salt, key.sha256, key.name) for key in kept]
        secrets += [(one.salt, one.sha256, one.name) for one in renewals]
        self._named = [
            (salt.encode(), bytes.fromhex(sha256), name) for salt, sha256, name in secrets
        ]

    def match(self, presented: str) -> str | None:
        """Return the name of a valid key, or ``None``."""
        found = self.find(presented)
        return found[0] if found else None

    def may_answer(self, name: str) -> bool:
        """Return whether the key of this name has the scope ``answers``."""
        return name not in self.silent

    def find(self, presented: str) -> tuple[str, str] | None:
        """Return the name and the digest of a valid key, or ``None``.

        Digests are compared in constant time and always with every key. What cannot be a key
        (empty, too long, or with a comma: a header that was sent twice) is not hashed at all.
        """
        key = presented.encode("utf-8", "surrogatepass")
        if not key or len(key) > MAX_KEY_BYTES or b"," in key:
            return None
        found = None
        if self._environment and hmac.compare_digest(sha256(key).digest(), self._environment):
            found = ENVIRONMENT, ""
        if len(key) == _NAMED_LENGTH:
            for salt, expected, name in self._named:
                if hmac.compare_digest(sha256(salt + key).digest(), expected):
                    found = name, expected.hex()
        return found
