"""Code that the dialects share: frames of server-sent events, and OpenAI's errors."""

import json
from typing import Any

from tests.supplier.steps import Refuse

CREATED = 1_760_000_000
"""The moment of every answer, in seconds, so that answers are the same in every run."""

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def encode_event(value: dict[str, Any]) -> bytes:
    """Encode an event without a name."""
    return b"data: %b\n\n" % json.dumps(value, separators=(",", ":")).encode()


def encode_named_event(value: dict[str, Any]) -> bytes:
    """Encode an event whose name is its ``type``."""
    return b"event: %b\n%b" % (value["type"].encode(), encode_event(value))


def render_openai_error(refuse: Refuse) -> dict[str, Any]:
    """Render an error in OpenAI's form."""
    kind = refuse.type or _TYPES.get(refuse.status, "server_error")
    result = {"message": refuse.message, "type": kind, "param": None, "code": refuse.code or None}
    return {"error": result}
