"""Repairs schemas that are not of JSON Schema's draft 2020-12, which suppliers refuse. Pure.

One such tool makes Anthropic answer each request of a chat with status 400. Servers write the
forms of older drafts, such as ``"exclusiveMinimum": true`` of draft 4, or what never was valid.
"""

from collections.abc import Mapping
from math import isfinite
from typing import TypeGuard

_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_SCHEMAS = (
    *("additionalProperties", "contains", "not", "propertyNames", "if", "then", "else"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
)
"""Keywords whose value is a schema."""
_NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTED_SCHEMAS = ("anyOf", "oneOf", "allOf")
_LIMITS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_NUMBERS = ("minimum", "maximum", *_LIMITS)
_COUNTS = (
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("minContains", "maxContains"),
)
_KINDS: dict[str, type] = {
    **dict.fromkeys(("description", "title", "format", "pattern", "$ref", "$comment"), str),
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly", "deprecated"), bool),
    **dict.fromkeys(("enum", "examples"), list),
}


def repair_object(given: Mapping[str, object]) -> dict[str, object]:
    """Return a schema in whose keywords only valid values are left. The depth must be bounded.

    What draft 2020-12 writes in another way is written so; else a wrong value is left out, so that
    more is allowed than the server meant, which it says itself.
    """
    found: dict[str, object] = {}
    for name, value in given.items():
        if name in ("items", "prefixItems"):
            found |= _repair_items(name, value)
        elif name in _SCHEMAS:
            found[name] = _repair(value)
        elif name in _NAMED_SCHEMAS:
            found[name] = _repair_named(value)
        elif name in _LISTED_SCHEMAS:
            parts = [_repair(one) for one in _get_list(value) if isinstance(one, dict | bool)]
            found |= {name: parts} if parts else {}
        elif name in _LIMITS and isinstance(value, bool):
            if value and _is_number(limit := given.get(_LIMITS[name])):
                found[name] = limit
        elif _is_valid(name, value):
            found[name] = value
    return found


def _repair(given: object) -> object:
    """Return a schema; that of anything for what is none."""
    if isinstance(given, dict):
        return repair_object(given)
    return given if isinstance(given, bool) else {}


def _repair_named(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        return {}
    return {name: _repair(one) for name, one in value.items()}


def _repair_items(name: str, value: object) -> dict[str, object]:
    """Return one schema for all items, also where an older draft has one for each place."""
    parts = [_repair(one) for one in _get_list(value)]
    if name == "prefixItems":
        return {name: parts} if parts else {}
    if isinstance(value, list):
        return {name: {"anyOf": parts} if parts else {}}
    return {name: _repair(value)}


def _get_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _is_valid(name: str, value: object) -> bool:
    if name in _KINDS:
        return isinstance(value, _KINDS[name])
    match name:
        case "type":
            return value in _TYPES or (_is_set_of_texts(value) and _are_types(value))
        case "required":
            return _is_set_of_texts(value)
        case "multipleOf":
            return _is_number(value) and value > 0
    if name in _NUMBERS:
        return _is_number(value)
    return name not in _COUNTS or (_is_number(value) and value >= 0 and value == int(value))


def _is_set_of_texts(value: object) -> TypeGuard[list[str]]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        return False
    return len(set(value)) == len(value)


def _are_types(value: list[str]) -> bool:
    return bool(value) and set(value) <= set(_TYPES)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
