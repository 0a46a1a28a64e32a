"""JSON-RPC messages of the Agent Client Protocol: how they are read, and their errors. Pure."""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from agentd.core.errors import AgentdError, NotFound, Unauthorized

AcpJson: TypeAlias = Mapping[str, Any]

VERSION = 1
"""The version of the protocol; an editor that speaks only others disconnects."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
AUTH_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002


class AcpInvalidParams(AgentdError):
    """A request of the editor cannot be meant so."""


def parse_message(line: bytes) -> AcpJson | None:
    """Return a line's message, an empty one for JSON that is no object; None if it is no JSON."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else {}


def choose_code(error: AgentdError) -> int:
    """Return the protocol's code for an error."""
    match error:
        case AcpInvalidParams():
            return INVALID_PARAMS
        case Unauthorized():
            return AUTH_REQUIRED
        case NotFound():
            return RESOURCE_NOT_FOUND
    return INTERNAL_ERROR


def get_object(value: AcpJson, name: str) -> AcpJson:
    """Return an object; an empty one if there is none."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def get_text(value: AcpJson, name: str) -> str:
    """Return a text; an empty one if there is none."""
    found = value.get(name)
    return found if isinstance(found, str) else ""


def get_list(value: AcpJson, name: str) -> list[AcpJson]:
    """Return the objects of a list; none if there is no list."""
    found = value.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
