"""The keys of the model gateway: how one is kept, what it may call, and how much.

An access key is ``sk-agentd-``, the 12 letters of its id, a dash and 32 random letters. The id is
no secret: it finds the key among thousands by one look, so one salted SHA-256 decides.
"""

import hmac
import re
import unicodedata
from collections.abc import Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct, structs

from agentd.core import ids
from agentd.core.clock import Timestamp, format_iso_rounded_up, parse_iso
from agentd.gateway.keys.limits import (
    GLOB_PATTERN,
    NO_LIMITS,
    Glob,
    KeyLimits,
    LimitRaise,
    SoftLimits,
    WarnShare,
    parse_moment,
    raise_limits,
)

PREFIX = ids.ACCESS_KEY_PREFIX
_KEY_ID = re.compile("[A-Za-z0-9]{12}")
KEY_PATTERN = re.compile(r"sk-agentd-([A-Za-z0-9]{12})-[A-Za-z0-9]{32}")
"""The form of our keys; its group is the key's id."""

MAX_LABEL = 100
"""The longest owner or tag, in characters."""

MAX_TAGS = 20
"""The most tags of one key."""

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=100)]


class SecretHash(Struct, frozen=True):
    """The salted hash of a key: the key cannot be recovered from it."""

    salt: Annotated[
        str, Meta(pattern="^[0-9a-f]{32}$", extra={"form": "32 lowercase hexadecimal digits"})
    ]
    sha256: Annotated[
        str,
        Meta(
            pattern="^[0-9a-f]{64}$",
            extra={"secret": True, "form": "64 lowercase hexadecimal digits"},
        ),
    ]
    last4: Annotated[
        str, Meta(pattern="^[A-Za-z0-9]{4}$", extra={"form": "the key's last 4 letters and digits"})
    ]

    def matches(self, presented: str) -> bool:
        """Return whether this is the key; in constant time."""
        made = _digest(self.salt, presented)
        return hmac.compare_digest(made, bytes.fromhex(self.sha256))


class AccessKey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key of the model gateway, as stored in ``access-keys.yml``.

    Moments may be written as any ISO 8601 one; they are kept in the one form of ``clock``.
    Raises ``ValueError`` for what is no moment, and for a name that no terminal could show.
    """

    id: Annotated[str, Meta(pattern="^[A-Za-z0-9]{12}$", extra={"form": "12 letters and digits"})]
    """The id, part of the key; it stays the same after a reissue."""
    name: Name
    """The name for people; no two keys share one."""
    secret: SecretHash
    """The hash that a presented key is compared with."""
    created: Timestamp
    """The time of its creation."""
    enabled: bool = True
    """True if it is accepted."""
    expires: Timestamp | None = None
    """When it expires; null: never."""
    models: tuple[Glob, ...] | None = None
    """Exact names or patterns with ``*`` and ``?``; absent: all, empty: none."""
    channels: tuple[Glob, ...] | None = None
    """The channels that its requests may use, in the same form."""
    addresses: tuple[Annotated[str, Meta(max_length=50)], ...] | None = None
    """Addresses and networks (CIDR) of its callers; absent: all, empty: none."""
    limits: KeyLimits = KeyLimits()
    """The limits on its spending and usage."""
    model_limits: dict[Glob, KeyLimits] = {}
    """Limits on requests for some models, by name or pattern; all that match hold."""
    soft_limits: SoftLimits = SoftLimits()
    """Amounts that warn when they are spent."""
    warn_at: WarnShare | None = None
    """The share of each limit in USD that warns when it is spent, such as 0.8; null: none does."""
    raised: LimitRaise | None = None
    """Higher limits for a while."""
    owner: Annotated[str, Meta(max_length=MAX_LABEL)] = ""
    """Who answers for its spending, such as an address or a team; empty: nobody."""
    tags: tuple[Annotated[str, Meta(min_length=1, max_length=MAX_LABEL)], ...] = ()
    """Words by which keys are grouped, such as a project or a cost centre."""
    keep_bodies: bool = False
    """True if the bodies of its requests are stored, with secrets masked."""
    before: SecretHash | None = None
    """The secret before the last reissue ..."""
    before_until: Timestamp | None = None
    """... and until when they are still good."""
    created_by: Annotated[str, Meta(max_length=200)] = ""
    """The creator, such as ``key:laptop``, ``user:ann``, ``management`` or ``cli``.

    Empty: not known.
    """

    def __post_init__(self) -> None:
        if not self.name.isprintable() or self.name != self.name.strip():
            raise ValueError("name: expected visible characters, without blanks at the ends")
        if self.addresses:
            parse_networks(self.addresses)
        if self.owner or self.tags or self.model_limits:
            _require_valid_groups(self)
        for field in ("created", "expires", "before_until"):
            text = getattr(self, field)
            if text is not None:
                structs.force_setattr(self, field, parse_moment(field, text))
        if (self.before is None) != (self.before_until is None):
            raise ValueError("before and before_until go together; one is missing")

    @property
    def has_calendar_limit(self) -> bool:
        """True if its spending is limited by day, week or month, in total or of some models."""
        return any(one.has_calendar_limit for one in (self.limits, *self.model_limits.values()))

    def matches(self, presented: str, now: Timestamp) -> bool:
        """Return whether this is its secret, or the previous one during the grace period."""
        return _matches(self, presented, now)

    def is_expired(self, now: Timestamp) -> bool:
        """Return whether the key has expired."""
        return self.expires is not None and now >= self.expires

    def is_active(self, now: Timestamp) -> bool:
        """Return whether the key can be used now."""
        return self.enabled and not self.is_expired(now)

    def may_call(self, model: str) -> bool:
        """Return whether the key allows this model."""
        return self.models is None or any(fnmatchcase(model, one) for one in self.models)

    def may_use(self, channel: str) -> bool:
        """Return whether requests of the key may go through this channel."""
        return self.channels is None or any(fnmatchcase(channel, one) for one in self.channels)

    def may_come_from(self, address: str) -> bool:
        """Return whether requests of the key may come from this address of a client."""
        return self.addresses is None or _is_within(address, self.addresses)

    def get_limits(self, now: Timestamp) -> KeyLimits:
        """Return the limits that hold at a moment, with those that are raised then."""
        if self.raised is None or now >= self.raised.until:
            return self.limits
        return raise_limits(self.limits, self.raised.limits)

    @property
    def limits_models_in_total(self) -> bool:
        """True if a limit on models never resets, so that all they ever cost counts."""
        return any(limits.total is not None for limits in self.model_limits.values())

    def get_model_limits(self, pattern: str, now: Timestamp) -> KeyLimits:
        """Return the limits that hold at a moment for what ``model_limits`` names so."""
        limits = self.model_limits[pattern]
        if self.raised is None or now >= self.raised.until:
            return limits
        return raise_limits(limits, self.raised.models.get(pattern, NO_LIMITS))


class PendingReissue(Struct, frozen=True, omit_defaults=True):
    """A reissue whose delivery is not confirmed: the previous secret stays valid."""

    key_id: Annotated[str, Meta(pattern="^[A-Za-z0-9]{12}$")]
    new: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    """The digest of the secret that the key has in its file."""
    secret: SecretHash
    """The previous secret, valid until somebody is known to have the new one ..."""
    before: SecretHash | None = None
    """... and the one before, valid beside it ..."""
    before_until: Timestamp | None = None
    """... until then."""

    @property
    def name(self) -> str:
        """The permanent name: the key's id, because people may rename the key."""
        return self.key_id

    @property
    def sha256(self) -> str:
        """The digest of the previous secret."""
        return self.secret.sha256

    def matches(self, presented: str, now: Timestamp) -> bool:
        """Return whether this is the previous secret, or the one before in its grace period."""
        return _matches(self, presented, now)


@lru_cache(maxsize=1000)
def parse_networks(addresses: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    """Return addresses and networks as networks. Raises ``ValueError`` for what is neither."""
    found = []
    for one in addresses:
        try:
            found.append(ip_network(one, strict=False))
        except ValueError as error:
            raise ValueError(
                f"addresses: {one[:50]!r} is not an address or network; expected one such as"
                " 192.0.2.7 or 10.0.0.0/8"
            ) from error
    return tuple(found)


def is_key_id(text: str) -> bool:
    """Return whether this has the form of an access key's id."""
    return bool(_KEY_ID.fullmatch(text))


def casefold_name(name: str) -> str:
    """Return the same for all names that a reader would take for one."""
    return unicodedata.normalize("NFC", name).casefold()


def issue(name: str, created: Timestamp, by: str = "") -> tuple[str, AccessKey]:
    """Make a key: the key itself, to be shown once, and what is kept of it. ``ValueError``."""
    key_id, key = ids.generate_access_key()
    secret = _hash_secret(key)
    return key, AccessKey(id=key_id, name=name, secret=secret, created=created, created_by=by)


def reissue(known: AccessKey, now: Timestamp, grace: int, by: str = "") -> tuple[str, AccessKey]:
    """Give a key a new secret; the previous one stays valid for ``grace`` seconds.

    ``by`` is who gets the new secret, and becomes the key's creator.
    """
    _, key = ids.generate_access_key(known.id)
    before = known.secret if grace > 0 else None
    until = format_iso_rounded_up(parse_iso(now) + timedelta(seconds=grace)) if before else None
    return key, structs.replace(
        known,
        secret=_hash_secret(key),
        before=before,
        before_until=until,
        created_by=by or known.created_by,
    )


def _matches(key: AccessKey | PendingReissue, presented: str, now: Timestamp) -> bool:
    good = key.secret.matches(presented)
    if key.before and key.before_until and now < key.before_until:
        good |= key.before.matches(presented)
    return good


def _hash_secret(key: str) -> SecretHash:
    salt = ids.generate_salt()
    return SecretHash(salt, _digest(salt, key).hex(), key[-4:])


def _digest(salt: str, key: str) -> bytes:
    return sha256(salt.encode() + key.encode("utf-8", "surrogatepass")).digest()


def _is_within(address: str, addresses: tuple[str, ...]) -> bool:
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:  # such as a local socket, which has none
        return False
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return any((mapped or found) in network for network in parse_networks(addresses))


def add_tags(key: AccessKey, tags: Sequence[str]) -> AccessKey:
    """Return the key with these tags after its own. Raises ``ValueError`` for invalid ones."""
    return structs.replace(key, tags=tuple(dict.fromkeys((*key.tags, *tags))))


def remove_tags(key: AccessKey, tags: Sequence[str]) -> AccessKey:
    """Return the key without these tags."""
    return structs.replace(key, tags=tuple(tag for tag in key.tags if tag not in tags))


def require_label(field: str, text: str) -> None:
    """Raise ``ValueError`` for an owner or a tag that no terminal could show."""
    if not text.isprintable() or text != text.strip():
        raise ValueError(f"{field}: expected visible characters, without blanks at the ends")


def _require_valid_groups(key: AccessKey) -> None:
    require_label("owner", key.owner)
    for tag in key.tags:
        require_label("tags", tag)
    if len(set(key.tags)) < len(key.tags):
        raise ValueError("tags: one is listed twice")
    if len(key.tags) > MAX_TAGS:
        raise ValueError(f"tags: there are {len(key.tags)}; at most {MAX_TAGS} are possible")
    for pattern in key.model_limits:
        if not GLOB_PATTERN.fullmatch(pattern):
            raise ValueError(
                f"model_limits: {pattern[:50]!r} is neither a model's name nor a pattern"
            )
