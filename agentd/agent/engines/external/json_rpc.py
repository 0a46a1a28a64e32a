"""JSON-RPC 2.0 over lines, without any I/O: what Codex and every ACP agent speak.

Invalid lines are ignored, and so are responses to unknown requests: a repeated response counts
once.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from agentd.agent.engines.external.conversation import SendLine
from agentd.llm.dialects.half_characters import HalfCharacterDecoder, may_hold_halves

Id: TypeAlias = int | str

UNKNOWN_METHOD = -32601
"""Error code of a request that this side does not serve."""


class RpcRequest(Struct, frozen=True):
    """A request of the peer; answer with ``RpcPeer.respond`` or ``respond_error``."""

    id: Id
    method: str
    params: object


class RpcNotification(Struct, frozen=True):
    """A notification of the peer."""

    method: str
    params: object


class RpcResult(Struct, frozen=True):
    """The response to our request ``method``."""

    method: str
    value: object


class RpcError(Struct, frozen=True):
    """The error response to our request ``method``."""

    method: str
    code: int
    message: str
    data: object = None


RpcMessage: TypeAlias = RpcRequest | RpcNotification | RpcResult | RpcError


class RpcPeer:
    """The other side. ``marked``: each line has the member ``jsonrpc``, as in the standard."""

    def __init__(self, *, marked: bool) -> None:
        self._mark = {"jsonrpc": "2.0"} if marked else {}
        self._pending: dict[Id, str] = {}
        self._last_id = 0
        self._halves = HalfCharacterDecoder()

    def request(self, method: str, params: object) -> SendLine:
        """Build a request; its response is an ``RpcResult`` or ``RpcError`` of this method."""
        self._last_id += 1
        self._pending[self._last_id] = method
        return self._send(id=self._last_id, method=method, params=params)

    def notify(self, method: str, params: object = None) -> SendLine:
        """Build a notification."""
        given = {} if params is None else {"params": params}
        return self._send(method=method, **given)

    def respond(self, id: Id, result: object) -> SendLine:  # noqa: A002
        """Build the response to their request."""
        return self._send(id=id, result=result)

    def respond_error(self, id: Id, message: str, code: int = UNKNOWN_METHOD) -> SendLine:  # noqa: A002
        """Build an error response to their request."""
        return self._send(id=id, error={"code": code, "message": message})

    def parse(self, line: bytes) -> RpcMessage | None:
        """Parse a line; None for anything that is not a message for this side."""
        try:
            given = decode_line(line, self._halves)
        except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested too deep
            return None
        if not isinstance(given, dict):
            return None
        method, params = given.get("method"), given.get("params")
        if "id" not in given:
            return RpcNotification(method, params) if isinstance(method, str) else None
        number = given["id"]
        if not isinstance(number, int | str) or isinstance(number, bool):
            return None
        if isinstance(method, str):
            return RpcRequest(number, method, params)
        return (
            _parse_response(self._pending.pop(number), given) if number in self._pending else None
        )

    def _send(self, **members: object) -> SendLine:
        return SendLine(msgspec.json.encode({**self._mark, **members}))


def decode_line(line: bytes, halves: HalfCharacterDecoder) -> Any:
    """Return a line's value, whose texts may be cut within a character; see ``halves``.

    Raises ``ValueError``, ``RecursionError``.
    """
    try:
        return msgspec.json.decode(line)
    except ValueError:
        if not may_hold_halves(line):
            raise
        return halves.decode(line)


def _parse_response(method: str, given: Mapping[str, Any]) -> RpcResult | RpcError:
    error = given.get("error")
    if error is None:
        return RpcResult(method, given.get("result"))
    code = get_path(error, "code")
    number = code if isinstance(code, int) else 0
    return RpcError(method, number, get_text(error, "message"), get_path(error, "data"))


def get_path(value: object, *path: str) -> object:
    """Return the value at a path of member names; None when there is none."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def get_text(value: object, *path: str) -> str:
    """Return the text at a path; empty when there is none."""
    found = get_path(value, *path)
    return found if isinstance(found, str) else ""


def iter_list(value: object, *path: str) -> Iterator[object]:
    """Yield the elements of the list at a path; none when there is no list."""
    found = get_path(value, *path)
    yield from found if isinstance(found, list) else ()
