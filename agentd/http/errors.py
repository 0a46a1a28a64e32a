"""Errors as clients see them: the HTTP status of each kind, and the JSON body of all.

Source: the remote-control specification, section 7.
"""

import logging
from http import HTTPStatus
from typing import NamedTuple

import msgspec
from msgspec import Struct

from agentd.core import errors
from agentd.core.redaction import scrub
from agentd.http.request import SECURITY_HEADERS

log = logging.getLogger(__name__)


class ErrorBody(Struct, frozen=True):
    """The body of every error."""

    error: str
    """The kind of error, for programs."""
    message: str
    """The problem, in English."""
    details: str
    """The place of the problem and what to do about it; may be empty."""


class ErrorKind(NamedTuple):
    """A kind of error that a client may receive."""

    status: int
    name: str
    """The value of ``error`` in the body."""
    meaning: str
    """Its description in OpenAPI."""


ERROR_KINDS: dict[type[errors.AgentdError], ErrorKind] = {
    errors.BadRequest: ErrorKind(
        400, "BadRequest", "The body or a parameter is invalid; details says where."
    ),
    errors.Unauthorized: ErrorKind(401, "Unauthorized", "The key is missing or wrong."),
    errors.Forbidden: ErrorKind(403, "Forbidden", "The caller is known, but may not do this."),
    errors.NotFound: ErrorKind(404, "NotFound", "The resource does not exist."),
    errors.MethodNotAllowed: ErrorKind(
        405, "MethodNotAllowed", "The path does not have this method; Allow lists those it has."
    ),
    errors.Conflict: ErrorKind(
        409, "Conflict", "The name is taken, or the resource is in use; the message says by what."
    ),
    errors.PreconditionFailed: ErrorKind(
        412, "PreconditionFailed", "The resource has changed since the version of If-Match."
    ),
    errors.TooLarge: ErrorKind(413, "TooLarge", "The body is too large."),
    errors.UnsupportedMedia: ErrorKind(
        415, "UnsupportedMediaType", "The Content-Type of the body is not supported here."
    ),
    errors.WrongHost: ErrorKind(421, "Misdirected", "The Host header does not name this daemon."),
    errors.LimitReached: ErrorKind(
        429, "LimitReached", "Too many requests; Retry-After says when to try again."
    ),
    errors.ManagementDisabled: ErrorKind(
        503, "Disabled", "The management has no key: PROXY_APP_HASH is not set."
    ),
    errors.Disabled: ErrorKind(503, "Remote API is disabled", "No API key is configured."),
    errors.Unavailable: ErrorKind(
        503, "Unavailable", "It cannot be done right now; the message says why."
    ),
    errors.ConfigError: ErrorKind(503, "Unavailable", "A file of the daemon is invalid."),
}
"""The status, name and meaning of each kind of error."""

INTERNAL_ERROR = ErrorKind(500, "InternalServerError", "A bug in agentd; its log has the details.")


KEY_CHALLENGE = 'ApiKey realm="agentd"'
BEARER_CHALLENGE = 'Bearer realm="agentd"'


def render_error(
    error: Exception, challenge: str = KEY_CHALLENGE
) -> tuple[int, dict[str, str], ErrorBody]:
    """Return the status, extra headers and body of an error; log an unexpected one.

    ``challenge`` says how to authenticate (``WWW-Authenticate``).
    """
    known = next((ERROR_KINDS[kind] for kind in type(error).__mro__ if kind in ERROR_KINDS), None)
    if known and isinstance(error, errors.AgentdError):
        # A message may quote the request, and a client may have put a key in a wrong place of it.
        body = ErrorBody(known.name, scrub(error.message), scrub(error.details))
        return known.status, _make_error_headers(error, challenge), body
    log.error("unexpected error while answering a request", exc_info=error)
    details = scrub(f"{type(error).__name__}: {error}")
    return (
        INTERNAL_ERROR.status,
        {},
        ErrorBody(INTERNAL_ERROR.name, "Unexpected server error", details),
    )


def _make_error_headers(error: errors.AgentdError, challenge: str) -> dict[str, str]:
    match error:
        case errors.MethodNotAllowed():
            return {"Allow": ", ".join(error.allowed)}
        case errors.LimitReached():
            return {"Retry-After": str(error.retry_after)}
        case errors.Unavailable():
            return {"Retry-After": "5"}
        case errors.Unauthorized():
            return {"WWW-Authenticate": challenge}
        case _:
            return {}


def render_malformed(request_id: str) -> bytes:
    """Return the raw response to bytes that are not valid HTTP."""
    return _render_raw(400, "BadRequest", "This is not a valid HTTP request", request_id)


def render_head_too_long(request_id: str, limit: int) -> bytes:
    """Return the raw response to headers of more than ``limit`` bytes."""
    details = f"The request line and the headers may have at most {limit} bytes together."
    return _render_raw(
        431, "HeadersTooLarge", "The headers of the request are too large", request_id, details
    )


def render_target_too_long(request_id: str, limit: int) -> bytes:
    """Return the raw response to a request line of more than ``limit`` bytes."""
    details = f"It may have at most {limit} bytes, including the headers."
    return _render_raw(414, "UriTooLong", "The request line is too long", request_id, details)


def render_too_many_connections(request_id: str) -> bytes:
    """Return the raw response to a connection above the limit."""
    return _render_raw(
        503, "Unavailable", "Too many connections", request_id, extra_headers=b"Retry-After: 5\r\n"
    )


def _render_raw(
    status: int,
    kind: str,
    message: str,
    request_id: str,
    details: str = "",
    *,
    extra_headers: bytes = b"",
) -> bytes:
    body = msgspec.json.encode(ErrorBody(kind, message, details))
    return (
        b"HTTP/1.1 %d %b\r\nContent-Type: application/json; charset=utf-8\r\n"
        b"Cache-Control: no-store\r\nConnection: close\r\nX-Request-Id: %b\r\n%b%b"
        b"Content-Length: %d\r\n\r\n%b"
        % (
            status,
            HTTPStatus(status).phrase.encode(),
            request_id.encode(),
            "".join(f"{name}: {value}\r\n" for name, value in SECURITY_HEADERS.items()).encode(),
            extra_headers,
            len(body),
            body,
        )
    )
