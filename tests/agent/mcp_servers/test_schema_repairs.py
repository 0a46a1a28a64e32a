"""What suppliers get as schemas of servers' tools is of the draft that they check."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.mcp_servers.messages import read_tool

jsonschema = pytest.importorskip("jsonschema", reason="needs: pip install '.[schema]'")

KEYWORDS = (
    *("type", "items", "properties", "required", "enum", "anyOf", "oneOf", "allOf", "not", "$defs"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength"),
    *("maxItems", "additionalProperties", "prefixItems", "description", "examples", "uniqueItems"),
    *("patternProperties", "contains", "if", "format", "minContains", "deprecated", "default"),
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 5)
    | st.floats()
    | st.sampled_from(["object", "array", "string", "any", "a"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*KEYWORDS, "a"]), inner, max_size=4)
    ),
    max_leaves=25,
)


def read_schema(schema: Any) -> Any:
    """Return the schema that a model gets."""
    tool = read_tool({"name": "find", "inputSchema": schema})
    assert tool
    return tool.schema


@given(st.dictionaries(st.sampled_from(KEYWORDS), VALUES))
def test_every_schema_that_a_model_gets_is_one(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(read_schema({**schema, "type": "object"}))


@pytest.mark.parametrize(
    ("written", "got"),
    [
        (
            {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
            {"type": "integer", "minimum": 0, "exclusiveMinimum": 0},
        ),
        ({"maximum": 9, "exclusiveMaximum": False}, {"maximum": 9}),
        ({"type": "string", "required": True}, {"type": "string"}),
        ({"type": "any", "description": "Any."}, {"description": "Any."}),
        (
            {"type": "array", "items": [{"type": "string"}, {"type": "number"}]},
            {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}},
        ),
        ("string", {}),
    ],
)
def test_forms_of_older_drafts_are_written_as_those_of_today(written: Any, got: Any) -> None:
    schema = read_schema({"type": "object", "properties": {"a": written}})
    assert schema == {"type": "object", "properties": {"a": got}}


@pytest.mark.parametrize(
    "property_",
    [
        {"type": ["string", "null"], "minLength": 1, "pattern": "^a", "x-order": 3},
        {"type": "array", "items": {"$ref": "#/$defs/a"}, "minItems": 1, "uniqueItems": True},
        {"anyOf": [{"const": 1}, {"enum": ["a", None]}], "default": {"type": 7}},
        {"type": "object", "additionalProperties": False, "required": ["b"], "properties": {}},
        {"type": "number", "exclusiveMinimum": 0.5, "multipleOf": 0.5, "examples": [1]},
        {},
        True,
    ],
)
def test_a_valid_schema_stays_as_it_is(property_: Any) -> None:
    schema = {"type": "object", "properties": {"a": property_}, "$defs": {"a": {"type": "null"}}}
    assert read_schema(schema) == schema
