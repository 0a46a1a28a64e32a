"""The keys of the model gateway: how one is kept, what it may call, and how much.

An access key is ``sk-agentd-``, the 12 letters of its id, a dash and 32 random letters. The id is
no secret: it finds the key among thousands by one look, so one salted SHA-256 decides.
"""

import hmac
import re
from decimal import Decimal
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from agentd.clock import Timestamp

PREFIX = "sk-agentd-"
FORM = re.compile(r"sk-agentd-([A-Za-z0-9]{12})-[A-Za-z0-9]{32}")
"""Every key of ours; its group is the key's id."""

Usd: TypeAlias = Annotated[Decimal, Meta(ge=0)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=100)]
Glob: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]


class Limits(Struct, frozen=True, omit_defaults=True):
    """What a key may spend and do; ``None`` is without limit.

    Money in USD per window of the configured time zone; ``week`` begins on Monday.
    """

    total: Usd | None = None
    day: Usd | None = None
    week: Usd | None = None
    month: Usd | None = None
    requests_per_minute: Annotated[int, Meta(ge=0)] | None = None
    tokens_per_minute: Annotated[int, Meta(ge=0)] | None = None
    parallel: Annotated[int, Meta(ge=0)] | None = None


class Secret(Struct, frozen=True):
    """What is kept of a key's letters: nothing from which they could be made."""

    salt: Annotated[str, Meta(pattern="[0-9a-f]{32}")]
    sha256: Annotated[str, Meta(pattern="[0-9a-f]{64}")]
    last4: Annotated[str, Meta(pattern="[A-Za-z0-9]{4}")]

    def fits(self, presented: str) -> bool:
        """Whether this is the key; in constant time."""
        made = sha256(self.salt.encode() + presented.encode("utf-8", "surrogatepass"))
        return hmac.compare_digest(made.digest(), bytes.fromhex(self.sha256))


class AccessKey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key of the model gateway, as it stands in ``access-keys.yml``."""

    id: Annotated[str, Meta(pattern="[A-Za-z0-9]{12}")]
    name: Name
    secret: Secret
    created: Timestamp
    enabled: bool = True
    expires: Timestamp | None = None
    models: tuple[Glob, ...] | None = None
    """Exact names or patterns with ``*`` and ``?``; absent: all, empty: none."""
    channels: tuple[Glob, ...] | None = None
    limits: Limits = Limits()
    keep_bodies: bool = False
    """Whether bodies of its requests are kept, secrets hidden."""
    before: Secret | None = None
    """The letters that it had before it was issued anew ..."""
    before_until: Timestamp | None = None
    """... and until when they are still good."""

    def may_call(self, model: str) -> bool:
        """Whether the key is for this model."""
        return self.models is None or any(fnmatchcase(model, one) for one in self.models)

    def may_use(self, channel: str) -> bool:
        """Whether requests of the key may go through this channel."""
        return self.channels is None or any(fnmatchcase(channel, one) for one in self.channels)
