"""What a client sends after its handshake."""

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from agentd.errors import BadRequest


class Call(Struct, frozen=True):
    """The client calls a method (types 1 and 4); ``id`` None: it wants no answer.

    ``target`` and ``arguments`` are whatever the client sent: ``hub`` judges them.
    """

    target: Any
    arguments: Any
    id: str | None
    stream: bool


class Passing(Struct, frozen=True):
    """A tracked message that means nothing here: types 2, 3 and 5."""


class Ping(Struct, frozen=True):
    """The client lives (type 6)."""


class Close(Struct, frozen=True):
    """The client goes (type 7)."""


class Ack(Struct, frozen=True):
    """The client has all tracked records up to ``number`` (type 8)."""

    number: int


class Sequence(Struct, frozen=True):
    """The client's next tracked message is ``number`` (type 9)."""

    number: int


class Unknown(Struct, frozen=True):
    """A type from the future, to be passed over."""


Message: TypeAlias = Call | Passing | Ping | Close | Ack | Sequence | Unknown


def message(record: bytes) -> Message:
    """The typed message of a record.

    Raises ``BadRequest``, whose message may be sent, when it is no JSON object or lacks what its
    type must have. Headers are never read: the Python clients put their key there.
    """
    fields = json_object(record)
    kind = fields.get("type")
    if type(kind) is not int:
        raise BadRequest("A message has an integer 'type'")
    make = _KINDS.get(kind)
    return make(fields) if make else Unknown()


def json_object(record: bytes) -> dict[str, Any]:
    """The record as a JSON object; raises ``BadRequest`` for anything else."""
    try:
        found = msgspec.json.decode(record)
    except (ValueError, RecursionError) as error:
        raise BadRequest("A record is one JSON object in UTF-8") from error
    if not isinstance(found, dict):
        raise BadRequest("A record is one JSON object")
    return found


def _call(fields: dict[str, Any], *, stream: bool) -> Call:
    call = fields.get("invocationId")
    if not isinstance(call, str | None):
        raise BadRequest("An 'invocationId' is a string")
    return Call(fields.get("target"), fields.get("arguments"), call, stream)


def _number(fields: dict[str, Any]) -> int:
    number = fields.get("sequenceId")
    if type(number) is not int:
        raise BadRequest("A 'sequenceId' is an integer")
    return number


_KINDS: dict[int, Callable[[dict[str, Any]], Message]] = {
    1: lambda fields: _call(fields, stream=False),
    2: lambda _: Passing(),
    3: lambda _: Passing(),
    4: lambda fields: _call(fields, stream=True),
    5: lambda _: Passing(),
    6: lambda _: Ping(),
    7: lambda _: Close(),
    8: lambda fields: Ack(_number(fields)),
    9: lambda fields: Sequence(_number(fields)),
}
