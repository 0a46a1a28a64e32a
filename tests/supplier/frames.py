"""What the dialects share: frames of server-sent events, and OpenAI's errors."""

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


def unnamed(value: dict[str, Any]) -> bytes:
    """An event without a name."""
    return b"data: %b\n\n" % json.dumps(value, separators=(",", ":")).encode()


def named(value: dict[str, Any]) -> bytes:
    """An event whose name is its ``type``."""
    return b"event: %b\n%b" % (value["type"].encode(), unnamed(value))


def refusal(refuse: Refuse) -> dict[str, Any]:
    """An error in OpenAI's form."""
    kind = refuse.type or _TYPES.get(refuse.status, "server_error")
    result = {"message": refuse.message, "type": kind, "param": None, "code": refuse.code or None}
    return {"error": result}
