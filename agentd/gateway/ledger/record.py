"""The ledger's two kinds of records: pending calls and finished requests.

A request under way has a ``PendingCall``, a finished one a ``RequestRecord``.
"""

from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.core.clock import Timestamp
from agentd.llm.price import NO_USAGE, Usage, sum_amounts

Outcome: TypeAlias = Literal["ok", "refused", "failed", "broken", "left"]
"""``refused``: rejected by the gateway before any supplier was called; ``failed``: the supplier
returned an error or could not be reached; ``broken``: the supplier's response ended early;
``left``: the caller disconnected, or was disconnected because the access key was revoked."""


CRASH = "crash"
"""Error of a call during which agentd itself was terminated; its outcome is ``broken``."""


class Timings(Struct, frozen=True, omit_defaults=True):
    """Milliseconds since the request's last byte; 0 for a stage that was not reached."""

    ready: float = 0.0
    """The time until the supplier was called: key check, limits, masking and routing."""
    head: float = 0.0
    """The time until the first byte of the supplier's response."""
    first: float = 0.0
    """The time until the first part of the reply was sent to the caller."""
    total: float = 0.0
    """The time until the end of the response."""


class FailedTry(Struct, frozen=True, omit_defaults=True):
    """A call of a channel that brought no reply; the next channel was called instead, if any."""

    channel: str
    """Name of the channel."""
    error: str
    """Kind of error, such as ``rate_limit`` or ``unreachable``."""
    ms: float = 0.0
    """Milliseconds until it failed."""
    model: str = ""
    """Name of the fallback model that was tried; empty: the requested one."""
    supplier_model: str = ""
    """The supplier's name for the model, if the call was given up; else empty."""
    tier: str = ""
    """Requested service tier of a call that was given up; empty: the default tier."""
    usage: Usage = NO_USAGE
    """Tokens that its supplier may charge for, as it was given up: all that was reserved for it."""
    cost: Decimal = Decimal(0)
    """Cost of these tokens in USD, which is a part of the request's cost."""


class EarlierPrice(Struct, frozen=True, omit_defaults=True):
    """What a repricing replaced in a record. Undocumented fields are those of ``RequestRecord``."""

    change: int
    """Number of the change that repriced it, by which it is undone."""
    cost: Decimal = Decimal(0)
    was: Decimal | None = None
    priced: str = ""
    estimated: bool = False
    tries: tuple[Decimal, ...] = ()
    """Costs of the ``failed_tries``; empty: none of them is charged."""


class RequestRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the ledger. It never contains a body, a key or a masked secret."""

    id: str
    """The request id, as returned to the caller; unique."""
    at: Timestamp
    """When the request ended; decides its day and its limit windows."""
    key: str
    """Id of the access key; empty: no known key."""
    key_name: str = ""
    """Name of the key at that time."""
    owner: str = ""
    """Owner of the key at that time; empty: none. Budgets count by it."""
    tags: tuple[str, ...] = ()
    """Tags of the key at that time, by which budgets count too."""
    endpoint: str
    """The path that was called, such as ``/v1/chat/completions``."""
    model: str = ""
    """Name of the model, as in the request."""
    channel: str = ""
    """The channel that answered, or the last one that was tried; empty: none. Where a call was
    given up, and no channel after it could be called, that of the call, as its cost is recorded.
    If one was called, the cost of the call is in ``failed_tries``."""
    supplier_model: str = ""
    """The supplier's name for the model."""
    fallback: str = ""
    """Name of the fallback model that answered, or was tried last; empty: the requested one."""
    tier: str = ""
    """Requested service tier; empty: the default tier."""
    tries: int = 0
    """Number of attempts: how many channels were called."""
    failed_tries: tuple[FailedTry, ...] = ()
    """The tries that failed, in order."""
    stream: bool = False
    """True if a streamed reply was requested."""
    status: int
    """HTTP status returned to the caller."""
    outcome: Outcome
    """The outcome of the request."""
    error: str = ""
    """Kind of error, such as ``rate_limit`` or ``limit_day``; empty: none."""
    usage: Usage = NO_USAGE
    """Token counts; each token is counted in exactly one bucket. Without those of the calls that
    were given up before."""
    cost: Decimal = Decimal(0)
    """Exact cost in USD, as counted against the limits. With that of the calls given up before."""
    was: Decimal | None = None
    """The original cost, if the request was repriced since."""
    priced: str = ""
    """Version of the prices that were used; empty: not priced."""
    estimated: bool = False
    """True if usage or price is an estimate, or a fee is unknown."""
    earlier: EarlierPrice | None = None
    """What the last repricing replaced; null: none, or it cannot be undone."""
    timings: Timings = Timings()
    """Durations of the stages."""
    received: int = 0
    """Size of the request body in bytes."""
    sent: int = 0
    """Size of the response body in bytes."""
    hidden: dict[str, int] = {}
    """Number of secrets found in new text, by rule id."""

    @property
    def given_up_cost(self) -> Decimal:
        """The part of the cost that calls take which were given up before another one."""
        return sum_amounts(one.cost for one in self.failed_tries)


class PendingCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data that must survive a crash for a request whose supplier is about to be called.

    Every call writes one and almost none is ever read, so it contains what its record needs and
    nothing that is expensive to compute. Undocumented fields are those of ``RequestRecord``.
    """

    begun: Timestamp
    """The ``at`` of the record. It must stay the first field: it distinguishes the two kinds."""
    id: str
    key: str
    key_name: str = ""
    owner: str = ""
    tags: tuple[str, ...] = ()
    endpoint: str
    model: str = ""
    channel: str = ""
    supplier_model: str = ""
    fallback: str = ""
    tier: str = ""
    tries: int = 0
    failed_tries: tuple[FailedTry, ...] = ()
    stream: bool = False
    usage: Usage = NO_USAGE
    """All reserved tokens, in the most expensive buckets."""
    cost: Decimal = Decimal(0)
    """The whole reserved amount, and what calls that were given up before cost."""
    priced: str = ""
    received: int = 0
    hidden: dict[str, int] = {}

    def to_record(self) -> RequestRecord:
        """Return the record of a request that was never finished."""
        return RequestRecord(
            id=self.id,
            at=self.begun,
            key=self.key,
            key_name=self.key_name,
            owner=self.owner,
            tags=self.tags,
            endpoint=self.endpoint,
            model=self.model,
            channel=self.channel,
            supplier_model=self.supplier_model,
            fallback=self.fallback,
            tier=self.tier,
            tries=self.tries,
            failed_tries=self.failed_tries,
            stream=self.stream,
            status=500,
            outcome="broken",
            error=CRASH,
            usage=self.usage,
            cost=sum_amounts((self.cost,)),
            priced=self.priced,
            estimated=True,
            received=self.received,
            hidden=self.hidden,
        )
