"""Errors as callers of each dialect expect them: status and body, or the last event of a stream.

The ``Retry-After`` header is set elsewhere.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.json import encode

from agentd.core.sse import encode_event, encode_json_event
from agentd.llm.dialects.caller import GatewayErrorKind
from agentd.llm.endpoint import ChannelDialect

__all__ = [
    "GatewayErrorKind",
    "build_error_schema",
    "get_error_status",
    "render_error",
    "render_error_event",
]

TOO_LONG = "prompt is too long"
"""The text by which Claude Code recognizes that it has to shorten the conversation."""


class _ErrorForm(Struct, frozen=True):
    """The form of one kind of error in one dialect."""

    status: int
    type: str
    """``type``, of Gemini's ``status``."""
    code: str | None = None
    """OpenAI's finer word; Codex and others act upon it."""


_OPENAI: Mapping[GatewayErrorKind, _ErrorForm] = {
    "authentication": _ErrorForm(401, "authentication_error", "invalid_api_key"),
    "permission": _ErrorForm(403, "permission_error", "permission_denied"),
    "not_found": _ErrorForm(404, "not_found_error", "model_not_found"),
    "invalid_request": _ErrorForm(400, "invalid_request_error"),
    "context_too_long": _ErrorForm(400, "invalid_request_error", "context_length_exceeded"),
    "content_refused": _ErrorForm(400, "invalid_request_error", "content_policy_violation"),
    "rate_limit": _ErrorForm(429, "rate_limit_error", "rate_limit_exceeded"),
    "quota": _ErrorForm(429, "insufficient_quota", "insufficient_quota"),
    "overloaded": _ErrorForm(503, "server_error", "server_is_overloaded"),
    "server": _ErrorForm(500, "server_error", "server_error"),
    "garbled": _ErrorForm(502, "server_error", "server_error"),
    "unusable_reply": _ErrorForm(502, "server_error", "server_error"),
    "broken": _ErrorForm(502, "server_error", "server_error"),
    "limit": _ErrorForm(429, "insufficient_quota", "insufficient_quota"),
    "no_licence": _ErrorForm(402, "permission_error", "no_licence"),
    "blocked": _ErrorForm(400, "invalid_request_error", "secret_found"),
    "too_large": _ErrorForm(413, "invalid_request_error", "request_too_large"),
    "timeout": _ErrorForm(504, "server_error", "timeout"),
    # Of server_is_overloaded Codex says only that the model is at capacity, instead of the reason.
    "unavailable": _ErrorForm(503, "server_error", "unavailable"),
    "address": _ErrorForm(404, "invalid_request_error", "unknown_url"),
    "method": _ErrorForm(405, "invalid_request_error", "method_not_allowed"),
    "misdirected": _ErrorForm(421, "invalid_request_error", "misdirected"),
}

_ANTHROPIC: Mapping[GatewayErrorKind, _ErrorForm] = {
    "authentication": _ErrorForm(401, "authentication_error"),
    "permission": _ErrorForm(403, "permission_error"),
    "not_found": _ErrorForm(404, "not_found_error"),
    "invalid_request": _ErrorForm(400, "invalid_request_error"),
    "context_too_long": _ErrorForm(400, "invalid_request_error"),
    "content_refused": _ErrorForm(400, "invalid_request_error"),
    "rate_limit": _ErrorForm(429, "rate_limit_error"),
    "quota": _ErrorForm(402, "billing_error"),
    "overloaded": _ErrorForm(529, "overloaded_error"),
    "server": _ErrorForm(500, "api_error"),
    "garbled": _ErrorForm(500, "api_error"),
    "unusable_reply": _ErrorForm(500, "api_error"),
    "broken": _ErrorForm(500, "api_error"),
    "limit": _ErrorForm(429, "rate_limit_error"),
    "no_licence": _ErrorForm(402, "billing_error"),
    "blocked": _ErrorForm(400, "invalid_request_error"),
    "too_large": _ErrorForm(413, "request_too_large"),
    "timeout": _ErrorForm(504, "timeout_error"),
    "unavailable": _ErrorForm(529, "overloaded_error"),
    "address": _ErrorForm(404, "not_found_error"),
    "method": _ErrorForm(405, "invalid_request_error"),
    "misdirected": _ErrorForm(421, "invalid_request_error"),
}

_GEMINI: Mapping[GatewayErrorKind, _ErrorForm] = {
    "authentication": _ErrorForm(401, "UNAUTHENTICATED"),
    "permission": _ErrorForm(403, "PERMISSION_DENIED"),
    "not_found": _ErrorForm(404, "NOT_FOUND"),
    "invalid_request": _ErrorForm(400, "INVALID_ARGUMENT"),
    "context_too_long": _ErrorForm(400, "INVALID_ARGUMENT"),
    "content_refused": _ErrorForm(400, "INVALID_ARGUMENT"),
    "rate_limit": _ErrorForm(429, "RESOURCE_EXHAUSTED"),
    "quota": _ErrorForm(429, "RESOURCE_EXHAUSTED"),
    "overloaded": _ErrorForm(503, "UNAVAILABLE"),
    "server": _ErrorForm(500, "INTERNAL"),
    "garbled": _ErrorForm(500, "INTERNAL"),
    "unusable_reply": _ErrorForm(500, "INTERNAL"),
    "broken": _ErrorForm(500, "INTERNAL"),
    "limit": _ErrorForm(429, "RESOURCE_EXHAUSTED"),
    "no_licence": _ErrorForm(403, "PERMISSION_DENIED"),
    "blocked": _ErrorForm(400, "INVALID_ARGUMENT"),
    "too_large": _ErrorForm(413, "INVALID_ARGUMENT"),
    "timeout": _ErrorForm(504, "DEADLINE_EXCEEDED"),
    "unavailable": _ErrorForm(503, "UNAVAILABLE"),
    "address": _ErrorForm(404, "NOT_FOUND"),
    "method": _ErrorForm(405, "INVALID_ARGUMENT"),
    "misdirected": _ErrorForm(421, "INVALID_ARGUMENT"),
}

_TABLES: Mapping[ChannelDialect, Mapping[GatewayErrorKind, _ErrorForm]] = {
    "openai-chat": _OPENAI,
    "openai-responses": _OPENAI,
    "anthropic": _ANTHROPIC,
    "gemini": _GEMINI,
}


DESCRIPTIONS: Mapping[GatewayErrorKind, str] = {
    "authentication": "The access key is missing, invalid, expired or disabled.",
    "permission": "The key is not allowed to use this model, or any channel of it.",
    "not_found": "There is no such model, or the supplier no longer has it.",
    "invalid_request": "The request is invalid, or no channel of the model supports it.",
    "context_too_long": "The conversation exceeds the model's context.",
    "content_refused": "The supplier's content filter refuses the request.",
    "rate_limit": "The supplier limits the rate of requests; Retry-After says when to retry.",
    "quota": "The gateway's account at the supplier has no credit left.",
    "overloaded": "No channel of the model is available now; retry later.",
    "server": "The supplier or the gateway failed.",
    "garbled": "The supplier sent an invalid response.",
    "unusable_reply": "The model's reply cannot be used; another attempt may succeed.",
    "broken": "The supplier cannot be reached, or the connection broke.",
    "limit": "The key's spending or rate limit is reached; the message says until when.",
    "no_licence": "Model requests require a valid licence.",
    "blocked": "The request contains a secret that a rule blocks.",
    "too_large": "The request has too many bytes.",
    "timeout": "The supplier did not answer in time.",
    "unavailable": "The request cannot be served as things stand; the message says why.",
    "address": "There is no endpoint at this path.",
    "method": "The endpoint does not support this method; Allow lists those that it does.",
    "misdirected": "The Host header does not name this daemon.",
}
"""The meaning of each kind of error, in any dialect."""


_NO_FACTS: Mapping[str, object] = {}

_RESETTING_LIMIT = "usage_limit_reached"
"""The type of a spent limit that resets: Codex shows when, instead of a hint at one's billing."""


def get_error_status(dialect: ChannelDialect, kind: GatewayErrorKind) -> tuple[int, str]:
    """Return the status of a kind, and the word in the body that identifies it best."""
    form = _TABLES[dialect][kind]
    return form.status, form.code or form.type


def build_error_schema(dialect: ChannelDialect) -> dict[str, object]:
    """Return the JSON Schema of the error bodies."""
    text: dict[str, object] = {"type": "string"}
    match dialect:
        case "anthropic":
            error = _make_object_schema(type=text, message=text)
            return _make_object_schema(type={"const": "error"}, error=error, request_id=text)
        case "gemini":
            return _make_object_schema(
                error=_make_object_schema(code={"type": "integer"}, message=text, status=text)
            )
        case _:
            named = {field: {"type": ["string", "null"]} for field in ("param", "code")}
            known = {"message": text, "type": text, **named}
            error = _make_object_schema(**known)
            if dialect == "openai-responses":  # only spent limits have it
                error["properties"] = {**known, "resets_at": {"type": "integer"}}
            return _make_object_schema(error=error)


def _make_object_schema(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def render_error(
    dialect: ChannelDialect,
    kind: GatewayErrorKind,
    message: str,
    request_id: str,
    facts: Mapping[str, object] = _NO_FACTS,
    resets_at: int | None = None,
) -> tuple[int, bytes]:
    """Return status and body of an error; see ``CallerDialect.render_error``.

    ``facts`` are fields that clients react to: the ``details`` of Anthropic's errors, ``param`` and
    ``code`` of OpenAI's; Gemini's errors have no place for them. ``resets_at`` is when a spent
    limit resets, in seconds since 1970, for clients of the Responses API.
    """
    form = _TABLES[dialect][kind]
    body = _build_body(dialect, kind, form, message, request_id)
    if facts and dialect == "anthropic":
        body["error"] = {"type": form.type, "message": message, "details": facts}
    elif facts and dialect != "gemini":
        body["error"] = {"message": message, "type": form.type, **facts}
    elif kind == "limit" and resets_at is not None and dialect == "openai-responses":
        spent = {"type": _RESETTING_LIMIT, "param": None, "code": form.code}
        body["error"] = {"message": message, **spent, "resets_at": resets_at}
    return form.status, encode(body)


def render_error_event(
    dialect: ChannelDialect,
    kind: GatewayErrorKind,
    message: str,
    request_id: str,
    sequence: int = 0,
) -> bytes:
    """Return the event that ends a broken stream; see ``CallerDialect.render_error_event``.

    ``sequence`` is the event's number in a response (Responses only).
    """
    form = _TABLES[dialect][kind]
    body = _build_body(dialect, kind, form, message, request_id)
    match dialect:
        case "anthropic":
            return encode_json_event(encode(body), "error")
        case "openai-responses":
            error = {"code": form.code or form.type, "message": message, "param": None}
            numbered = {"type": "error", **error, "sequence_number": sequence}
            return encode_json_event(encode(numbered), "error")
        case _:
            return encode_event(encode(body).decode())


def _build_body(
    dialect: ChannelDialect, kind: GatewayErrorKind, form: _ErrorForm, message: str, request_id: str
) -> dict[str, object]:
    match dialect:
        case "anthropic":
            if kind == "context_too_long" and TOO_LONG not in message:
                message = f"{TOO_LONG}: {message}"
            error = {"type": form.type, "message": message}
            return {"type": "error", "error": error, "request_id": request_id}
        case "gemini":
            return {"error": {"code": form.status, "message": message, "status": form.type}}
        case _:
            named = {"type": form.type, "param": None, "code": form.code}
            return {"error": {"message": message, **named}}
