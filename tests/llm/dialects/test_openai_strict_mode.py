"""Exact schemas of Anthropic's callers reach OpenAI in a form that it accepts."""

import json
from typing import Any

import pytest

from agentd.llm.conversation import (
    Conversation,
    JsonFormat,
    ModelMessage,
    TextPart,
    ToolDefinition,
)
from agentd.llm.dialects.callers import CALLERS
from agentd.llm.dialects.dialect import DIALECTS
from agentd.llm.dialects.openai_strict_mode import is_strict

TEXT: dict[str, Any] = {"type": "string"}
EXACT: dict[str, Any] = {
    "type": "object",
    "properties": {"name": TEXT},
    "required": ["name"],
    "additionalProperties": False,
}
OPTIONAL: dict[str, Any] = {**EXACT, "properties": {"name": TEXT, "age": {"type": "integer"}}}


@pytest.mark.parametrize(
    "schema",
    [
        OPTIONAL,
        {**EXACT, "required": None},
        {**EXACT, "required": [["name"], 1]},
        {"anyOf": [EXACT, OPTIONAL]},
        {"type": "array", "items": OPTIONAL},
        {"type": "array", "prefixItems": [TEXT, OPTIONAL]},
        {**EXACT, "$defs": {"person": OPTIONAL}},
        {**EXACT, "properties": {"name": OPTIONAL}},
        {"type": "object", "additionalProperties": OPTIONAL},
    ],
    ids=str,
)
def test_a_schema_with_an_optional_member_is_not_strict_wherever_it_is(
    schema: dict[str, Any],
) -> None:
    assert not is_strict(JsonFormat(schema, strict=True))
    assert not is_strict(ToolDefinition("look", "", schema, strict=True))


@pytest.mark.parametrize(
    "schema",
    [
        EXACT,
        {"type": "object"},
        {**EXACT, "properties": {"name": {"type": "string", "enum": [OPTIONAL]}}},
        {**EXACT, "properties": {"name": {"const": OPTIONAL}}},
        {"properties": True, "anyOf": True, "$defs": [OPTIONAL], "items": None},
        {"properties": {"properties": TEXT}, "required": ["properties"]},
    ],
    ids=str,
)
def test_other_schemas_are_as_strict_as_the_caller_wishes(schema: dict[str, Any]) -> None:
    assert is_strict(JsonFormat(schema, strict=True))
    assert not is_strict(JsonFormat(schema))
    assert not is_strict(JsonFormat())


def test_a_deep_schema_needs_no_deep_stack() -> None:
    schema = OPTIONAL
    for _ in range(5_000):
        schema = {"type": "array", "items": schema}
    assert not is_strict(JsonFormat(schema, strict=True))


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize(("schema", "strict"), [(EXACT, True), (OPTIONAL, False)])
def test_anthropics_tools_and_replies_are_strict_for_openai_without_optional_members(
    dialect: Any, schema: dict[str, Any], strict: bool
) -> None:
    asked = {
        "model": "m",
        "max_tokens": 10,
        "messages": [{"role": "user", "content": "Who?"}],
        "tools": [{"name": "look", "input_schema": schema, "strict": True}],
        "output_config": {"format": {"type": "json_schema", "schema": schema}},
    }
    conversation = CALLERS["anthropic"].parse_request(json.dumps(asked).encode())
    body = json.loads(DIALECTS[dialect].encode_request(conversation, "m"))
    (tool,) = body["tools"]
    if dialect == "openai-chat":
        tool, wanted = tool["function"], body["response_format"]["json_schema"]
    else:
        wanted = body["text"]["format"]
    assert bool(tool.get("strict")) == wanted["strict"] == strict
    assert tool["parameters"] == wanted["schema"] == schema


def test_gemini_validates_tools_with_optional_members() -> None:
    conversation = Conversation(
        messages=(ModelMessage("user", (TextPart("Who?"),)),),
        tools=(ToolDefinition("look", "", OPTIONAL, strict=True),),
    )
    body = json.loads(DIALECTS["gemini"].encode_request(conversation, "m"))
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
