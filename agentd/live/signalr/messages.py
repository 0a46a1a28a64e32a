"""Parsing what a client sends: the handshake first, then messages."""

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from agentd.core.errors import BadRequest

HANDSHAKE_VERSIONS = range(3)
"""0 is sent by signalrcore, 1 by most clients, 2 by JavaScript with stateful reconnect."""


class Call(Struct, frozen=True):
    """A call of a hub method (types 1 and 4); without ``id`` no answer is expected.

    ``target`` and ``arguments`` are not validated here but in ``hub``.
    """

    target: Any
    arguments: Any
    id: str | None
    stream: bool


class IgnoredMessage(Struct, frozen=True):
    """A message that is counted but otherwise ignored (types 2, 3 and 5)."""


class Ping(Struct, frozen=True):
    """A sign that the client is alive (type 6)."""


class Close(Struct, frozen=True):
    """The client disconnects (type 7)."""


class Ack(Struct, frozen=True):
    """The client has received all tracked records up to ``number`` (type 8)."""

    number: int


class Sequence(Struct, frozen=True):
    """The client's next tracked message has this number (type 9)."""

    number: int


class Unknown(Struct, frozen=True):
    """A message of an unknown type, which is ignored for compatibility."""


Message: TypeAlias = Call | IgnoredMessage | Ping | Close | Ack | Sequence | Unknown


def parse_message(record: bytes) -> Message:
    """Return the typed message of a record.

    Raises ``BadRequest``, whose message may be sent, when it is not a JSON object or lacks a
    field. Headers are never read: the Python clients put their key there.
    """
    fields = _parse_json_object(record)
    kind = fields.get("type")
    if type(kind) is not int:
        raise BadRequest("A message has an integer 'type'")
    make = _KINDS.get(kind)
    return make(fields) if make else Unknown()


def parse_handshake(record: bytes) -> int:
    """Return the protocol version of a handshake: the first record, on every transport.

    Raises ``BadRequest``, whose message may be sent: no handshake, another protocol or version.
    """
    request = _parse_json_object(record)
    if "protocol" not in request:
        raise BadRequest("The first record must be a handshake with the field 'protocol'")
    if request["protocol"] != "json":
        raise BadRequest("Only the protocol 'json' is supported")
    version = request.get("version")
    if type(version) is not int or version not in HANDSHAKE_VERSIONS:
        raise BadRequest("The version of the protocol must be 0, 1 or 2")
    return version


def _parse_json_object(record: bytes) -> dict[str, Any]:
    """Return the record as a JSON object; raises ``BadRequest`` for anything else."""
    try:
        found = msgspec.json.decode(record)
    except (ValueError, RecursionError) as error:
        raise BadRequest("A record is one JSON object in UTF-8") from error
    if not isinstance(found, dict):
        raise BadRequest("A record is one JSON object")
    return found


def _parse_call(fields: dict[str, Any], *, stream: bool) -> Call:
    call = fields.get("invocationId")
    if not isinstance(call, str | None):
        raise BadRequest("An 'invocationId' is a string")
    return Call(fields.get("target"), fields.get("arguments"), call, stream)


def _parse_number(fields: dict[str, Any]) -> int:
    number = fields.get("sequenceId")
    if type(number) is not int:
        raise BadRequest("A 'sequenceId' is an integer")
    return number


_KINDS: dict[int, Callable[[dict[str, Any]], Message]] = {
    1: lambda fields: _parse_call(fields, stream=False),
    2: lambda _: IgnoredMessage(),
    3: lambda _: IgnoredMessage(),
    4: lambda fields: _parse_call(fields, stream=True),
    5: lambda _: IgnoredMessage(),
    6: lambda _: Ping(),
    7: lambda _: Close(),
    8: lambda fields: Ack(_parse_number(fields)),
    9: lambda fields: Sequence(_parse_number(fields)),
}
