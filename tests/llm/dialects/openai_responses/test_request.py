"""Requests to the Responses API, as OpenAI's client and Codex make them."""

import json

import openai
import pytest
from openai.types.responses import Response
from pydantic import BaseModel

from agentd.core import sse
from agentd.core.errors import BadRequest
from agentd.llm.conversation import (
    Conversation,
    ImagePart,
    JsonFormat,
    ModelMessage,
    NamedTool,
    ReplyFinished,
    ReplyStarted,
    TextPart,
    Thinking,
    ToolCall,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStarted,
    ToolDefinition,
    ToolResult,
)
from agentd.llm.dialects.anthropic import upstream as anthropic_upstream
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.openai_chat import upstream as openai_chat_upstream
from agentd.llm.dialects.openai_responses import response as openai_responses_response
from agentd.llm.dialects.openai_responses import upstream as openai_responses_upstream
from agentd.llm.dialects.openai_responses.request import (
    parse_request,
    peek,
    rewrite_for_passthrough,
)
from agentd.llm.dialects.openai_responses.tool_namespaces import qualify_name, split_name
from tests.llm.dialects.clients import capture_openai_body

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


def build_body(**fields):
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
    sent = capture_openai_body(
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
    thought = openai_responses_upstream.parse_reasoning(json.loads(sent)["input"][1])
    assert (thought.text, json.loads(thought.sealed)) == ("Hm", REASONING)
    result = parse_request(sent)
    assert result == Conversation(
        messages=(
            ModelMessage("user", (TextPart("Who?"),)),
            ModelMessage(
                "assistant",
                (
                    thought,
                    TextPart("I look"),
                    ToolCall("a", "ls", '{"p": 1}'),
                ),
            ),
            ModelMessage(
                "user", (ToolResult("a", (TextPart("etc"), ImagePart("image/png", "cG5n"))),)
            ),
        ),
        system="Be brief.\n\nBe kind.",
        tools=(ToolDefinition("Name", "", function["parameters"], strict=True),),
        tool_choice=NamedTool("Name"),
        max_output=100,
        reasoning_effort="low",
        keep_thinking=True,
        response_format=JsonFormat(function["parameters"], "Name", strict=True),
        user="u1",
    )


def test_codex_is_understood_with_its_groups_of_tools():
    sent = json.dumps(CODEX).encode()
    assert peek(sent) == RequestSummary("m", stream=True, tool_namespaces=frozenset({"agents"}))
    result = parse_request(sent)
    assert result.system == "You code.\n\nBe terse."
    assert [tool.name for tool in result.tools] == ["exec", "agents__spawn"]
    assert result.tools[1].description == "Helpers.\n\nStarts an agent"
    assert result.messages[1].parts == (ToolCall("a", "agents__spawn", "{}"),)
    assert (result.reasoning_effort, result.verbosity, result.cache_key) == ("high", "", "thread-1")
    chat = json.loads(openai_chat_upstream.encode_request(result, "n"))
    assert chat["messages"][2]["tool_calls"][0]["function"]["name"] == "agents__spawn"
    assert (
        json.loads(anthropic_upstream.encode_request(result, "n"))["tools"][1]["name"]
        == "agents__spawn"
    )
    assert json.loads(rewrite_for_passthrough(sent, "n")) == {**CODEX, "model": "n"}


def test_a_call_of_a_groups_tool_is_reported_as_codex_wants_it():
    seen = peek(json.dumps(CODEX).encode())
    events = [
        ReplyStarted("x", "n"),
        *(ToolCallStarted(0, "a", "agents__spawn"), ToolCallDelta(0, "{}")),
        ToolCallDone(0, ToolCall("a", "agents__spawn", "{}")),
        *(ToolCallStarted(1, "b", "exec"), ToolCallDone(1, ToolCall("b", "exec", "{}"))),
        ReplyFinished("tool_calls"),
    ]
    whole = json.loads(openai_responses_response.render_response(events, seen, "r", 1))
    writer = openai_responses_response.ResponsesStreamWriter(seen, "r", 1)
    stream = [
        json.loads(one.data) for one in sse.SseReader().feed(b"".join(map(writer.write, events)))
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
    assert split_name(qualify_name(group, tool), groups) == (group, tool)
    assert split_name("a__b__x", ["a", "a__b"]) == ("a__b", "x")
    assert split_name("ab__x", ["a"]) == ("", "ab__x")


def test_a_bare_text_and_items_without_a_type():
    prompt = ModelMessage("user", (TextPart("Hi"),))
    assert parse_request(build_body()).messages == (prompt,)
    items = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]
    result = parse_request(build_body(input=items)).messages
    assert result == (prompt, ModelMessage("assistant", (TextPart("Yes"),)))


def test_reasoning_that_its_supplier_stored_cannot_go_back_and_is_no_obstacle():
    stored = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}
    result = parse_request(build_body(input=[{"role": "user", "content": "Hi"}, stored]))
    assert result.messages[1].parts == (Thinking("openai-responses"),)


def test_what_goes_on_in_the_background_would_not_be_counted():
    with pytest.raises(BadRequest, match="background"):
        peek(build_body(background=True))
    assert peek(build_body(background=False, max_output_tokens=9)) == RequestSummary(
        "m", max_output=9, stores_reply=True
    )


@pytest.mark.parametrize("name", ["previous_response_id", "conversation", "prompt"])
def test_what_only_openai_has_kept_is_to_be_sent(name):
    peek(build_body(**{name: "resp_1"}))
    with pytest.raises(BadRequest, match=f'"{name}".*send'):
        parse_request(build_body(**{name: "resp_1"}))
    parse_request(build_body(**{name: None}))


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
def test_what_cannot_be_translated_is_reported_by_its_name(fields):
    peek(build_body(**fields))
    with pytest.raises(BadRequest) as caught:
        parse_request(build_body(**fields))
    assert next(iter(fields)) in caught.value.message


def test_where_in_the_input_it_stands_is_reported():
    items = [
        {"role": "user", "content": "x"},
        {"role": "user", "content": [{"type": "input_audio"}]},
    ]
    with pytest.raises(BadRequest, match=r"\$\.input\[1\]\.content\[0\]"):
        parse_request(build_body(input=items))


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
    assert parse_request(build_body(**quiet)) == parse_request(build_body())
