"""Fields without meaning to a model: clients' bookkeeping, and empty values.

Client libraries send an assistant's message back as they store it, with fields of their own and
with nulls. A supplier of the same dialect may ignore them; where a request is translated, unknown
fields are refused, so these are dropped first.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import Raw, inspect

BOOKKEEPING: Mapping[str, str] = {
    "provider_specific_fields": "litellm: data about the supplier that it called",
    "parsed": "OpenAI's libraries: the text once more, as the object that it was parsed to",
    "parsed_arguments": "OpenAI's libraries: a call's arguments once more",
    "cache_control": "where Anthropic's memory may end; others have their own rules",
    "cache_reference": "the same",
}
"""Names that are left out wherever they stand, whatever they hold, and why."""

_OPAQUE = frozenset(
    ("input", "args", "arguments", "parameters", "input_schema", "schema", "response", "metadata")
)
"""Below these the names are the caller's own."""

_EMPTY = (b"[]", b'""')
"""An empty object may ask for something: ``{"googleSearch": {}}``."""


def drop_ignored_fields(data: bytes, shape: Any) -> bytes:
    """Return the JSON without nulls, bookkeeping, and empty fields that ``shape`` does not know.

    Below fields whose content the caller chooses every byte stays. Time is linear in the bytes,
    times the depth at which ``shape`` has fields.
    """
    return msgspec.json.encode(_strip(Raw(data), list_field_names(shape)))


@cache
def list_field_names(shape: Any) -> frozenset[str]:
    """Return the names of all fields of a type, at any depth."""
    names: set[str] = set()
    seen: set[Any] = set()
    waiting: list[inspect.Type] = [inspect.type_info(shape)]
    while waiting:
        match waiting.pop():
            case inspect.StructType(cls=cls, fields=fields, tag_field=tag) if cls not in seen:
                seen.add(cls)
                names.update(field.encode_name for field in fields)
                names.update((tag,) if tag else ())
                waiting += [field.type for field in fields]
            case inspect.UnionType(types=types) | inspect.TupleType(item_types=types):
                waiting += types
            case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
                waiting.append(inner)
            case inspect.Metadata(type=inner):
                waiting.append(inner)
    return frozenset(names)


def _strip(data: Raw, known: frozenset[str]) -> object:
    first = bytes(memoryview(data)[:1])
    if first not in (b"{", b"["):
        first = bytes(data).lstrip()[:1]
    if first == b"[":
        return [_strip(item, known) for item in msgspec.json.decode(data, type=list[Raw])]
    if first != b"{":
        return data
    return dict(_strip_object(msgspec.json.decode(data, type=dict[str, Raw]), known))


def _strip_object(fields: Mapping[str, Raw], known: frozenset[str]) -> Iterator[tuple[str, object]]:
    for name, value in fields.items():
        text = bytes(memoryview(value)[:8])
        if text == b"null" or name in BOOKKEEPING:
            continue
        if name in known:
            yield name, value if name in _OPAQUE else _strip(value, known)
        elif text not in _EMPTY:
            yield name, value
