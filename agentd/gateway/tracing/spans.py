"""Spans made with OpenTelemetry's SDK, and their way to a collector.

Imported only when spans are sent: the library takes time and memory. Spans are sent by a thread of
its own from a queue of limited length; what does not fit into it is dropped.
"""

import os
from collections.abc import Callable, Mapping, Sequence

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from requests import PreparedRequest, Session
from requests.auth import AuthBase

from agentd import __version__
from agentd.gateway.channels.routing import Candidate
from agentd.gateway.ledger.record import RequestRecord
from agentd.gateway.tracing import attributes
from agentd.gateway.tracing.attributes import Operation
from agentd.gateway.tracing.destination import TraceDestination
from agentd.gateway.tracing.reply_facts import ReplyFacts

_CONTEXT = TraceContextTextMapPropagator()

_LIBRARY_HEADERS = ("Content-Type", "Content-Encoding", "Content-Length", "User-Agent")

NOT_SENT = "not_sent"
"""``error.type`` of an attempt whose request the supplier's dialect could not express."""


class SpanSender:
    """Sends the spans of requests to one collector, until it is closed.

    ``report`` is called in the sending thread, with whether a batch was accepted.
    """

    def __init__(self, to: TraceDestination, report: Callable[[bool], None]) -> None:
        ratio = to.sample
        self._provider = TracerProvider(
            sampler=None if ratio is None else ParentBased(TraceIdRatioBased(ratio)),
            resource=_describe_daemon(),
            shutdown_on_exit=False,
        )
        session = None if to.headers is None else _open_session(to.headers)
        exporter = OTLPSpanExporter(endpoint=to.endpoint, session=session)
        self._provider.add_span_processor(BatchSpanProcessor(_ReportingExporter(exporter, report)))
        self._tracer = self._provider.get_tracer("agentd.gateway", __version__)
        self._forwards_context = to.forwards_context

    def start_request(self, operation: Operation, context: Mapping[str, str]) -> "RequestSpan":
        """Start the span of a request; ``context`` are the caller's headers of the W3C."""
        span = self._tracer.start_span(
            operation,
            _CONTEXT.extract(context),
            SpanKind.SERVER,
            {"gen_ai.operation.name": operation},
        )
        return RequestSpan(self._tracer, span, operation, forwards_context=self._forwards_context)

    def close(self) -> None:
        """Send what is waiting, and end. Blocking, and for long if the collector hangs."""
        self._provider.shutdown()


class RequestSpan:
    """The span of one request under way, with those of its attempts."""

    def __init__(
        self, tracer: trace.Tracer, span: Span, operation: Operation, *, forwards_context: bool
    ) -> None:
        self._tracer = tracer
        self._span = span
        self._operation = operation
        self._forwards_context = forwards_context
        self._attempt: Span | None = None
        self._number = 0
        self._provider = ""

    @property
    def is_sampled(self) -> bool:
        """True if it will be sent."""
        return self._span.is_recording()

    def start_attempt(self, candidate: Candidate) -> dict[str, str]:
        """Start the span of the next call, and return the headers to add to it."""
        self.fail_attempt(NOT_SENT)
        self._number += 1
        self._provider = attributes.name_provider(candidate)
        self._attempt = self._tracer.start_span(
            attributes.name_span(self._operation, candidate.supplier_model),
            trace.set_span_in_context(self._span),
            SpanKind.CLIENT,
            attributes.describe_attempt(candidate, self._operation, self._number),
        )
        headers: dict[str, str] = {}
        if self._forwards_context:
            _CONTEXT.inject(headers, trace.set_span_in_context(self._attempt))
        return headers

    def fail_attempt(self, error: str) -> None:
        """End the span of the call under way, if there is one: it brought no reply."""
        if self._attempt:
            self._attempt.set_attribute("error.type", error)
            self._attempt.set_status(Status(StatusCode.ERROR))
            self._attempt.end()
            self._attempt = None

    def end(self, record: RequestRecord, facts: ReplyFacts, attempt_began: float) -> None:
        """End the spans; ``attempt_began``: milliseconds from the request to the last call."""
        reply = attributes.describe_reply(facts.model, facts.finish_reasons)
        error = attributes.name_error(record)
        if self._attempt and record.outcome in ("ok", "left"):
            first = attributes.describe_first_chunk(record, attempt_began)
            self._attempt.set_attributes(reply | first)
            if error:
                self._attempt.set_attribute("error.type", error)
            self._attempt.end()
            self._attempt = None
        elif self._attempt:
            self._attempt.set_attributes(reply)
        self.fail_attempt(error)
        span = self._span
        span.update_name(attributes.name_span(self._operation, record.model))
        span.set_attributes(
            attributes.describe_request(record, self._operation, self._provider)
            | attributes.describe_first_chunk(record, 0.0)
            | reply
        )
        if attributes.is_failure(record):
            span.set_status(Status(StatusCode.ERROR))
        span.end()


class _OwnHeaders(AuthBase):
    """Sends these headers in place of the environment's, which are for another address."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        kept = {name: request.headers[name] for name in _LIBRARY_HEADERS if name in request.headers}
        request.headers.clear()
        request.headers.update(kept | dict(self._headers))
        return request


def _open_session(headers: Mapping[str, str]) -> Session:
    session = Session()
    session.auth = _OwnHeaders(headers)
    return session


class _ReportingExporter(SpanExporter):
    """Passes spans on, and reports whether they were accepted."""

    def __init__(self, exporter: SpanExporter, report: Callable[[bool], None]) -> None:
        self._exporter = exporter
        self._report = report

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        result = self._exporter.export(spans)
        self._report(result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        """End a wait for another try."""
        self._exporter.shutdown()


def _describe_daemon() -> Resource:
    """Return what every span belongs to; the environment's own names win."""
    named = "OTEL_SERVICE_NAME" in os.environ
    named = named or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    name = {} if named else {"service.name": "agentd"}
    return Resource.create({**name, "service.version": __version__})
