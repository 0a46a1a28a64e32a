"""Errors as the callers of each dialect expect them: a status and a body, or a stream's last event.

How long to wait is told in the answer's head, which is not made here.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.json import encode

from agentd.proxy.channel import ChannelDialect
from agentd.proxy.dialects.caller import GatewayError
from agentd.wire.sse import event, json_event

__all__ = ["GatewayError", "error", "error_event", "schema", "status"]

TOO_LONG = "prompt is too long"
"""What Claude Code looks for in the message to know that it has to shorten the conversation."""


class _Told(Struct, frozen=True):
    """A kind of error in one dialect."""

    status: int
    type: str
    """``type``, of Gemini's ``status``."""
    code: str | None = None
    """OpenAI's finer word; Codex and others act upon it."""


_OPENAI: Mapping[GatewayError, _Told] = {
    "authentication": _Told(401, "authentication_error", "invalid_api_key"),
    "permission": _Told(403, "permission_error", "permission_denied"),
    "not_found": _Told(404, "not_found_error", "model_not_found"),
    "invalid_request": _Told(400, "invalid_request_error"),
    "context_too_long": _Told(400, "invalid_request_error", "context_length_exceeded"),
    "rate_limit": _Told(429, "rate_limit_error", "rate_limit_exceeded"),
    "quota": _Told(429, "insufficient_quota", "insufficient_quota"),
    "overloaded": _Told(503, "server_error", "server_is_overloaded"),
    "server": _Told(500, "server_error", "server_error"),
    "garbled": _Told(502, "server_error", "server_error"),
    "broken": _Told(502, "server_error", "server_error"),
    "limit": _Told(429, "insufficient_quota", "insufficient_quota"),
    "no_licence": _Told(402, "permission_error", "no_licence"),
    "blocked": _Told(400, "invalid_request_error", "secret_found"),
    "too_large": _Told(413, "invalid_request_error", "request_too_large"),
    "timeout": _Told(504, "server_error", "timeout"),
    "address": _Told(404, "invalid_request_error", "unknown_url"),
    "method": _Told(405, "invalid_request_error", "method_not_allowed"),
    "misdirected": _Told(421, "invalid_request_error", "misdirected"),
}

_ANTHROPIC: Mapping[GatewayError, _Told] = {
    "authentication": _Told(401, "authentication_error"),
    "permission": _Told(403, "permission_error"),
    "not_found": _Told(404, "not_found_error"),
    "invalid_request": _Told(400, "invalid_request_error"),
    "context_too_long": _Told(400, "invalid_request_error"),
    "rate_limit": _Told(429, "rate_limit_error"),
    "quota": _Told(402, "billing_error"),
    "overloaded": _Told(529, "overloaded_error"),
    "server": _Told(500, "api_error"),
    "garbled": _Told(500, "api_error"),
    "broken": _Told(500, "api_error"),
    "limit": _Told(429, "rate_limit_error"),
    "no_licence": _Told(402, "billing_error"),
    "blocked": _Told(400, "invalid_request_error"),
    "too_large": _Told(413, "request_too_large"),
    "timeout": _Told(504, "timeout_error"),
    "address": _Told(404, "not_found_error"),
    "method": _Told(405, "invalid_request_error"),
    "misdirected": _Told(421, "invalid_request_error"),
}

_GEMINI: Mapping[GatewayError, _Told] = {
    "authentication": _Told(401, "UNAUTHENTICATED"),
    "permission": _Told(403, "PERMISSION_DENIED"),
    "not_found": _Told(404, "NOT_FOUND"),
    "invalid_request": _Told(400, "INVALID_ARGUMENT"),
    "context_too_long": _Told(400, "INVALID_ARGUMENT"),
    "rate_limit": _Told(429, "RESOURCE_EXHAUSTED"),
    "quota": _Told(429, "RESOURCE_EXHAUSTED"),
    "overloaded": _Told(503, "UNAVAILABLE"),
    "server": _Told(500, "INTERNAL"),
    "garbled": _Told(500, "INTERNAL"),
    "broken": _Told(500, "INTERNAL"),
    "limit": _Told(429, "RESOURCE_EXHAUSTED"),
    "no_licence": _Told(403, "PERMISSION_DENIED"),
    "blocked": _Told(400, "INVALID_ARGUMENT"),
    "too_large": _Told(413, "INVALID_ARGUMENT"),
    "timeout": _Told(504, "DEADLINE_EXCEEDED"),
    "address": _Told(404, "NOT_FOUND"),
    "method": _Told(405, "INVALID_ARGUMENT"),
    "misdirected": _Told(421, "INVALID_ARGUMENT"),
}

_TABLES: Mapping[ChannelDialect, Mapping[GatewayError, _Told]] = {
    "openai-chat": _OPENAI,
    "openai-responses": _OPENAI,
    "anthropic": _ANTHROPIC,
    "gemini": _GEMINI,
}


MEANINGS: Mapping[GatewayError, str] = {
    "authentication": "The access key is missing, wrong, expired or disabled.",
    "permission": "The key may not call this model, or not through any of its channels.",
    "not_found": "There is no such model, or the supplier knows it no more.",
    "invalid_request": "The request is wrong, or cannot be said to any channel of the model.",
    "context_too_long": "The model's supplier finds the conversation too long.",
    "rate_limit": "The supplier wants fewer requests; Retry-After tells when to come back.",
    "quota": "The supplier's own account is used up.",
    "overloaded": "No channel of the model can answer now; try again later.",
    "server": "The supplier failed, or agentd did.",
    "garbled": "What the supplier said cannot be understood.",
    "broken": "The supplier cannot be reached, or broke off.",
    "limit": "The key has spent what it may, or calls too often; the message tells until when.",
    "no_licence": "Model requests flow only with a valid licence.",
    "blocked": "The request holds a secret that a rule lets nobody send.",
    "too_large": "The request has too many bytes.",
    "timeout": "The supplier did not answer in time.",
    "address": "Nothing is at this address.",
    "method": "The address has not this method; Allow tells which it has.",
    "misdirected": "The Host header names a host that this daemon is not.",
}
"""What each kind means, whatever the dialect calls it."""


_NO_FACTS: Mapping[str, object] = {}


def status(dialect: ChannelDialect, kind: GatewayError) -> tuple[int, str]:
    """The status of a kind, and the word in the body that names it best."""
    told = _TABLES[dialect][kind]
    return told.status, told.code or told.type


def schema(dialect: ChannelDialect) -> dict[str, object]:
    """The JSON Schema of the bodies."""
    text: dict[str, object] = {"type": "string"}
    match dialect:
        case "anthropic":
            said = _object(type=text, message=text)
            return _object(type={"const": "error"}, error=said, request_id=text)
        case "gemini":
            return _object(error=_object(code={"type": "integer"}, message=text, status=text))
        case _:
            named = {"param": {"type": "null"}, "code": {"type": ["string", "null"]}}
            return _object(error=_object(message=text, type=text, **named))


def _object(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def error(
    dialect: ChannelDialect,
    kind: GatewayError,
    message: str,
    request_id: str,
    facts: Mapping[str, object] = _NO_FACTS,
) -> tuple[int, bytes]:
    """Status and body of an error; see ``CallerDialect.error``.

    ``facts`` are what the client's library acts upon; only Anthropic's errors have a place for it.
    """
    told = _TABLES[dialect][kind]
    body = _body(dialect, kind, told, message, request_id)
    if facts and dialect == "anthropic":
        body["error"] = {"type": told.type, "message": message, "details": facts}
    return told.status, encode(body)


def error_event(
    dialect: ChannelDialect,
    kind: GatewayError,
    message: str,
    request_id: str,
    sequence: int = 0,
) -> bytes:
    """What ends a stream that broke; see ``CallerDialect.error_event``.

    ``sequence`` is the event's number in a response (Responses only).
    """
    told = _TABLES[dialect][kind]
    body = _body(dialect, kind, told, message, request_id)
    match dialect:
        case "anthropic":
            return json_event(encode(body), "error")
        case "openai-responses":
            said = {"code": told.code or told.type, "message": message, "param": None}
            numbered = {"type": "error", **said, "sequence_number": sequence}
            return json_event(encode(numbered), "error")
        case _:
            return event(encode(body).decode())


def _body(
    dialect: ChannelDialect, kind: GatewayError, told: _Told, message: str, request_id: str
) -> dict[str, object]:
    match dialect:
        case "anthropic":
            if kind == "context_too_long" and TOO_LONG not in message:
                message = f"{TOO_LONG}: {message}"
            said = {"type": told.type, "message": message}
            return {"type": "error", "error": said, "request_id": request_id}
        case "gemini":
            return {"error": {"code": told.status, "message": message, "status": told.type}}
        case _:
            named = {"type": told.type, "param": None, "code": told.code}
            return {"error": {"message": message, **named}}
