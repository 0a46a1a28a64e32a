"""What each field of a body or an answer means: the words that stand below it in the source.

A field is told by the ``Meta`` of its type, or by the string below it, as a reader of the source
finds it; a struct that is made from a noun has the noun's.
"""

import ast
import dataclasses
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, get_args, get_origin

import msgspec
from msgspec import Struct, structs

_NOUNS: dict[type, type] = {}


def derived(kind: type, noun: type) -> None:
    """The fields of one struct mean what those of the other do, where the names are the same."""
    _NOUNS[kind] = noun


def meanings(kind: type) -> dict[str, str]:
    """What the fields mean, one line each, by their names on the wire; blocks a little at first."""
    known = dict(_known(_NOUNS[kind])) if kind in _NOUNS else {}
    known |= _known(kind)
    told = {wire: known.get(name, "") for name, wire, _ in _fields(kind)}
    return {name: " ".join(meaning.split()) for name, meaning in told.items() if meaning}


def _known(kind: type) -> Iterator[tuple[str, str]]:
    written: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        written |= _in_module(one.__module__).get(one.__qualname__, {})
    for name, _, of in _fields(kind):
        if meaning := _by_type(of) or written.get(name):
            yield name, meaning


def _fields(kind: type) -> Iterator[tuple[str, str, object]]:
    """Each field's name, its name on the wire, and its type."""
    if issubclass(kind, Struct):
        yield from ((one.name, one.encode_name, one.type) for one in structs.fields(kind))
    elif dataclasses.is_dataclass(kind):
        yield from ((one.name, one.name, one.type) for one in dataclasses.fields(kind))


def _by_type(kind: object) -> str | None:
    if get_origin(kind) is not Annotated:
        return None
    metas = (one for one in get_args(kind)[1:] if isinstance(one, msgspec.Meta))
    return next((one.description for one in metas if one.description), None)


@cache
def _in_module(name: str) -> Mapping[str, dict[str, str]]:
    """What stands below the fields of each class of a module."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[name]))
    except (OSError, TypeError, KeyError):  # built in, or delivered without its source
        return {}
    return dict(_in_classes(tree, ""))


def _in_classes(
    body: ast.Module | ast.ClassDef, place: str
) -> Iterator[tuple[str, dict[str, str]]]:
    for one in body.body:
        if isinstance(one, ast.ClassDef):
            yield f"{place}{one.name}", dict(_below(one))
            yield from _in_classes(one, f"{place}{one.name}.")


def _below(found: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for one, after in zip(found.body, found.body[1:], strict=False):
        match one, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, text
