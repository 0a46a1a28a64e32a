"""Errors as callers see them: one table from kind to status, one shape for all.

Source: the remote-control specification, section 7.
"""

import logging
from http import HTTPStatus

import msgspec
from msgspec import Struct

from agentd import errors
from agentd.redaction import scrub

log = logging.getLogger(__name__)


class Envelope(Struct, frozen=True):
    """The body of every error: what kind, what happened, and what may help."""

    error: str
    message: str
    details: str


KINDS: dict[type[errors.AgentdError], tuple[int, str]] = {
    errors.BadRequest: (400, "BadRequest"),
    errors.Unauthorized: (401, "Unauthorized"),
    errors.Forbidden: (403, "Forbidden"),
    errors.NotFound: (404, "NotFound"),
    errors.MethodNotAllowed: (405, "MethodNotAllowed"),
    errors.Conflict: (409, "Conflict"),
    errors.PreconditionFailed: (412, "PreconditionFailed"),
    errors.TooLarge: (413, "TooLarge"),
    errors.UnsupportedMedia: (415, "UnsupportedMediaType"),
    errors.Misdirected: (421, "Misdirected"),
    errors.LimitReached: (429, "LimitReached"),
    errors.ManagementDisabled: (503, "Disabled"),
    errors.Disabled: (503, "Remote API is disabled"),
    errors.Unavailable: (503, "Unavailable"),
}
"""Each kind's status, and the ``error`` value that names it."""

INTERNAL = (500, "InternalServerError")


def enveloped(error: Exception) -> tuple[int, dict[str, str], Envelope]:
    """The status, the extra headers and the body of an error; an unexpected one is logged."""
    known = next((KINDS[kind] for kind in type(error).__mro__ if kind in KINDS), None)
    if known and isinstance(error, errors.AgentdError):
        status, kind = known
        # A message may repeat what was sent, and what was sent may be a key in a wrong place.
        envelope = Envelope(kind, scrub(error.message), scrub(error.details))
        return status, _headers(error), envelope
    log.error("an unexpected error", exc_info=error)
    status, kind = INTERNAL
    details = scrub(f"{type(error).__name__}: {error}")
    return status, {}, Envelope(kind, "Unexpected server error", details)


def _headers(error: errors.AgentdError) -> dict[str, str]:
    match error:
        case errors.MethodNotAllowed():
            return {"Allow": ", ".join(error.allowed)}
        case errors.LimitReached():
            return {"Retry-After": str(error.retry_after)}
        case errors.Unavailable():
            return {"Retry-After": "5"}
        case errors.Unauthorized():
            return {"WWW-Authenticate": 'ApiKey realm="agentd"'}
        case _:
            return {}


def malformed(request_id: str) -> bytes:
    """A whole answer to what is not HTTP, in the envelope like every other error."""
    return _whole(400, "BadRequest", "This is not a valid HTTP request", request_id)


def full(request_id: str) -> bytes:
    """A whole answer to one connection too many, whatever it was to ask."""
    return _whole(503, "Unavailable", "Too many connections", request_id, b"Retry-After: 5\r\n")


def _whole(status: int, kind: str, message: str, request_id: str, more: bytes = b"") -> bytes:
    body = msgspec.json.encode(Envelope(kind, message, ""))
    return (
        b"HTTP/1.1 %d %b\r\nContent-Type: application/json; charset=utf-8\r\n"
        b"Cache-Control: no-store\r\nConnection: close\r\nX-Request-Id: %b\r\n%b"
        b"Content-Length: %d\r\n\r\n%b"
        % (
            status,
            HTTPStatus(status).phrase.encode(),
            request_id.encode(),
            more,
            len(body),
            body,
        )
    )
