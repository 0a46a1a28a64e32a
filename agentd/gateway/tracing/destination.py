"""Where spans are sent: by the settings, or else by OpenTelemetry's environment variables."""

from collections.abc import Mapping

from msgspec import Struct

from agentd.core.errors import ConfigError, ConfigProblem
from agentd.core.secret_text import get_secret_part
from agentd.gateway.settings.model import TracingSettings
from agentd.storage.secret_ref import resolve_secret

TRACES_PATH = "/v1/traces"
"""The path of traces below a collector's address."""

_PROTOCOL = "http/protobuf"


class TraceDestination(Struct, frozen=True):
    """A collector that accepts spans over HTTP. ``None``: as the environment says."""

    endpoint: str
    """The whole address."""
    headers: dict[str, str] | None
    sample: float | None
    forwards_context: bool
    """True if suppliers get the trace's id."""

    def __repr__(self) -> str:
        """Omit the headers, which hold secrets."""
        return f"TraceDestination({self.endpoint!r})"


def find_destination(
    settings: TracingSettings, environ: Mapping[str, str]
) -> TraceDestination | None:
    """Return where to send spans; None: nowhere. Blocking.

    Raises ``ConfigError`` and ``Unavailable`` for a header's value that cannot be read, and for an
    environment that asks for another protocol.
    """
    if not is_configured(settings, environ):
        return None
    if settings.endpoint:
        endpoint = complete_endpoint(settings.endpoint)
        headers: dict[str, str] | None = _resolve_headers(settings, environ)
    else:
        endpoint, headers = _read_environment(environ), None
    return TraceDestination(endpoint, headers, settings.sample, settings.forward_context)


def is_configured(settings: TracingSettings, environ: Mapping[str, str]) -> bool:
    """Return whether spans are to be sent."""
    if not settings.enabled or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if settings.endpoint:
        return True
    sends_traces = environ.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower() != "none"
    return sends_traces and any(environ.get(name, "").strip() for name in _ENDPOINTS)


def _resolve_headers(settings: TracingSettings, environ: Mapping[str, str]) -> dict[str, str]:
    headers = {}
    for name, value in settings.headers.items():
        secret = get_secret_part(value)
        known = resolve_secret(secret, environ, f"tracing.headers.{name}", "the collector's")
        headers[name] = value.removesuffix(secret) + known
    return headers


_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def _read_environment(environ: Mapping[str, str]) -> str:
    protocol = next((name for name in _PROTOCOLS if environ.get(name, "").strip()), "")
    if protocol and environ[protocol].strip() != _PROTOCOL:
        problem = f"is {environ[protocol].strip()[:32]!r}; agentd sends spans by {_PROTOCOL} only"
        raise ConfigError([ConfigProblem(protocol, 0, problem)])
    traces, every = (environ.get(name, "").strip() for name in _ENDPOINTS)
    return traces or complete_endpoint(every)


def complete_endpoint(address: str) -> str:
    """Return the address for traces of a collector, which may be given with its path."""
    address = address.rstrip("/")
    return address if address.endswith(TRACES_PATH) else address + TRACES_PATH
