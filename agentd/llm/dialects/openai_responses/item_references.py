"""Requests to ``/v1/responses`` that refer to items of earlier replies instead of sending them.

Libraries whose user asks for stored replies, which is the default in this dialect, send ``{"type":
"item_reference", "id": …}`` for whatever the model said before.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from agentd.core.errors import BadRequest
from agentd.llm.dialects.request_parsing import decode_raw_fields, encode_with

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
    """Return the request with references replaced by the items that ``find`` knows.

    Other references stay: a supplier of the same dialect may know them. Raises ``BadRequest`` for a
    body that is not a JSON object, and for an item that is referenced twice: the vendor refuses
    that too, and it bounds the growth of the request.
    """
    if REFERENCE.encode() not in body:
        return body
    fields = decode_raw_fields(body)
    try:
        items = msgspec.json.decode(fields.get("input", b"[]"), type=list[Raw])
    except (msgspec.DecodeError, RecursionError):
        return body  # a text, or wrong: parsing all of it shows which
    seen: set[str] = set()
    resolved: list[Raw] = []
    for position, item in enumerate(items):
        name = _get_referenced_id(item)
        if name in seen:
            raise BadRequest(f"$.input[{position}] refers to the same item again")
        if name is not None:
            seen.add(name)
        found = None if name is None else find(name)
        resolved.append(item if found is None else Raw(found))
    changed = any(new is not old for new, old in zip(resolved, items, strict=True))
    return encode_with(body, fields, {"input": resolved} if changed else {})


def encode_items(items: Sequence[Mapping[str, object]]) -> dict[str, bytes]:
    """Return the items of a reply, encoded, by the ids that later requests may refer to."""
    return {str(item["id"]): msgspec.json.encode(item) for item in items}


def decode_items(body: bytes) -> dict[str, bytes]:
    """Return the same for a reply that was rendered at once."""
    output = msgspec.json.decode(body, type=_Reply).output
    return {msgspec.json.decode(item, type=_Item).id: bytes(item) for item in output}


def _get_referenced_id(item: Raw) -> str | None:
    """Return the id of a reference; None for an ordinary item."""
    if REFERENCE.encode() not in bytes(item):
        return None
    try:
        read = msgspec.json.decode(item, type=_Reference)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return read.id if read.type == REFERENCE else None
