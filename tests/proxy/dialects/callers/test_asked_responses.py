"""Requests to the Responses API, as OpenAI's client and Codex make them."""

import json

import openai
import pytest
from openai.types.responses import Response
from pydantic import BaseModel

from agentd.errors import BadRequest
from agentd.proxy.dialects import anthropic, openai_chat, openai_responses
from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers import told_responses
from agentd.proxy.dialects.callers.asked_responses import glance, passed_on, understood
from agentd.proxy.dialects.callers.groups import grouped, parted
from agentd.proxy.dialects.conversation import (
    CallDelta,
    CallDone,
    CallStarted,
    Conversation,
    Finished,
    Image,
    JsonFormat,
    Message,
    OneTool,
    Started,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from agentd.wire import sse
from tests.proxy.dialects.callers.clients import openai_body

REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Hm"}],
    "encrypted_content": "gAAA",
}
OUTPUT = [
    {**REASONING, "status": None},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "I look", "annotations": [], "logprobs": []}],
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "a",
        "name": "ls",
        "arguments": '{"p": 1}',
        "status": "completed",
    },
]
SPAWN = {
    "type": "function",
    "name": "spawn",
    "description": "Starts an agent",
    "strict": False,
    "parameters": {"type": "object", "properties": {}},
}
CODEX = {
    "model": "m",
    "instructions": "You code.",
    "input": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "developer",
            "content": [{"type": "input_text", "text": "Be terse."}],
        },
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "Go on"}],
        },
        {
            "type": "function_call",
            "call_id": "a",
            "name": "spawn",
            "namespace": "agents",
            "arguments": "{}",
        },
        {"type": "function_call_output", "id": "fco_1", "call_id": "a", "output": "ok"},
    ],
    "tools": [
        {**SPAWN, "name": "exec"},
        {"type": "namespace", "name": "agents", "description": "Helpers.", "tools": [SPAWN]},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "high", "summary": "auto"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "thread-1",
    "text": {"verbosity": "medium"},
    "client_metadata": {"x-codex-installation-id": "1"},
}
"""As Codex 0.169 has it, but for the length of its texts."""


class Name(BaseModel):
    name: str


def body(**fields):
    return json.dumps({"model": "m", "input": "Hi", **fields}).encode()


def test_a_whole_turn_by_openais_client():
    replied = Response.model_validate(
        {
            "id": "r",
            "object": "response",
            "created_at": 1,
            "model": "m",
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "output": OUTPUT,
        }
    )
    function = openai.pydantic_function_tool(Name)["function"]
    sent = openai_body(
        lambda client: client.responses.parse(
            model="m",
            instructions="Be brief.",
            input=[
                {"role": "user", "content": "Who?"},
                *replied.output,
                {
                    "type": "function_call_output",
                    "call_id": "a",
                    "output": [
                        {"type": "input_text", "text": "etc"},
                        {
                            "type": "input_image",
                            "image_url": "data:image/png;base64,cG5n",
                            "detail": "auto",
                        },
                    ],
                },
                {"role": "system", "content": "Be kind."},
            ],
            text_format=Name,
            tools=[{**function, "type": "function"}],
            store=False,
            include=["reasoning.encrypted_content"],
            reasoning={"effort": "low", "summary": "auto"},
            max_output_tokens=100,
            tool_choice={"type": "function", "name": "Name"},
            safety_identifier="u1",
        )
    )
    thought = openai_responses.thinking(json.loads(sent)["input"][1])
    assert (thought.text, json.loads(thought.sealed)) == ("Hm", REASONING)
    told = understood(sent)
    assert told == Conversation(
        messages=(
            Message("user", (Text("Who?"),)),
            Message(
                "assistant",
                (
                    thought,
                    Text("I look"),
                    ToolCall("a", "ls", '{"p": 1}'),
                ),
            ),
            Message("user", (ToolResult("a", (Text("etc"), Image("image/png", "cG5n"))),)),
        ),
        system="Be brief.\n\nBe kind.",
        tools=(Tool("Name", "", function["parameters"], strict=True),),
        tool_choice=OneTool("Name"),
        max_output=100,
        effort="low",
        reply_format=JsonFormat(function["parameters"], "Name", strict=True),
        user="u1",
    )


def test_codex_is_understood_with_its_groups_of_tools():
    sent = json.dumps(CODEX).encode()
    assert glance(sent) == Glance("m", stream=True, groups=frozenset({"agents"}))
    told = understood(sent)
    assert told.system == "You code.\n\nBe terse."
    assert [tool.name for tool in told.tools] == ["exec", "agents__spawn"]
    assert told.tools[1].description == "Helpers.\n\nStarts an agent"
    assert told.messages[1].parts == (ToolCall("a", "agents__spawn", "{}"),)
    assert (told.effort, told.verbosity, told.cache_key) == ("high", "", "thread-1")
    chat = json.loads(openai_chat.request(told, "n"))
    assert chat["messages"][2]["tool_calls"][0]["function"]["name"] == "agents__spawn"
    assert json.loads(anthropic.request(told, "n"))["tools"][1]["name"] == "agents__spawn"
    assert json.loads(passed_on(sent, "n")) == {**CODEX, "model": "n"}


def test_a_call_of_a_groups_tool_is_told_as_codex_wants_it():
    seen = glance(json.dumps(CODEX).encode())
    events = [
        Started("x", "n"),
        *(CallStarted(0, "a", "agents__spawn"), CallDelta(0, "{}")),
        CallDone(0, ToolCall("a", "agents__spawn", "{}")),
        *(CallStarted(1, "b", "exec"), CallDone(1, ToolCall("b", "exec", "{}"))),
        Finished("tool_calls"),
    ]
    whole = json.loads(told_responses.whole(events, seen, "r", 1))
    writer = told_responses.Writer(seen, "r", 1)
    stream = [
        json.loads(one.data) for one in sse.Reader().feed(b"".join(map(writer.write, events)))
    ]
    begun = [one["item"] for one in stream if one["type"] == "response.output_item.added"]
    for items in (whole["output"], stream[-1]["response"]["output"], begun):
        assert [(item.get("namespace"), item["name"]) for item in items] == [
            ("agents", "spawn"),
            (None, "exec"),
        ]


@pytest.mark.parametrize("group", ["", "a", "a__b"])
@pytest.mark.parametrize("tool", ["x", "b__x"])
def test_the_group_of_a_tool_is_found_again(group, tool):
    groups = frozenset({group} - {""})
    assert parted(grouped(group, tool), groups) == (group, tool)
    assert parted("a__b__x", ["a", "a__b"]) == ("a__b", "x")
    assert parted("ab__x", ["a"]) == ("", "ab__x")


def test_a_bare_text_and_items_without_a_type():
    prompt = Message("user", (Text("Hi"),))
    assert understood(body()).messages == (prompt,)
    items = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]
    told = understood(body(input=items)).messages
    assert told == (prompt, Message("assistant", (Text("Yes"),)))


def test_reasoning_that_its_supplier_stored_cannot_go_back_and_is_no_obstacle():
    stored = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}
    told = understood(body(input=[{"role": "user", "content": "Hi"}, stored]))
    assert told.messages[1].parts == (Thinking("openai-responses"),)


def test_what_goes_on_in_the_background_would_not_be_counted():
    with pytest.raises(BadRequest, match="background"):
        glance(body(background=True))
    assert glance(body(background=False, max_output_tokens=9)) == Glance(
        "m", max_output=9, stores=True
    )


@pytest.mark.parametrize("name", ["previous_response_id", "conversation", "prompt"])
def test_what_only_openai_has_kept_is_to_be_sent(name):
    glance(body(**{name: "resp_1"}))
    with pytest.raises(BadRequest, match=f'"{name}".*send'):
        understood(body(**{name: "resp_1"}))
    understood(body(**{name: None}))


@pytest.mark.parametrize(
    "fields",
    [
        {"top_logprobs": 2},
        {"truncation": "auto"},
        {"max_tool_calls": 3},
        {"service_tier": "flex"},
        {"include": ["message.output_text.logprobs"]},
        {"context_management": [{"type": "compaction"}]},
        {"reasoning": {"effort": "low", "mode": "pro"}},
        {"text": {"format": {"type": "grammar"}}},
        {"text": {"format": {"type": "json_schema", "name": "x"}}},
        {"tools": [{"type": "file_search"}]},
        {"tools": [{"type": "custom", "name": "x", "format": {"type": "odd"}}]},
        {"tools": [{"type": "function", "name": "x", "defer_loading": True}]},
        {"tools": [{"type": "namespace", "name": "x", "tools": [{"type": "custom"}]}]},
        {"tools": [{}]},
        {"tools": [7]},
        {"tool_choice": {"type": "web_search"}},
        {"input": [{"type": "item_reference", "id": "x"}]},
        {"input": [{"type": "item_reference", "id": "msg_1"}]},
        {"input": [{"type": "function_call", "call_id": "x", "name": "y"}]},
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "x"}]}]},
        {"input": [{"role": "tool", "content": "x"}]},
        {"input": [{"role": "user", "content": "x", "name": "Ann"}]},
        {"input": ["Hi"]},
        {"input": 7},
    ],
    ids=str,
)
def test_what_cannot_be_translated_is_told_by_its_name(fields):
    glance(body(**fields))
    with pytest.raises(BadRequest) as caught:
        understood(body(**fields))
    assert next(iter(fields)) in caught.value.message


def test_where_in_the_input_it_stands_is_told():
    items = [
        {"role": "user", "content": "x"},
        {"role": "user", "content": [{"type": "input_audio"}]},
    ]
    with pytest.raises(BadRequest, match=r"\$\.input\[1\]\.content\[0\]"):
        understood(body(input=items))


def test_what_says_nothing_to_another_supplier_is_no_obstacle():
    quiet = {
        "background": False,
        "store": True,
        "truncation": "disabled",
        "metadata": {"a": "b"},
        "service_tier": "auto",
        "stream": True,
        "stream_options": {"include_obfuscation": False},
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "reasoning": {"effort": None, "summary": "auto"},
        "previous_response_id": None,
    }
    assert understood(body(**quiet)) == understood(body())
