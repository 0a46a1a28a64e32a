"""What one request costs: reserved before a supplier is called, booked once, however it ends."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Protocol, TypeVar

from msgspec import structs

from agentd.clock import Clock, Timestamp
from agentd.proxy.access_key import AccessKey, Limits
from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers.extras import used
from agentd.proxy.entry import CRASH, Entry, Outcome, Timings
from agentd.proxy.gateway.asking import Asked
from agentd.proxy.gateway.written import Written
from agentd.proxy.price import NOTHING, Usage
from agentd.proxy.pricing import Booked, Pricing, booked, most_usage
from agentd.proxy.routing import Choice

R = TypeVar("R")


class Meter(Protocol[R]):
    """Counts what one key spends; ``spend.Meter`` is one."""

    def reserve(self, limits: Limits, upper: Decimal, tokens: int) -> R:
        """Set aside what a call may cost; raises ``OverLimit``."""
        ...

    def settle(self, reservation: R, cost: Decimal, tokens: int, at: Timestamp) -> None:
        """Count what it did cost instead."""
        ...


class Book(Protocol):
    """Where entries are kept; ``disk.ledger.Ledger`` is one."""

    async def begin(self, entry: Entry) -> None:
        """Return once a crash would have it booked, unless another one of its id is booked.

        Raises ``Unavailable``.
        """
        ...

    async def book(self, entry: Entry) -> None:
        """Return once it is written. Raises ``Unavailable``."""
        ...

    async def probe(self) -> None:
        """Return if entries can be written again. Raises ``Unavailable``, ``Misconfigured``."""
        ...


class Bill:
    """One request's way through the gateway, as far as it is to be remembered."""

    def __init__(self, asked: Asked, clock: Clock) -> None:
        self.glance = Glance("")
        """What the caller wants."""
        self.hidden: Mapping[str, int] = {}
        """How many secrets were found, by rule."""
        self.input_tokens = 0
        """At most, as far as can be told beforehand."""
        self.output_tokens = 0
        """At most, as it was reserved."""
        self.pricings: dict[tuple[str, str], Pricing] = {}
        """By the channel's name and the supplier's of the model."""
        self.called = False
        """Whether a supplier may have begun to answer, and so to count."""
        self.gave_up = False
        """Whether we let go of a supplier that may write on, and charge for all that it may."""
        self.sent = 0
        """Bytes that the caller was given."""
        self.heard_out = False
        """The caller left before the answer, and the supplier is heard out all the same."""
        self.closed = False
        """Whether the entry is made: there is one for each request, and never two."""
        self._asked = asked
        self._clock = clock
        self._began = clock.monotonic()
        self._choice: Choice | None = None
        self._tries = 0
        self._usage: Usage | None = None
        self._told = False
        self._marks: dict[str, float] = {}
        """When each stage was reached, by the monotonic clock."""
        self._fee = False
        """Whether the supplier's own tools were used: what that costs is not known."""
        self._written = Written(asked.endpoint.dialect)
        self._settle: Callable[[Decimal, int, Timestamp], None] | None = None

    @property
    def key(self) -> AccessKey:
        """Whose it is."""
        return self._asked.key

    def reserve(self, meter: Meter[R], limits: Limits, upper: Decimal, tokens: int) -> None:
        """Set aside what the request may cost; raises ``OverLimit``."""
        reservation = meter.reserve(limits, upper, tokens)
        self._settle = partial(meter.settle, reservation)

    def tried(self, choice: Choice) -> None:
        """A channel is asked now."""
        self._choice = choice
        self._tries += 1
        self.mark("ready")

    def counted(self, usage: Usage | None, *, told: bool) -> None:
        """What the supplier counted; ``told``: to the end, so that it is the last word."""
        self._usage = usage
        self._told = told and usage is not None

    def gave(self, portion: bytes) -> None:
        """The caller is given this of a stream."""
        self.sent += len(portion)
        self._written.hear(portion)
        if self.glance.fees and not self._fee:
            self._fee = bool(used(portion))

    def gave_whole(self, body: bytes) -> None:
        """The caller is given this reply."""
        self.sent = len(body)
        self._written.whole(body)
        self._fee = self.glance.fees and bool(used(body))

    def mark(self, stage: str) -> None:
        """A stage of ``Timings`` is reached; a second try overwrites the first."""
        self._marks[stage] = self._clock.monotonic()

    def timing(self) -> str:
        """The stages so far, as the header ``Server-Timing`` has them."""
        began = self._began
        spent = [f"{stage};dur={(at - began) * 1000:.2f}" for stage, at in self._marks.items()]
        return ", ".join(spent)

    def cut_off(self) -> Entry | None:
        """The line for the ledger if this process ends before the call does; None: it is free.

        What the supplier will charge is known to nobody then, so it is all that was reserved.
        """
        if self._choice is None or not self.pricings:
            return None
        pricing = self.pricings[self._choice.place]
        usage = most_usage(pricing, NOTHING, self.input_tokens, self.output_tokens)
        cost = booked(usage, pricing, told=False)
        return self._entry("broken", 500, CRASH, cost, usage, self._clock.now())

    def close(self, outcome: Outcome, status: int, error: str = "") -> Entry:
        """Settle what was reserved; the line for the ledger. Once."""
        assert not self.closed
        self.closed = True
        self.mark("total")
        cost, usage = self._cost(outcome)
        at = self._clock.now()
        if self._settle:
            self._settle(cost.cost, usage.total_input + usage.total_output, at)
        return self._entry(outcome, status, error, cost, usage, at)

    def _entry(
        self, outcome: Outcome, status: int, error: str, cost: Booked, usage: Usage, at: Timestamp
    ) -> Entry:
        asked, glance, choice = self._asked, self.glance, self._choice
        return Entry(
            id=asked.id,
            at=at,
            key=asked.key.id,
            key_name=asked.key.name,
            endpoint=asked.endpoint.path,
            model=glance.model,
            channel=choice.channel.name if choice else "",
            supplier_model=choice.supplier_model if choice else "",
            tier=glance.tier if choice and choice.passes else "",
            tries=self._tries,
            stream=glance.stream,
            status=status,
            outcome=outcome,
            error=error,
            usage=usage,
            cost=cost.cost,
            priced=cost.priced,
            estimated=cost.estimated,
            timings=self._timings(),
            received=len(asked.body),
            sent=0 if self.heard_out else self.sent,
            hidden=dict(self.hidden),
        )

    def _timings(self) -> Timings:
        began = self._began
        return Timings(
            **{stage: round((at - began) * 1000, 2) for stage, at in self._marks.items()}
        )

    def _cost(self, outcome: Outcome) -> tuple[Booked, Usage]:
        """By the supplier's count; by what came and went where the supplier itself broke off.

        A call that we let go of costs all that was reserved: nobody knows what the supplier wrote
        and charges for until it noticed, and to leave must not be cheaper than to listen.
        """
        unpaid = outcome in ("failed", "refused") and not self.gave_up
        if self._choice is None or unpaid or not self.called or not self.pricings:
            return Booked(Decimal(0), "", False), NOTHING
        pricing = self.pricings[self._choice.place]
        usage, told = self._usage or NOTHING, self._told and self._is_credible()
        if not told:
            if outcome == "left" or self.gave_up:
                usage = most_usage(pricing, usage, self.input_tokens, self.output_tokens)
            else:
                usage = self._judged(usage)
        cost = booked(usage, pricing, told=told)
        return (structs.replace(cost, estimated=True) if self._fee else cost), usage

    def _is_credible(self) -> bool:
        """Whether the supplier's count may be true: some tell zeros where they do not count."""
        usage = self._usage or NOTHING
        silent = usage.total_output or not self._written.says_anything
        return bool(usage.total_input and (silent or self._asked.endpoint.kind == "embeddings"))

    def _judged(self, usage: Usage) -> Usage:
        """What was used, as far as can be told from what the caller was given."""
        if not usage.total_input:
            usage = structs.replace(usage, input=self.input_tokens)
        judged = min(self._written.tokens, self.output_tokens)
        return structs.replace(usage, output=max(usage.output, judged - usage.reasoning))
