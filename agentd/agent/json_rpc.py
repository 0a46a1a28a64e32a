"""JSON-RPC 2.0 over lines, without any I/O: what Codex and every ACP agent speak.

Each side asks the other and tells it things. A line that is none of these is passed over, and
so is an answer to nothing that was asked: the same answer twice is one answer.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from agentd.agent.conversation import Send

Id: TypeAlias = int | str

UNKNOWN_METHOD = -32601
"""The code for a request that this side does not serve."""


class Request(Struct, frozen=True):
    """They ask; ``Peer.answer`` or ``Peer.refuse`` with this ``id`` answers."""

    id: Id
    method: str
    params: object


class Notice(Struct, frozen=True):
    """They tell."""

    method: str
    params: object


class Result(Struct, frozen=True):
    """They answer what was asked by ``method``."""

    method: str
    value: object


class Refusal(Struct, frozen=True):
    """They answer what was asked by ``method`` with an error."""

    method: str
    code: int
    message: str
    data: object = None


Message: TypeAlias = Request | Notice | Result | Refusal


class Peer:
    """The other side. ``marked``: each line bears the member ``jsonrpc``, as the standard wants."""

    def __init__(self, *, marked: bool) -> None:
        self._mark = {"jsonrpc": "2.0"} if marked else {}
        self._asked: dict[Id, str] = {}
        self._last = 0

    def ask(self, method: str, params: object) -> Send:
        """A request; its answer is heard as ``Result`` or ``Refusal`` of this method."""
        self._last += 1
        self._asked[self._last] = method
        return self._send(id=self._last, method=method, params=params)

    def tell(self, method: str, params: object = None) -> Send:
        """A notification."""
        given = {} if params is None else {"params": params}
        return self._send(method=method, **given)

    def answer(self, id: Id, result: object) -> Send:  # noqa: A002
        """The answer to their request."""
        return self._send(id=id, result=result)

    def refuse(self, id: Id, message: str, code: int = UNKNOWN_METHOD) -> Send:  # noqa: A002
        """Their request cannot be served."""
        return self._send(id=id, error={"code": code, "message": message})

    def heard(self, line: bytes) -> Message | None:
        """What a line says; None for what says nothing that this side understands."""
        try:
            given = msgspec.json.decode(line)
        except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested too deep
            return None
        if not isinstance(given, dict):
            return None
        method, params = given.get("method"), given.get("params")
        if "id" not in given:
            return Notice(method, params) if isinstance(method, str) else None
        number = given["id"]
        if not isinstance(number, int | str) or isinstance(number, bool):
            return None
        if isinstance(method, str):
            return Request(number, method, params)
        return _answer(self._asked.pop(number), given) if number in self._asked else None

    def _send(self, **members: object) -> Send:
        return Send(msgspec.json.encode({**self._mark, **members}))


def _answer(method: str, given: Mapping[str, Any]) -> Result | Refusal:
    error = given.get("error")
    if error is None:
        return Result(method, given.get("result"))
    code = pick(error, "code")
    number = code if isinstance(code, int) else 0
    return Refusal(method, number, text(error, "message"), pick(error, "data"))


def pick(value: object, *path: str) -> object:
    """What stands at a path of member names; None when it does not lead anywhere."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def text(value: object, *path: str) -> str:
    """The text at a path; empty when there is none."""
    found = pick(value, *path)
    return found if isinstance(found, str) else ""


def each(value: object, *path: str) -> Iterator[object]:
    """The elements of the list at a path; none when there is none."""
    found = pick(value, *path)
    yield from found if isinstance(found, list) else ()
