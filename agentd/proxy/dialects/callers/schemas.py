"""Gemini's own way to write a JSON Schema (``Schema``), and what it means."""

from collections.abc import Mapping

from agentd.errors import BadRequest

_NUMBERS = (
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
)
"""They may be written as text, as the vendor's wire has it with 64-bit numbers."""

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

_ASIDE = ("nullable", "example", "propertyOrdering")
"""No rule for what fits, or told otherwise."""


def json_schema(schema: object) -> dict[str, object]:
    """The same as JSON Schema. Raises ``BadRequest`` for what is none of the vendor's fields."""
    if not isinstance(schema, Mapping):
        raise BadRequest("A tool's parameters are no schema")
    found: dict[str, object] = {}
    for written, value in schema.items():
        name = _camel(str(written))
        if name in _SAME or name.startswith("$"):
            found[name] = value
        elif name == "type":
            found["type"] = str(value).lower()
        elif name in _NUMBERS:
            found[name] = _number(name, value)
        elif name == "items":
            found["items"] = json_schema(value)
        elif name == "anyOf" and isinstance(value, list):
            found["anyOf"] = [json_schema(one) for one in value]
        elif name in ("properties", "defs") and isinstance(value, Mapping):
            found[name] = {str(key): json_schema(inner) for key, inner in value.items()}
        elif name not in _ASIDE:
            raise BadRequest(f"{name[:60]!r} is no field of a schema")
    if found.get("type") == "type_unspecified":
        del found["type"]
    if schema.get("nullable") is True and "type" in found:
        found["type"] = [found["type"], "null"]
    return found


def _number(name: str, value: object) -> int:
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError):
        raise BadRequest(f"{name!r} is a number, not {str(value)[:40]!r}") from None


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)
