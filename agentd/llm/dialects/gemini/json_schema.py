"""Gemini's own variant of JSON Schema (``Schema``), translated to the standard."""

from collections.abc import Mapping

from agentd.core.errors import BadRequest

_NUMBERS = (
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
)
"""Numbers that may be written as text, as the vendor's wire format has 64-bit numbers."""

_SAME = (
    "title",
    "description",
    "format",
    "enum",
    "required",
    "pattern",
    "minimum",
    "maximum",
    "default",
    "additionalProperties",
)

_OWN_FORMATS = ("enum", "int32", "int64", "float", "double")
"""Formats of Google's that the standard does not know, and that other suppliers may refuse."""

_ASIDE = ("nullable", "example", "propertyOrdering")
"""Keywords that do not restrict values, or that are expressed otherwise."""


def to_json_schema(schema: object) -> dict[str, object]:
    """Return the standard form. Raises ``BadRequest`` for unknown fields."""
    if not isinstance(schema, Mapping):
        raise BadRequest("A tool's parameters are not a JSON Schema object")
    found: dict[str, object] = {}
    for written, value in schema.items():
        name = _to_camel_case(str(written))
        if name in _SAME or name.startswith("$"):
            if name != "format" or value not in _OWN_FORMATS:
                found[name] = value
        elif name == "type":
            found["type"] = str(value).lower()
        elif name in _NUMBERS:
            found[name] = _parse_number(name, value)
        elif name == "items":
            found["items"] = to_json_schema(value)
        elif name == "anyOf" and isinstance(value, list):
            found["anyOf"] = [to_json_schema(one) for one in value]
        elif name in ("properties", "defs") and isinstance(value, Mapping):
            found[name] = {str(key): to_json_schema(inner) for key, inner in value.items()}
        elif name not in _ASIDE:
            raise BadRequest(f"{name[:60]!r} is not a field of a schema")
    if found.get("type") == "type_unspecified":
        del found["type"]
    return found | _allow_null(found) if schema.get("nullable") is True else found


def _allow_null(schema: Mapping[str, object]) -> dict[str, object]:
    """Return what changes in a schema that also allows null."""
    changed: dict[str, object] = {}
    if "type" in schema:
        changed["type"] = [schema["type"], "null"]
    elif isinstance(choices := schema.get("anyOf"), list):
        changed["anyOf"] = [*choices, {"type": "null"}]
    if isinstance(values := schema.get("enum"), list) and None not in values:
        changed["enum"] = [*values, None]
    return changed


def _parse_number(name: str, value: object) -> int:
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError):
        raise BadRequest(f"{name!r} must be a number, not {str(value)[:40]!r}") from None


def _to_camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)
