"""JSON Schemas of replies in the form that Anthropic demands: no object may have further members.

OpenAI demands it of strict schemas only, and Gemini's callers cannot even say it.
"""

from collections.abc import Mapping

_SCHEMAS_BY_NAME = ("properties", "$defs", "definitions")
_LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "prefixItems")


def close_objects(schema: Mapping[str, object]) -> dict[str, object]:
    """Return the schema with objects closed that list their members and say nothing of others.

    A reply that fits it also fits the given one. What else Anthropic does not support, such as an
    object of any members, stays: its own error says so.
    """
    closed = {name: _close_below(name, value) for name, value in schema.items()}
    if closed.get("properties"):
        closed.setdefault("additionalProperties", False)
    return closed


def _close_below(keyword: str, value: object) -> object:
    match value:
        case Mapping() if keyword in _SCHEMAS_BY_NAME:
            return {name: _close_value(inner) for name, inner in value.items()}
        case list() if keyword in _LISTS_OF_SCHEMAS:
            return [_close_value(inner) for inner in value]
        case Mapping() if keyword == "items":
            return close_objects(value)
    return value


def _close_value(value: object) -> object:
    return close_objects(value) if isinstance(value, Mapping) else value
