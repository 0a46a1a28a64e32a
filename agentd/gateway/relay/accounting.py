"""The cost of one request: reserved before the call, recorded once, however it ends."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Protocol

from msgspec import Struct, structs

from agentd.core.clock import Clock, Timestamp
from agentd.gateway.channels.routing import Candidate
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.ledger.record import (
    FailedTry,
    Outcome,
    PendingCall,
    RequestRecord,
    Timings,
)
from agentd.gateway.pricing.bounds import (
    Pricing,
    RecordedCost,
    compute_recorded_cost,
    compute_worst_case_usage,
)
from agentd.gateway.relay.failed_tries import FailedTries, charge_try
from agentd.gateway.relay.request import GatewayRequest
from agentd.gateway.relay.token_estimate import OutputTokenEstimator
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.service_tier import mentions_paid_tools
from agentd.llm.price import NO_USAGE, Usage, add_amounts, sum_amounts


class ReservedCall(Struct, frozen=True):
    """The amounts reserved for a call of one candidate."""

    pricing: Pricing
    output_tokens: int
    """Upper bound of the output tokens."""
    upper: Decimal
    """Upper bound of the cost."""


class ApplicableLimits(Protocol):
    """The limits of a request (``gateway.limits.request_limits.RequestLimits``)."""

    @property
    def bounds_spending(self) -> bool:
        """True if a limit of money or tokens is among them."""
        ...

    def reserve(self, upper: Decimal, tokens: int) -> None:
        """Reserve what a call may cost, or what is missing of that; raises ``OverLimit``."""
        ...

    def settle(self, cost: Decimal, tokens: int, at: Timestamp) -> None:
        """Replace what was reserved by the actual cost."""
        ...


class RequestLedger(Protocol):
    """The ledger (``gateway.ledger.ledger.Ledger``)."""

    async def mark_pending(self, mark: PendingCall) -> None:
        """Return once a crash cannot lose the call: the next start records it.

        Raises ``Unavailable``.
        """
        ...

    async def add_record(self, entry: RequestRecord) -> None:
        """Return once the record is written. Raises ``Unavailable``."""
        ...

    async def probe(self) -> None:
        """Return if records can be written again. Raises ``Unavailable``, ``ConfigError``."""
        ...


class RequestAccounting:
    """Collects what the ledger records of one request."""

    def __init__(self, request: GatewayRequest, clock: Clock) -> None:
        self.summary = RequestSummary("")
        """The summary of the caller's request."""
        self.masked_counts: Mapping[str, int] = {}
        """Number of masked secrets by rule."""
        self.input_tokens = 0
        """Upper bound of the input tokens."""
        self.reserved_calls: dict[tuple[str, str, str], ReservedCall] = {}
        """The highest cost of each candidate's call, by its ``route_id``; or empty."""
        self.supplier_called = False
        """True if a supplier may have begun to reply, and so to charge."""
        self.abandoned = False
        """True if we dropped a supplier that may still generate output, and charge for it."""
        self.bytes_sent = 0
        """Bytes sent to the caller."""
        self.draining = False
        """The caller disconnected before the reply, and the reply is still read for its usage."""
        self.is_closed = False
        """True if the record was made: exactly one for each request."""
        self.trace_headers: Mapping[str, str] = {}
        """Headers that tell the next supplier of the request's trace."""
        self.failed_tries = FailedTries()
        """The calls that brought no reply."""
        self._request = request
        self._clock = clock
        self._began = clock.monotonic()
        self._candidate: Candidate | None = None
        self._abandoned_candidate: Candidate | None = None
        """The channel of the abandoned call, while no other is called."""
        self._attempts = 0
        self._attempt_began = 0.0
        self._usage: Usage | None = None
        self._is_final = False
        self._reached: dict[str, float] = {}
        """The time of each stage by the monotonic clock."""
        self._has_fee = False
        """True if the supplier's own tools were used, whose cost is unknown."""
        self._output = OutputTokenEstimator(request.endpoint.dialect)
        self.limits: ApplicableLimits | None = None
        """The limits of the request, and what is reserved of them; None: not known yet."""

    @property
    def key(self) -> AccessKey:
        """The access key of the request."""
        return self._request.key

    @property
    def _billed_candidate(self) -> Candidate | None:
        """The channel of the request: the last one, or the one before that may charge for it."""
        return self._abandoned_candidate or self._candidate

    def _get_fallback(self, candidate: Candidate | None) -> str:
        """Return the fallback model that a channel is tried for; empty: the requested one."""
        model = candidate.model if candidate else self.summary.model
        return "" if model == self.summary.model else model

    def on_attempt(self, candidate: Candidate) -> None:
        """Count an attempt: the channel is called next, if it is ready."""
        if self.abandoned:
            self._abandoned_candidate = self._abandoned_candidate or self._candidate
        self._candidate = candidate
        self._attempts += 1
        self._attempt_began = self._clock.monotonic()
        self._reached["ready"] = self._attempt_began

    def charge_given_up_call(self) -> None:
        """Count the call that was given up before: it and the one that follows may be charged."""
        self.failed_tries.charge_given_up()
        self.supplier_called = self.abandoned = False
        self._abandoned_candidate = None

    def on_failed_attempt(self, error: str) -> None:
        """Note that the channel that was called last brought no reply; free, unless given up."""
        candidate = self._candidate
        if candidate is None:
            return
        self.supplier_called = self.abandoned
        spent = round((self._clock.monotonic() - self._attempt_began) * 1000, 2)
        name, fallback = candidate.channel.name, self._get_fallback(candidate)
        failed = FailedTry(name, error, spent, fallback)
        reserved = self.reserved_calls.get(candidate.route_id)
        if not self.abandoned or self._abandoned_candidate or reserved is None:
            self.failed_tries.add(failed)
            return
        tier = self.summary.service_tier if candidate.is_passthrough else ""
        named = structs.replace(failed, supplier_model=candidate.supplier_model, tier=tier)
        out = reserved.output_tokens
        self.failed_tries.add(failed, charge_try(named, reserved.pricing, self.input_tokens, out))

    def set_usage(self, usage: Usage | None, *, final: bool) -> None:
        """Set the supplier's usage; ``final``: the reply is complete, so it will not change."""
        self._usage = usage
        self._is_final = final and usage is not None

    def on_chunk(self, chunk: bytes) -> None:
        """Count a chunk of a stream that is sent to the caller."""
        self.bytes_sent += len(chunk)
        self._output.feed(chunk)
        if self.summary.uses_paid_tools and not self._has_fee:
            self._has_fee = bool(mentions_paid_tools(chunk))

    def on_body(self, body: bytes) -> None:
        """Count a complete reply that is sent to the caller."""
        self.bytes_sent = len(body)
        self._output.set_body(body)
        self._has_fee = self.summary.uses_paid_tools and bool(mentions_paid_tools(body))

    def mark_stage(self, stage: str) -> None:
        """Record that a stage of ``Timings`` is reached; a later attempt overwrites it."""
        self._reached[stage] = self._clock.monotonic()

    def format_server_timing(self) -> str:
        """Return the stages so far in the format of the header ``Server-Timing``."""
        began = self._began
        spent = [f"{stage};dur={(at - began) * 1000:.2f}" for stage, at in self._reached.items()]
        return ", ".join(spent)

    def make_pending_call(self) -> PendingCall | None:
        """Return the record for a crash during the call; None if the call is free.

        What the supplier charges is unknown then, so the cost is everything that was reserved.
        """
        request, summary, candidate = self._request, self.summary, self._candidate
        if candidate is None or not self.reserved_calls:
            return None
        reserved, charged = self.reserved_calls[candidate.route_id], self.failed_tries.cost
        return PendingCall(
            begun=self._clock.now(),
            id=request.id,
            key=request.key.id,
            key_name=request.key.name,
            owner=request.key.owner,
            tags=request.key.tags,
            endpoint=request.endpoint.path,
            model=summary.model,
            channel=candidate.channel.name,
            supplier_model=candidate.supplier_model,
            fallback=self._get_fallback(candidate),
            tier=summary.service_tier if candidate.is_passthrough else "",
            tries=self._attempts,
            failed_tries=self.failed_tries.records if charged.tokens else (),
            stream=summary.stream,
            usage=compute_worst_case_usage(
                reserved.pricing, NO_USAGE, self.input_tokens, reserved.output_tokens
            ),
            cost=add_amounts(reserved.upper, charged.cost),
            priced=reserved.pricing.version,
            received=len(request.body),
            hidden=dict(self.masked_counts),
        )

    def close(self, outcome: Outcome, status: int, error: str = "") -> RequestRecord:
        """Settle the reservation and return the record for the ledger; only once."""
        assert not self.is_closed
        self.is_closed = True
        self.mark_stage("total")
        cost, usage = self._compute_cost(outcome)
        tokens, at = usage.total_input + usage.total_output, self._clock.now()
        charged = self.failed_tries.cost
        if charged.tokens:
            together = sum_amounts((cost.cost, charged.cost))
            cost = structs.replace(cost, cost=together, estimated=True)
        if self.limits:
            self.limits.settle(cost.cost, tokens + charged.tokens, at)
        return self._make_record(outcome, status, error, cost, usage, at)

    def _make_record(
        self,
        outcome: Outcome,
        status: int,
        error: str,
        cost: RecordedCost,
        usage: Usage,
        at: Timestamp,
    ) -> RequestRecord:
        request, summary, candidate = self._request, self.summary, self._billed_candidate
        return RequestRecord(
            id=request.id,
            at=at,
            key=request.key.id,
            key_name=request.key.name,
            owner=request.key.owner,
            tags=request.key.tags,
            endpoint=request.endpoint.path,
            model=summary.model,
            channel=candidate.channel.name if candidate else "",
            supplier_model=candidate.supplier_model if candidate else "",
            fallback=self._get_fallback(candidate),
            tier=summary.service_tier if candidate and candidate.is_passthrough else "",
            tries=self._attempts,
            failed_tries=self.failed_tries.records,
            stream=summary.stream,
            status=status,
            outcome=outcome,
            error=error,
            usage=usage,
            cost=cost.cost,
            priced=cost.priced,
            estimated=cost.estimated,
            timings=self._make_timings(),
            received=len(request.body),
            sent=0 if self.draining else self.bytes_sent,
            hidden=dict(self.masked_counts),
        )

    def _make_timings(self) -> Timings:
        began = self._began
        return Timings(
            **{stage: round((at - began) * 1000, 2) for stage, at in self._reached.items()}
        )

    def _compute_cost(self, outcome: Outcome) -> tuple[RecordedCost, Usage]:
        """Return the cost: by the supplier's usage, or estimated if the supplier broke off.

        A call that we abandoned costs everything that was reserved: what the supplier charges is
        unknown, and disconnecting must not be cheaper than reading the reply.
        """
        unpaid = outcome in ("failed", "refused") and not self.abandoned
        is_free = unpaid or not self.supplier_called or not self.reserved_calls
        candidate = self._billed_candidate
        if candidate is None or is_free:
            return RecordedCost(Decimal(0), "", False), NO_USAGE
        reserved = self.reserved_calls[candidate.route_id]
        pricing = reserved.pricing
        usage, reported = self._usage or NO_USAGE, self._is_final and self._is_usage_credible()
        if not reported:
            if outcome == "left" or self.abandoned:
                usage = compute_worst_case_usage(
                    pricing, usage, self.input_tokens, reserved.output_tokens
                )
            else:
                usage = self._estimate_usage(usage, reserved.output_tokens)
        cost = compute_recorded_cost(usage, pricing, reported=reported)
        guessed = self._has_fee or self.summary.has_audio
        return (structs.replace(cost, estimated=True) if guessed else cost), usage

    def _is_usage_credible(self) -> bool:
        """Return whether the supplier's usage is plausible: some report only zeros."""
        usage = self._usage or NO_USAGE
        silent = usage.total_output or not self._output.has_output
        return bool(usage.total_input and (silent or self._request.endpoint.kind == "embeddings"))

    def _estimate_usage(self, usage: Usage, most: int) -> Usage:
        """Estimate the usage from what was sent to the caller; ``most`` tokens of output."""
        if not usage.total_input:
            usage = structs.replace(usage, input=self.input_tokens)
        estimated = min(self._output.tokens, most)
        return structs.replace(usage, output=max(usage.output, estimated - usage.reasoning))
