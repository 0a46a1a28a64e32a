"""The keys of the model gateway: how one is kept, what it may call, and how much.

An access key is ``sk-agentd-``, the 12 letters of its id, a dash and 32 random letters. The id is
no secret: it finds the key among thousands by one look, so one salted SHA-256 decides.
"""

import hmac
import re
import unicodedata
from datetime import timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct, structs

from agentd import ids
from agentd.clock import Timestamp, iso, not_before, parse_iso

PREFIX = ids.ACCESS_PREFIX
_KEY_ID = re.compile("[A-Za-z0-9]{12}")
FORM = re.compile(r"sk-agentd-([A-Za-z0-9]{12})-[A-Za-z0-9]{32}")
"""Every key of ours; its group is the key's id."""

MOST_USD = 10**9
"""No limit is higher."""

LEAST_PLACE = -12
"""Nor is one told more finely than by this power of ten."""

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=100)]
Glob: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^[A-Za-z0-9._:/@+*?-]{1,200}$",
        extra={"form": "a name, or a pattern such as gpt-*"},
    ),
]
"""A name of a model or channel, or a pattern of names: ``*`` is any letters, ``?`` is one."""

Count: TypeAlias = Annotated[int, Meta(ge=0, le=10**12)]


class Limits(Struct, frozen=True, omit_defaults=True):
    """What a key may spend and do; ``None`` is without limit, 0 is nothing at all.

    Money in USD per window of the configured time zone; ``week`` begins on Monday.
    Raises ``ValueError`` for what is no amount.
    """

    total: Decimal | None = None
    """USD in all; it never begins anew."""
    day: Decimal | None = None
    """USD a day."""
    week: Decimal | None = None
    """USD a week, from Monday on."""
    month: Decimal | None = None
    """USD a month."""
    requests_per_minute: Count | None = None
    """Requests in a minute of the clock."""
    tokens_per_minute: Count | None = None
    """Tokens in and out, in a minute of the clock."""
    parallel: Count | None = None
    """Requests at the same time."""

    def __post_init__(self) -> None:
        for name, limit in structs.asdict(self).items():
            if isinstance(limit, Decimal) and not _is_amount(limit):
                raise ValueError(f"{name}: {limit} is no limit; expected 0 to {MOST_USD} USD")

    @property
    def in_usd(self) -> bool:
        """Whether any of them is of money."""
        return (self.total, self.day, self.week, self.month) != (None, None, None, None)

    @property
    def bounds_spending(self) -> bool:
        """Whether there is a limit of money, or of tokens, which a single reply can pass."""
        return self.in_usd or self.tokens_per_minute is not None


class Secret(Struct, frozen=True):
    """What is kept of a key's letters: nothing from which they could be made."""

    salt: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$", extra={"secret": True})]
    last4: Annotated[str, Meta(pattern="^[A-Za-z0-9]{4}$")]

    def fits(self, presented: str) -> bool:
        """Whether this is the key; in constant time."""
        made = _digest(self.salt, presented)
        return hmac.compare_digest(made, bytes.fromhex(self.sha256))


class AccessKey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key of the model gateway, as it stands in ``access-keys.yml``.

    Moments may be written as any ISO 8601 one; they are kept in the one form of ``clock``.
    Raises ``ValueError`` for what is no moment, and for a name that no terminal could show.
    """

    id: Annotated[str, Meta(pattern="^[A-Za-z0-9]{12}$")]
    """The middle of its letters; it stays the same when they are issued anew."""
    name: Name
    """What people call it; no two have the same."""
    secret: Secret
    """What its letters are compared with."""
    created: Timestamp
    """When it was made."""
    enabled: bool = True
    """Whether it opens anything."""
    expires: Timestamp | None = None
    """From when on it opens nothing; none: never."""
    models: tuple[Glob, ...] | None = None
    """Exact names or patterns with ``*`` and ``?``; absent: all, empty: none."""
    channels: tuple[Glob, ...] | None = None
    """Those that its requests may go through, likewise."""
    limits: Limits = Limits()
    """What it may spend and do."""
    keep_bodies: bool = False
    """Whether bodies of its requests are kept, secrets hidden."""
    before: Secret | None = None
    """The letters that it had before it was issued anew ..."""
    before_until: Timestamp | None = None
    """... and until when they are still good."""
    created_by: Annotated[str, Meta(max_length=200)] = ""
    """Who has seen its letters first, as ``key:laptop``, ``user:ann``, ``management`` or ``cli``.

    Empty: not known.
    """

    def __post_init__(self) -> None:
        if not self.name.isprintable() or self.name != self.name.strip():
            raise ValueError("name: expected visible characters, without blanks at the ends")
        for field in ("created", "expires", "before_until"):
            told = getattr(self, field)
            if told is not None:
                structs.force_setattr(self, field, _moment(field, told))
        if (self.before is None) != (self.before_until is None):
            raise ValueError("before and before_until go together; one is missing")

    def fits(self, presented: str, now: Timestamp) -> bool:
        """Whether these are its letters, or the ones before while their grace lasts."""
        return _fits(self, presented, now)

    def expired(self, now: Timestamp) -> bool:
        """Whether its time is over."""
        return self.expires is not None and now >= self.expires

    def opens(self, now: Timestamp) -> bool:
        """Whether it is good for anything."""
        return self.enabled and not self.expired(now)

    def may_call(self, model: str) -> bool:
        """Whether the key is for this model."""
        return self.models is None or any(fnmatchcase(model, one) for one in self.models)

    def may_use(self, channel: str) -> bool:
        """Whether requests of the key may go through this channel."""
        return self.channels is None or any(fnmatchcase(channel, one) for one in self.channels)


class UntoldLetters(Struct, frozen=True, omit_defaults=True):
    """A key was reissued, and nobody is known to have its letters: those before are good."""

    key_id: Annotated[str, Meta(pattern="^[A-Za-z0-9]{12}$")]
    new: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    """The digest of the letters that the key has in its file."""
    secret: Secret
    """The letters before, which are good until somebody is known to have the new ones ..."""
    before: Secret | None = None
    """... and those that were good beside them ..."""
    before_until: Timestamp | None = None
    """... until then."""

    @property
    def name(self) -> str:
        """What stays the same: the key's id, for people may rename it."""
        return self.key_id

    @property
    def sha256(self) -> str:
        """The digest of the letters before."""
        return self.secret.sha256

    def fits(self, presented: str, now: Timestamp) -> bool:
        """Whether these are the letters before, or those whose grace lasts beside them."""
        return _fits(self, presented, now)


def is_key_id(text: str) -> bool:
    """Whether this has the form of an access key's id."""
    return bool(_KEY_ID.fullmatch(text))


def folded(name: str) -> str:
    """The same for all names that a reader would take for one."""
    return unicodedata.normalize("NFC", name).casefold()


def issue(name: str, created: Timestamp, by: str = "") -> tuple[str, AccessKey]:
    """Make a key: the key itself, to be shown once, and what is kept of it. ``ValueError``."""
    key_id, key = ids.new_access_key()
    secret = _kept(key)
    return key, AccessKey(id=key_id, name=name, secret=secret, created=created, created_by=by)


def reissue(known: AccessKey, now: Timestamp, grace: int, by: str = "") -> tuple[str, AccessKey]:
    """Give a key other letters; those before are good for ``grace`` more seconds.

    ``by`` tells who sees the new ones: the key is then one that he made.
    """
    _, key = ids.new_access_key(known.id)
    before = known.secret if grace > 0 else None
    until = not_before(parse_iso(now) + timedelta(seconds=grace)) if before else None
    return key, structs.replace(
        known,
        secret=_kept(key),
        before=before,
        before_until=until,
        created_by=by or known.created_by,
    )


def _fits(letters: AccessKey | UntoldLetters, presented: str, now: Timestamp) -> bool:
    good = letters.secret.fits(presented)
    if letters.before and letters.before_until and now < letters.before_until:
        good |= letters.before.fits(presented)
    return good


def _kept(key: str) -> Secret:
    salt = ids.new_salt()
    return Secret(salt, _digest(salt, key).hex(), key[-4:])


def _digest(salt: str, key: str) -> bytes:
    return sha256(salt.encode() + key.encode("utf-8", "surrogatepass")).digest()


def _is_amount(limit: Decimal) -> bool:
    place = limit.as_tuple().exponent
    return isinstance(place, int) and place >= LEAST_PLACE and 0 <= limit <= MOST_USD


def _moment(field: str, told: str) -> Timestamp:
    try:
        return iso(parse_iso(told))
    except ValueError as error:
        raise ValueError(f"{field}: {told[:40]!r} is no moment; expected ISO 8601") from error
