"""Descriptions of the fields of request and response bodies, for OpenAPI.

A field's description is the one of the ``Meta`` of its type, or the string below the field in the
source; a generated struct takes those of the struct that it was generated from.
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

_SOURCES: dict[type, type] = {}


def inherit_field_docs(kind: type, source: type) -> None:
    """Describe the fields of a generated struct as those of the same name in ``source``."""
    _SOURCES[kind] = source


def describe_fields(kind: type) -> dict[str, str]:
    """Return the descriptions of the fields, one line each, by their JSON names.

    Blocks when it reads a module's source for the first time.
    """
    known = dict(_find_docs(_SOURCES[kind])) if kind in _SOURCES else {}
    known |= _find_docs(kind)
    by_json_name = {json_name: known.get(name, "") for name, json_name, _ in _iter_fields(kind)}
    return {name: " ".join(text.split()) for name, text in by_json_name.items() if text}


def _find_docs(kind: type) -> Iterator[tuple[str, str]]:
    in_source: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        in_source |= _read_module(one.__module__).get(one.__qualname__, {})
    for name, _, annotation in _iter_fields(kind):
        if text := _read_meta(annotation) or in_source.get(name):
            yield name, text


def _iter_fields(kind: type) -> Iterator[tuple[str, str, object]]:
    """Yield each field's name, its JSON name, and its type."""
    if issubclass(kind, Struct):
        yield from ((one.name, one.encode_name, one.type) for one in structs.fields(kind))
    elif dataclasses.is_dataclass(kind):
        yield from ((one.name, one.name, one.type) for one in dataclasses.fields(kind))


def _read_meta(kind: object) -> str | None:
    if get_origin(kind) is not Annotated:
        return None
    metas = (one for one in get_args(kind)[1:] if isinstance(one, msgspec.Meta))
    return next((one.description for one in metas if one.description), None)


@cache
def _read_module(name: str) -> Mapping[str, dict[str, str]]:
    """Return the strings below the fields of each class of a module, by qualified name."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[name]))
    except (OSError, TypeError, KeyError):  # built in, or installed without its source
        return {}
    return dict(_read_classes(tree, ""))


def _read_classes(
    body: ast.Module | ast.ClassDef, prefix: str
) -> Iterator[tuple[str, dict[str, str]]]:
    for one in body.body:
        if isinstance(one, ast.ClassDef):
            yield f"{prefix}{one.name}", dict(_read_class(one))
            yield from _read_classes(one, f"{prefix}{one.name}.")


def _read_class(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for one, after in zip(node.body, node.body[1:], strict=False):
        match one, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, text
