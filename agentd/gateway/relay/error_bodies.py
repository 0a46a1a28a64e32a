"""Errors of the model gateway's endpoints, in the format of each dialect."""

import logging
from collections.abc import Iterable, Mapping
from math import ceil

from agentd.core.errors import AgentdError, MethodNotAllowed
from agentd.core.redaction import scrub
from agentd.gateway.relay.errors import from_error
from agentd.gateway.relay.request import build_id_headers
from agentd.http.errors import ErrorKind
from agentd.http.request import Response
from agentd.http.routing import Schema
from agentd.llm.dialects import error_bodies
from agentd.llm.dialects.caller import GatewayErrorKind
from agentd.llm.endpoint import ChannelDialect

log = logging.getLogger(__name__)

COMMON_ERRORS: tuple[GatewayErrorKind, ...] = ("authentication", "misdirected", "server")
"""The errors that every endpoint of the gateway may return."""

MODEL_REQUEST_ERRORS: tuple[GatewayErrorKind, ...] = (
    *COMMON_ERRORS,
    "permission",
    "not_found",
    "invalid_request",
    "context_too_long",
    "content_refused",
    "rate_limit",
    "overloaded",
    "unavailable",
    "garbled",
    "unusable_reply",
    "broken",
    "limit",
    "no_licence",
    "blocked",
    "too_large",
)
"""The errors of model requests; a supplier's ``quota`` is mapped to ``server``."""


class DialectErrorRenderer:
    """Renders the errors of an endpoint in a dialect; ``kinds`` are the possible ones."""

    def __init__(
        self, dialect: ChannelDialect, kinds: Iterable[GatewayErrorKind] = MODEL_REQUEST_ERRORS
    ) -> None:
        self._dialect = dialect
        self.error_kinds = tuple(
            sorted(
                ErrorKind(
                    *error_bodies.get_error_status(dialect, kind), error_bodies.DESCRIPTIONS[kind]
                )
                for kind in {*COMMON_ERRORS, *kinds}
            )
        )
        self.schema: Schema = error_bodies.build_error_schema(dialect)

    def __call__(self, error: Exception, request_id: str) -> Response:
        """Render the response to the request of that id; an unexpected error is logged."""
        if not isinstance(error, AgentdError):
            log.error("unexpected error", exc_info=error)
            error = AgentdError("Unexpected server error")
        no = from_error(error)
        status, body = error_bodies.render_error(
            self._dialect, no.kind, scrub(no.message), request_id, no.facts, no.resets_at
        )
        headers = build_id_headers(self._dialect, request_id)
        if no.retry_after is not None:
            headers["Retry-After"] = str(ceil(no.retry_after))
        if isinstance(error, MethodNotAllowed):
            headers["Allow"] = ", ".join(error.allowed)
        return Response(body, status, headers)

    def select(self, headers: Mapping[str, str], query: str) -> "DialectErrorRenderer":
        """Return this renderer: it is the path that tells the dialect."""
        return self


class SharedPathErrorRenderer(DialectErrorRenderer):
    """Renders the errors of a path that several vendors share in the dialect of the caller."""

    def __init__(self, kinds: Iterable[GatewayErrorKind] = MODEL_REQUEST_ERRORS) -> None:
        super().__init__("openai-chat", kinds)
        dialects: tuple[ChannelDialect, ...] = ("openai-chat", "anthropic", "gemini")
        self._renderers = {one: DialectErrorRenderer(one, kinds) for one in dialects}
        self.schema = {
            "anyOf": [one.schema for one in self._renderers.values()],
            "required": ["error"],
        }

    def select(self, headers: Mapping[str, str], query: str) -> DialectErrorRenderer:
        """Return the renderer of the caller's dialect."""
        return self._renderers[detect_caller_dialect(headers, query)]


def detect_caller_dialect(headers: Mapping[str, str], query: str) -> ChannelDialect:
    """Return the dialect of the caller of a path that several vendors share.

    Clients of Anthropic and Google send their vendor's header; Google's may put it in the URL.
    """
    if "Anthropic-Version" in headers:
        return "anthropic"
    names = (field.partition("=")[0] for field in query.split("&"))
    return "gemini" if "X-Goog-Api-Key" in headers or "key" in names else "openai-chat"


_BY_PREFIX = (
    ("/v1beta/", DialectErrorRenderer("gemini")),
    ("/v1/", SharedPathErrorRenderer()),
)


def get_renderer_for_unknown_path(path: str) -> DialectErrorRenderer | None:
    """Return the renderer for a path without a route, by its prefix; None: not the gateway's."""
    return next((renderer for begin, renderer in _BY_PREFIX if path.startswith(begin)), None)
