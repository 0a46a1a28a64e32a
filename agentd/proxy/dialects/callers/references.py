"""Requests to ``/v1/responses`` that name items of earlier replies instead of sending them.

Libraries whose user asks for stored replies, which is the usual case of this dialect, send
``{"type": "item_reference", "id": …}`` for whatever the model said before.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from agentd.errors import BadRequest
from agentd.proxy.dialects.callers.asked import assembled, pieces

REFERENCE = "item_reference"
"""The type of an item that names another one."""


class _Reference(Struct, frozen=True):
    type: str
    id: str


class _Reply(Struct, frozen=True):
    output: list[Raw]


class _Item(Struct, frozen=True):
    id: str


def resolve_references(body: bytes, find: Callable[[str], bytes | None]) -> bytes:
    """Return the request with the items that ``find`` knows in the place of their references.

    Other references stay: a supplier of the same dialect may know them. Raises ``BadRequest`` for
    a body that is no JSON object, and for an item that is named twice: the vendor refuses that,
    and it bounds how much longer a request can get.
    """
    if REFERENCE.encode() not in body:
        return body
    fields = pieces(body)
    try:
        items = msgspec.json.decode(fields.get("input", b"[]"), type=list[Raw])
    except msgspec.DecodeError:
        return body  # a text, or wrong: reading all of it tells what is
    seen: set[str] = set()
    resolved: list[Raw] = []
    for position, item in enumerate(items):
        name = _referenced_id(item)
        if name in seen:
            raise BadRequest(f"$.input[{position}] refers to an item for a second time")
        if name is not None:
            seen.add(name)
        found = None if name is None else find(name)
        resolved.append(item if found is None else Raw(found))
    changed = any(new is not old for new, old in zip(resolved, items, strict=True))
    return assembled(body, fields, {"input": resolved} if changed else {})


def encode_items(items: Sequence[Mapping[str, object]]) -> dict[str, bytes]:
    """Return what later requests can refer to of a reply: its items, by their ids."""
    return {str(item["id"]): msgspec.json.encode(item) for item in items}


def items_of_reply(body: bytes) -> dict[str, bytes]:
    """The same of a reply that was written at once."""
    output = msgspec.json.decode(body, type=_Reply).output
    return {msgspec.json.decode(item, type=_Item).id: bytes(item) for item in output}


def _referenced_id(item: Raw) -> str | None:
    """The id that an item consists of; None: it is an item itself."""
    if REFERENCE.encode() not in bytes(item):
        return None
    try:
        read = msgspec.json.decode(item, type=_Reference)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return read.id if read.type == REFERENCE else None
