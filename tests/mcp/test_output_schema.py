"""Prompts of MCP clients whose replies have to fit a schema."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentd.agent.engine import EngineEvent, ReplyCompleted, TurnRequest
from agentd.mcp.revisions import REVISIONS
from tests.mcp.support import McpHandClient
from tests.mcp.test_api import wait_for
from tests.support.daemon import Engine, Serving, until

pytest.importorskip("jsonschema", reason="jsonschema is not installed: pip install '.[schema]'")

CITY = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def repeat_prompt(request: TurnRequest) -> list[EngineEvent]:
    """Reply with the prompt as it is."""
    return [ReplyCompleted(request.prompt)]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A daemon with a model whose replies can be held to a schema."""
    engine = Engine()
    engine.says = repeat_prompt
    with Serving(tmp_path_factory.mktemp("daemon"), engine) as serving:
        Path(serving.layout.models).write_text("models:\n  - {name: able, engine: codex}\n")
        client = serving.client()
        until(lambda: client.get("/api/models")["models"])
        yield serving


def test_the_outcome_of_a_wait_has_the_value_of_a_reply_that_fits(mcp: McpHandClient) -> None:
    wish = {"prompt": '{"name": "Riga"}', "model": "able", "outputSchema": CITY}
    chat = mcp.call_tool("create_chat", **wish)["structuredContent"]["chatId"]
    outcome = wait_for(mcp, chat)
    assert (outcome["reply"], outcome["output"]) == ('{"name": "Riga"}', {"name": "Riga"})
    mcp.call_tool("queue_prompt", chatId=chat, prompt='{"name": 7}', outputSchema=CITY)
    outcome = wait_for(mcp, chat)
    assert "does not fit the output schema" in outcome["reply"]
    assert outcome["output"] is None
    mcp.call_tool("queue_prompt", chatId=chat, prompt='{"name": "Ventspils"}')
    assert wait_for(mcp, chat)["output"] is None, "nobody asked for an object"
    read = mcp.call_tool("read_messages", chatId=chat)["structuredContent"]["messages"]
    assert [one["output"] for one in read if one["output"]] == [{"name": "Riga"}]


def test_a_schema_that_cannot_be_is_refused(mcp: McpHandClient) -> None:
    wish = {"prompt": "Which city?", "model": "able", "outputSchema": {"type": "array"}}
    refused = mcp.call_tool("create_chat", **wish)
    assert refused["isError"] is True
    assert "must describe an object" in refused["content"][0]["text"]


@pytest.mark.parametrize("name", ["create_chat", "queue_prompt"])
def test_the_tools_offer_a_schema(house: Serving, name: str) -> None:
    with McpHandClient(house, REVISIONS[0]) as mcp:
        tools = {one["name"]: one for one in mcp.call("tools/list").result["tools"]}
    assert "object" in str(tools[name]["inputSchema"]["properties"]["outputSchema"])
