"""Errors as callers see them: one table from kind to status, one shape for all.

Source: the remote-control specification, section 7.
"""

import logging
from http import HTTPStatus
from typing import NamedTuple

import msgspec
from msgspec import Struct

from agentd import errors
from agentd.redaction import scrub
from agentd.web.call import DEFENCES

log = logging.getLogger(__name__)


class Envelope(Struct, frozen=True):
    """The body of every error: what kind, what happened, and what may help."""

    error: str
    """The kind, one word."""
    message: str
    """What happened, in English."""
    details: str
    """What may help; may be empty."""


class Failure(NamedTuple):
    """One way in which a request goes wrong."""

    status: int
    kind: str
    """The word in the body that names it."""
    meaning: str


KINDS: dict[type[errors.AgentdError], Failure] = {
    errors.BadRequest: Failure(
        400, "BadRequest", "The body or a parameter is wrong; details names the place."
    ),
    errors.Unauthorized: Failure(401, "Unauthorized", "The key is missing or wrong."),
    errors.Forbidden: Failure(403, "Forbidden", "The caller is known, but may not do this."),
    errors.NotFound: Failure(404, "NotFound", "What the address names is not there."),
    errors.MethodNotAllowed: Failure(
        405, "MethodNotAllowed", "The address has not this method; Allow tells which it has."
    ),
    errors.Conflict: Failure(
        409, "Conflict", "A name is taken, or what is to go is in use; the message says by what."
    ),
    errors.PreconditionFailed: Failure(
        412, "PreconditionFailed", "It has changed since it had the ETag of If-Match."
    ),
    errors.TooLarge: Failure(413, "TooLarge", "The body has too many bytes."),
    errors.UnsupportedMedia: Failure(
        415, "UnsupportedMediaType", "The body is of a type that is not taken here."
    ),
    errors.Misdirected: Failure(
        421, "Misdirected", "The Host header names a host that this daemon is not."
    ),
    errors.LimitReached: Failure(
        429, "LimitReached", "Too often or too many; Retry-After tells when to come back."
    ),
    errors.ManagementDisabled: Failure(
        503, "Disabled", "The management is not configured: PROXY_APP_HASH is not set."
    ),
    errors.Disabled: Failure(503, "Remote API is disabled", "No access key is configured."),
    errors.Unavailable: Failure(
        503, "Unavailable", "It cannot be done right now; the message tells why."
    ),
    errors.Misconfigured: Failure(503, "Unavailable", "A file of the daemon is not in order."),
}
"""What each kind becomes: its status, the ``error`` value that names it, and what it means."""

INTERNAL = Failure(500, "InternalServerError", "A fault of agentd's own; its log tells more.")


def enveloped(error: Exception) -> tuple[int, dict[str, str], Envelope]:
    """The status, the extra headers and the body of an error; an unexpected one is logged."""
    known = next((KINDS[kind] for kind in type(error).__mro__ if kind in KINDS), None)
    if known and isinstance(error, errors.AgentdError):
        # A message may repeat what was sent, and what was sent may be a key in a wrong place.
        envelope = Envelope(known.kind, scrub(error.message), scrub(error.details))
        return known.status, _headers(error), envelope
    log.error("an unexpected error", exc_info=error)
    details = scrub(f"{type(error).__name__}: {error}")
    return INTERNAL.status, {}, Envelope(INTERNAL.kind, "Unexpected server error", details)


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


def head_too_long(request_id: str, limit: int) -> bytes:
    """A whole answer to headers that go on after ``limit`` bytes."""
    details = f"The request line and the headers may have {limit} bytes together."
    return _whole(
        431, "HeadersTooLarge", "The headers of the request are too large", request_id, details
    )


def target_too_long(request_id: str, limit: int) -> bytes:
    """A whole answer to a request line that goes on after ``limit`` bytes."""
    details = f"It may have {limit} bytes, the headers included."
    return _whole(414, "UriTooLong", "The request line is too long", request_id, details)


def full(request_id: str) -> bytes:
    """A whole answer to one connection too many, whatever it was to ask."""
    return _whole(
        503, "Unavailable", "Too many connections", request_id, more=b"Retry-After: 5\r\n"
    )


def _whole(
    status: int,
    kind: str,
    message: str,
    request_id: str,
    details: str = "",
    *,
    more: bytes = b"",
) -> bytes:
    body = msgspec.json.encode(Envelope(kind, message, details))
    return (
        b"HTTP/1.1 %d %b\r\nContent-Type: application/json; charset=utf-8\r\n"
        b"Cache-Control: no-store\r\nConnection: close\r\nX-Request-Id: %b\r\n%b%b"
        b"Content-Length: %d\r\n\r\n%b"
        % (
            status,
            HTTPStatus(status).phrase.encode(),
            request_id.encode(),
            "".join(f"{name}: {value}\r\n" for name, value in DEFENCES.items()).encode(),
            more,
            len(body),
            body,
        )
    )
