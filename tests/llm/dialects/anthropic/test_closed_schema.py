"""A schema of a reply that other vendors accept is one that Anthropic accepts, too."""

import json
from typing import Any

import pytest

from agentd.llm.dialects.anthropic.closed_schema import close_objects
from agentd.llm.dialects.callers import CALLERS
from agentd.llm.dialects.dialect import DIALECTS
from agentd.llm.endpoint import ChannelDialect

NAME = {"type": "string"}
POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
CLOSED = {**POINT, "additionalProperties": False}


def test_objects_that_list_their_members_are_closed_wherever_they_are() -> None:
    schema = {
        "$defs": {"p": POINT},
        "type": "object",
        "properties": {
            "properties": POINT,
            "items": {"type": "array", "items": POINT, "prefixItems": [POINT]},
            "either": {"anyOf": [POINT, NAME], "oneOf": [POINT]},
            "odd": True,
        },
    }
    closed = close_objects(schema)
    assert closed == {
        "$defs": {"p": CLOSED},
        "type": "object",
        "properties": {
            "properties": CLOSED,
            "items": {"type": "array", "items": CLOSED, "prefixItems": [CLOSED]},
            "either": {"anyOf": [CLOSED, NAME], "oneOf": [CLOSED]},
            "odd": True,
        },
        "additionalProperties": False,
    }
    assert close_objects(closed) == closed
    assert list(closed)[:3] == ["$defs", "type", "properties"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {}},
        {**POINT, "additionalProperties": True},
        {"type": "object", "additionalProperties": POINT},
        {"allOf": [POINT, {"properties": {"y": NAME}}]},
        {"enum": [{"properties": {"a": 1}}], "const": {"properties": {"a": 1}}},
        {"type": "object", "properties": []},
    ],
)
def test_what_would_mean_something_else_stays(schema: dict[str, Any]) -> None:
    assert close_objects(schema) == schema


OPEN: dict[ChannelDialect, dict[str, Any]] = {
    "openai-chat": {
        "messages": [{"role": "user", "content": "?"}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "point", "schema": POINT},
        },
    },
    "openai-responses": {
        "input": "?",
        "text": {"format": {"type": "json_schema", "name": "point", "schema": POINT}},
    },
    "gemini": {
        "contents": [{"parts": [{"text": "?"}]}],
        "generationConfig": {"responseMimeType": "application/json", "responseSchema": POINT},
    },
}


@pytest.mark.parametrize("dialect", OPEN)
def test_every_callers_open_schema_is_sent_closed(dialect: ChannelDialect) -> None:
    body = OPEN[dialect] | ({} if dialect == "gemini" else {"model": "m"})
    asked = CALLERS[dialect].parse_request(json.dumps(body).encode())
    sent = json.loads(DIALECTS["anthropic"].encode_request(asked, "n"))
    assert sent["output_config"]["format"] == {"type": "json_schema", "schema": CLOSED}
