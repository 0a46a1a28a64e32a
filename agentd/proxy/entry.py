"""One request of the model gateway as the ledger keeps it: who, what, through where, how much."""

from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.clock import Timestamp
from agentd.proxy.price import NOTHING, Usage

Outcome: TypeAlias = Literal["ok", "refused", "failed", "broken", "left"]
"""``refused``: by us, before any supplier was asked; ``failed``: by the supplier, or nobody could
be reached; ``broken``: the supplier's answer broke off; ``left``: the caller did, or was sent away
when his key was."""


CRASH = "crash"
"""The error of a call in the middle of which agentd itself ended; its outcome is ``broken``."""


class Timings(Struct, frozen=True, omit_defaults=True):
    """Milliseconds from the request's last byte; 0 for what did not come to pass."""

    ready: float = 0.0
    """Until the supplier was called: key, limits, hiding, choice."""
    head: float = 0.0
    """Until the supplier's answer began."""
    first: float = 0.0
    """Until the first piece of the reply was passed on."""
    total: float = 0.0
    """Until the answer's end."""


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the ledger. It never holds a body, a key or a hidden value."""

    id: str
    """The request's, as the caller was told it; no two entries share one."""
    at: Timestamp
    """When the call was booked: what day and limit window it belongs to."""
    key: str
    """The access key's id; empty: none that is known."""
    key_name: str = ""
    """The key's name at that time."""
    endpoint: str
    """The address that was called, such as ``/v1/chat/completions``."""
    model: str = ""
    """As the caller named it."""
    channel: str = ""
    """The one that answered, or was asked last; empty: none was."""
    supplier_model: str = ""
    """The supplier's name of the model."""
    tier: str = ""
    """The tier of service that was asked for; empty: the usual one."""
    tries: int = 0
    """How many channels were asked."""
    stream: bool = False
    """Whether the reply was to be streamed."""
    status: int
    """As it was answered to the caller."""
    outcome: Outcome
    """How it ended: well, or refused, failed, broken off or left."""
    error: str = ""
    """The kind, such as ``rate_limit`` or ``limit_day``; empty when all went well."""
    usage: Usage = NOTHING
    """Its tokens, each in one bucket."""
    cost: Decimal = Decimal(0)
    """USD, exactly: what counts against the limits."""
    was: Decimal | None = None
    """What it cost at first, where it was priced anew since."""
    priced: str = ""
    """The version of the prices that were used; empty: nothing was priced."""
    estimated: bool = False
    """Whether the usage or a price is assumed rather than told, or a fee is not known."""
    timings: Timings = Timings()
    """How long it took."""
    received: int = 0
    """Bytes of the caller's body."""
    sent: int = 0
    """Bytes of our answer's body."""
    hidden: dict[str, int] = {}
    """How many secrets were found in new text, by the rule that found them."""
