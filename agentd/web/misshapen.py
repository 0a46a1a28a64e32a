"""What is wrong with the form of a JSON body, and what would be right there.

msgspec tells the place; the names and values that are known there stand in the body's type.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from msgspec import inspect

from agentd.errors import nearest

_PLACE = r"(?: - at `(?P<path>\$[^`]*)`)?"
_FIELD = re.compile(rf"Object contains unknown field `(?P<name>.*?)`{_PLACE}", re.DOTALL)
_VALUE = re.compile(rf"Invalid enum value '(?P<name>.*?)'{_PLACE}", re.DOTALL)
_FORM = re.compile(rf"Expected `str` matching regex '.*'{_PLACE}", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[[^\]]*\]")
_ENDS = 300
"""Characters that are kept of either end of a complaint: what was sent stands in its middle."""


def explained(told: str, kind: Any) -> str:
    """What msgspec told of a body of this kind, with the nearest right name, or those known.

    A text's pattern is told as its ``Meta(extra={"form": …})`` has it.
    """
    if len(told) > 2 * _ENDS:
        told = f"{told[:_ENDS]}…{told[-_ENDS:]}"
    if field := _FIELD.fullmatch(told):
        here = [one for one, _ in _at(kind, field["path"])]
        structs = [one for one in here if isinstance(one, inspect.StructType)]
        return told + nearest(
            field["name"], [one.encode_name for each in structs for one in each.fields]
        )
    if value := _VALUE.fullmatch(told):
        here = [one for one, _ in _at(kind, value["path"])]
        choices = [one for one in here if isinstance(one, inspect.LiteralType)]
        return told + nearest(value["name"], [str(one) for each in choices for one in each.values])
    if text := _FORM.fullmatch(told):
        forms = [form for _, form in _at(kind, text["path"]) if form]
        return f"Expected {forms[0]} - at `{text['path'] or '$'}`" if forms else told
    return told


def _at(kind: Any, path: str | None) -> list[tuple[inspect.Type, str]]:
    """The types that a place of the body may have, each with the form of its text, if told."""
    here = list(_plain(_looked(kind)))
    for step in _STEP.finditer(path or ""):
        inside = [_inside(one, step[1]) for one, _ in here]
        here = [each for one in inside if one is not None for each in _plain(one)]
    return here


def _inside(kind: inspect.Type, name: str | None) -> inspect.Type | None:
    """The type of a field, or of an item where there is no name."""
    match kind:
        case inspect.StructType(fields=fields) if name is not None:
            return next((field.type for field in fields if field.encode_name == name), None)
        case inspect.DictType(value_type=inner) if name is None:
            return inner
        case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
            return inner
    return None


def _plain(kind: inspect.Type, form: str = "") -> Iterator[tuple[inspect.Type, str]]:
    """Each type of a union, without what is told about it but its form."""
    match kind:
        case inspect.Metadata(type=inner, extra=extra):
            yield from _plain(inner, (extra or {}).get("form", form))
        case inspect.UnionType(types=types):
            for one in types:
                yield from _plain(one, form)
        case _:
            yield kind, form


@cache
def _looked(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)
