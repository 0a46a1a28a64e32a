"""JSON-RPC messages of the Model Context Protocol: how they are read and made. Pure."""

from collections.abc import Mapping
from typing import TypeAlias, TypeGuard

from msgspec import Struct

from agentd.core.errors import AgentdError

MessageId: TypeAlias = str | int
"""Identifies a request; unlike in JSON-RPC itself never null or a fraction."""

JsonObject: TypeAlias = dict[str, object]

INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
"""Until revision 2025-11-25; later ``INVALID_PARAMS``."""
HEADER_MISMATCH = -32020
UNSUPPORTED_REVISION = -32022

MAX_ID_LENGTH = 1000
"""Characters of a request's id."""


class McpError(AgentdError):
    """The answer to a message is a JSON-RPC error; ``status`` is the HTTP status that goes with it.

    Only clients of revision 2026-07-28 receive the status; earlier ones receive 200.
    """

    def __init__(
        self, code: int, message: str, *, status: int = 400, data: JsonObject | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.data = data


class McpRequest(Struct, frozen=True):
    """A message that expects an answer."""

    id: MessageId
    method: str
    params: JsonObject

    @property
    def meta(self) -> Mapping[str, object]:
        """The metadata of the request; empty if there is none."""
        found = self.params.get("_meta")
        return found if is_object(found) else {}


class McpNotification(Struct, frozen=True):
    """A message that expects no answer."""

    method: str
    params: JsonObject


class McpReply(Struct, frozen=True):
    """The client's answer to a request of the server; ``result`` is None if it is an error."""

    id: MessageId
    result: JsonObject | None


McpMessage: TypeAlias = McpRequest | McpNotification | McpReply


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Return whether a decoded JSON value is an object, whose keys are strings then."""
    return isinstance(value, dict)


def read_message(value: object) -> McpMessage:
    """Return a decoded JSON value as a message; raises ``McpError``."""
    if isinstance(value, list):
        raise McpError(
            INVALID_REQUEST,
            "Batches are not part of the protocol since revision 2025-06-18:"
            " send each message by itself",
        )
    if not is_object(value) or value.get("jsonrpc") != "2.0":
        raise McpError(INVALID_REQUEST, 'A message is an object with "jsonrpc": "2.0"')
    method = value.get("method")
    if method is None:
        return _read_reply(value)
    params = value.get("params", {})
    if not isinstance(method, str) or not is_object(params):
        raise McpError(INVALID_REQUEST, '"method" must be a string and "params" an object')
    if "id" not in value:
        return McpNotification(method, params)
    return McpRequest(_read_id(value), method, params)


def find_id(value: object) -> MessageId | None:
    """Return the id of what may not be a valid message otherwise, for the answer to it."""
    found = value.get("id") if is_object(value) else None
    return found if _is_id(found) else None


def _read_reply(value: JsonObject) -> McpReply:
    result, error = value.get("result"), value.get("error")
    if is_object(result) == is_object(error):
        raise McpError(INVALID_REQUEST, 'A message has a "method", a "result" or an "error"')
    return McpReply(_read_id(value), result if is_object(result) else None)


def _read_id(value: JsonObject) -> MessageId:
    found = value.get("id")
    if not _is_id(found):
        raise McpError(
            INVALID_REQUEST, f'"id" must be an integer or a string of at most {MAX_ID_LENGTH}'
        )
    return found


def _is_id(value: object) -> TypeGuard[MessageId]:
    if isinstance(value, str):
        return len(value) <= MAX_ID_LENGTH
    return isinstance(value, int) and not isinstance(value, bool)


def make_result(request_id: MessageId, result: Mapping[str, object]) -> JsonObject:
    """Return the answer to a request."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def make_error(request_id: MessageId | None, error: McpError) -> JsonObject:
    """Return the answer to a request that failed; without the id if that could not be read."""
    described: JsonObject = {"code": error.code, "message": error.message}
    if error.data is not None:
        described["data"] = error.data
    answer: JsonObject = {"jsonrpc": "2.0"}
    if request_id is not None:
        answer["id"] = request_id
    return {**answer, "error": described}


def make_request(request_id: MessageId, method: str, params: Mapping[str, object]) -> JsonObject:
    """Return a request of the server to the client."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def make_notification(method: str, params: Mapping[str, object]) -> JsonObject:
    """Return a notification of the server."""
    return {"jsonrpc": "2.0", "method": method, "params": params}
