"""OpenAI's strict mode of tools and replies, which knows no members that may be left out.

Anthropic's callers demand exact arguments and replies with optional members, too. OpenAI would
refuse their whole request: "'required' is required to be supplied and to be an array including
every key in properties". So the schema goes there without the demand.
"""

from collections.abc import Iterator, Mapping

from agentd.llm.conversation import JsonFormat, ToolDefinition

_SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions")
_LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS = ("items", "additionalProperties", "not")


def is_strict(wanted: ToolDefinition | JsonFormat) -> bool:
    """Tell whether OpenAI is asked for what fits this schema exactly, as the caller wishes."""
    return wanted.strict and not _has_optional_members(wanted.schema or {})


def _has_optional_members(schema: Mapping[str, object]) -> bool:
    waiting: list[object] = [schema]
    while waiting:
        if isinstance(looked_at := waiting.pop(), Mapping):
            if _names_optional_member(looked_at):
                return True
            waiting.extend(_iter_schemas_below(looked_at))
    return False


def _names_optional_member(schema: Mapping[str, object]) -> bool:
    members, required = schema.get("properties"), schema.get("required")
    if not isinstance(members, Mapping):
        return False
    names = required if isinstance(required, list) else []
    return not members.keys() <= {name for name in names if isinstance(name, str)}


def _iter_schemas_below(schema: Mapping[str, object]) -> Iterator[object]:
    for keyword, value in schema.items():
        if keyword in _SCHEMAS:
            yield value
        elif keyword in _SCHEMAS_BY_NAME and isinstance(value, Mapping):
            yield from value.values()
        elif keyword in _LISTS_OF_SCHEMAS and isinstance(value, list):
            yield from value
