"""Readable errors for invalid JSON bodies: msgspec's messages, with suggestions.

msgspec names the path; the field names and values that are valid there come from the body's type.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from msgspec import inspect

from agentd.core.errors import suggest_name

_PATH = r"(?: - at `(?P<path>\$[^`]*)`)?"
_UNKNOWN_FIELD = re.compile(rf"Object contains unknown field `(?P<name>.*?)`{_PATH}", re.DOTALL)
_INVALID_VALUE = re.compile(rf"Invalid enum value '(?P<name>.*?)'{_PATH}", re.DOTALL)
_NO_MATCH = re.compile(
    r"Expected `str` matching regex '.*'(?: - at `(?P<key>key` in `)?(?P<path>\$[^`]*)`)?",
    re.DOTALL,
)
_PATH_MARK = " - at `$"
_STEP = re.compile(r"\.([^.\[]+)|\[[^\]]*\]")
_KEPT_ENDS = 300
"""Characters that are kept of either end of a long message; what was sent is in its middle."""


def explain_validation_error(message: str, kind: Any) -> str:
    """Return msgspec's message about a body of this type, with the nearest or all valid names.

    Instead of a pattern it shows the description of ``Meta(extra={"form": …})``, if there is one.
    """
    if len(message) > 2 * _KEPT_ENDS:
        message = f"{message[:_KEPT_ENDS]}…{message[-_KEPT_ENDS:]}"
    if field := _UNKNOWN_FIELD.fullmatch(message):
        types = [one for one, _ in _find_types(kind, field["path"])]
        structs = [one for one in types if isinstance(one, inspect.StructType)]
        return message + suggest_name(
            field["name"], [one.encode_name for each in structs for one in each.fields]
        )
    if value := _INVALID_VALUE.fullmatch(message):
        types = [one for one, _ in _find_types(kind, value["path"])]
        choices = [one for one in types if isinstance(one, inspect.LiteralType)]
        return message + suggest_name(
            value["name"], [str(one) for each in choices for one in each.values]
        )
    if text := _NO_MATCH.fullmatch(message):
        found = _find_types(kind, text["path"])
        if text["key"]:
            maps = [one for one, _ in found if isinstance(one, inspect.DictType)]
            found = [each for one in maps for each in _unwrap(one.key_type)]
        forms = [form for _, form in found if form]
        place = f"{text['key'] or ''}{text['path'] or '$'}"
        return f"Expected {forms[0]} - at `{place}`" if forms else message
    return message


def prepend_to_path(message: str, name: str) -> str:
    """Return a message about a member's value, which may have a path, as one about the whole."""
    said, mark, path = message.rpartition(_PATH_MARK)
    return f"{said}{mark}.{name}{path}" if mark else f"{message}{_PATH_MARK}.{name}`"


def spell_path(message: str, kind: Any) -> str:
    """Return a message with its path in the names of the body, not in those of attributes."""
    said, mark, path = message.rpartition(_PATH_MARK)
    found, spelled = list(_unwrap(_inspect(kind))), ""
    for step in _STEP.finditer(path.removesuffix("`")):
        fields = [field for one, _ in found for field in getattr(one, "fields", ())]
        name = next((one.encode_name for one in fields if step[1] == one.name), step[1])
        spelled += f".{name}" if name else step[0]
        inner = [_step_into(one, name) for one, _ in found]
        found = [each for one in inner if one is not None for each in _unwrap(one)]
    return f"{said}{mark}{spelled}`" if mark else message


def _find_types(kind: Any, path: str | None) -> list[tuple[inspect.Type, str]]:
    """Return the types that a path of the body may have, each with the ``form`` of its text."""
    found = list(_unwrap(_inspect(kind)))
    for step in _STEP.finditer(path or ""):
        inner = [_step_into(one, step[1]) for one, _ in found]
        found = [each for one in inner if one is not None for each in _unwrap(one)]
    return found


def _step_into(kind: inspect.Type, name: str | None) -> inspect.Type | None:
    """Return the type of a field, or of an item if there is no name."""
    match kind:
        case inspect.StructType(fields=fields) if name is not None:
            return next((field.type for field in fields if field.encode_name == name), None)
        case inspect.DictType(value_type=inner) if name is None:
            return inner
        case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
            return inner
    return None


def _unwrap(kind: inspect.Type, form: str = "") -> Iterator[tuple[inspect.Type, str]]:
    """Yield each type of a union, without its metadata except ``form``."""
    match kind:
        case inspect.Metadata(type=inner, extra=extra):
            yield from _unwrap(inner, (extra or {}).get("form", form))
        case inspect.UnionType(types=types):
            for one in types:
                yield from _unwrap(one, form)
        case _:
            yield kind, form


@cache
def _inspect(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)
