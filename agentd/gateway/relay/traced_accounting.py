"""The accounting of a request whose spans are sent: it sees all that they tell."""

from collections.abc import Mapping
from typing import Protocol

from agentd.core.clock import Clock
from agentd.gateway.channels.routing import Candidate
from agentd.gateway.ledger.record import Outcome, RequestRecord
from agentd.gateway.relay.accounting import RequestAccounting
from agentd.gateway.relay.request import GatewayRequest
from agentd.gateway.tracing.attributes import Operation, choose_operation
from agentd.gateway.tracing.reply_facts import ReplyFacts


class RequestSpans(Protocol):
    """The spans of one request (``gateway.tracing.spans.RequestSpan``)."""

    @property
    def is_sampled(self) -> bool:
        """True if they will be sent."""
        ...

    def start_attempt(self, candidate: Candidate) -> Mapping[str, str]:
        """Start the span of the next call, and return the headers to add to it."""
        ...

    def fail_attempt(self, error: str) -> None:
        """End the span of the call under way: it brought no reply."""
        ...

    def end(self, record: RequestRecord, facts: ReplyFacts, attempt_began: float) -> None:
        """End the spans; ``attempt_began``: milliseconds from the request to the last call."""
        ...


class RequestTracer(Protocol):
    """Makes spans (``gateway.tracing.spans.SpanSender``)."""

    def start_request(self, operation: Operation, context: Mapping[str, str], /) -> RequestSpans:
        """Start the span of a request; ``context`` are the caller's headers of the W3C."""
        ...


class TracedAccounting(RequestAccounting):
    """Accounts for a request, and tells its spans of what happens."""

    def __init__(self, request: GatewayRequest, clock: Clock, tracer: RequestTracer) -> None:
        super().__init__(request, clock)
        endpoint = request.endpoint
        operation = choose_operation(endpoint.dialect, endpoint.kind)
        self._spans = tracer.start_request(operation, request.trace_context)
        self._facts = ReplyFacts()
        self._reads_reply = self._spans.is_sampled

    def on_attempt(self, candidate: Candidate) -> None:
        """Start the span of a call."""
        super().on_attempt(candidate)
        self.trace_headers = self._spans.start_attempt(candidate)

    def on_failed_attempt(self, error: str) -> None:
        """End the span of a call that brought no reply."""
        super().on_failed_attempt(error)
        self._spans.fail_attempt(error)

    def on_chunk(self, chunk: bytes) -> None:
        """Read what a chunk of a stream says of the reply."""
        super().on_chunk(chunk)
        if self._reads_reply:
            self._facts.feed(chunk)

    def on_body(self, body: bytes) -> None:
        """Read what a complete reply says of itself."""
        super().on_body(body)
        if self._reads_reply:
            self._facts.set_body(body)

    def close(self, outcome: Outcome, status: int, error: str = "") -> RequestRecord:
        """End the spans with the record."""
        record = super().close(outcome, status, error)
        self._spans.end(record, self._facts, record.timings.ready)
        return record
