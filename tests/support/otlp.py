"""A receiver of OpenTelemetry's protocol on loopback: it decodes the spans that it is sent."""

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.daemon import until


class ReceivedSpan(NamedTuple):
    """A span as it came over the wire."""

    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    """Empty: none."""
    attributes: dict[str, Any]
    is_error: bool
    begun: int
    """Nanoseconds since 1970."""
    ended: int
    resource: dict[str, Any]


class OtlpReceiver:
    """Accepts spans; ``status`` is what it answers, and ``open`` lets it answer at all."""

    def __init__(self) -> None:
        self.status = 200
        self.open = threading.Event()
        self.open.set()
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.headers: list[Mapping[str, str]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.paths.append(self.path)
                receiver.headers.append({k.lower(): v for k, v in self.headers.items()})
                receiver.bodies.append(body)
                receiver.open.wait(60)
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """The address that a collector is configured with."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def spans(self) -> list[ReceivedSpan]:
        """All spans that were accepted."""
        return [span for body in list(self.bodies) for span in decode_spans(body)]

    def wait_for_request(self, request_id: str) -> tuple[ReceivedSpan, list[ReceivedSpan]]:
        """Return the span of a gateway request, and those of its attempts in order."""

        def find() -> list[ReceivedSpan]:
            key = "agentd.request.id"
            return [one for one in self.spans if one.attributes.get(key) == request_id]

        (root,) = until(find)
        attempts = [one for one in self.spans if one.parent_id == root.span_id]
        return root, sorted(attempts, key=lambda one: one.attributes["agentd.attempt"])

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.open.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def decode_spans(body: bytes) -> list[ReceivedSpan]:
    """Decode one request of the protocol."""
    request = ExportTraceServiceRequest.FromString(body)
    return [
        ReceivedSpan(
            span.name,
            span.kind,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            _decode_attributes(span.attributes),
            span.status.code == 2,
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            _decode_attributes(resource.resource.attributes),
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _decode_attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _decode_value(pair.value) for pair in pairs}


def _decode_value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_decode_value(one) for one in value.array_value.values]
    return getattr(value, kind)
