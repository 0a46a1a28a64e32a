"""Requests to chat completions, as OpenAI's client and others make them."""

import json

import openai
import pytest
from openai.types.chat import ChatCompletionMessage
from pydantic import BaseModel

from agentd.core.errors import BadRequest
from agentd.llm.conversation import (
    Conversation,
    ImagePart,
    JsonFormat,
    ModelMessage,
    NamedTool,
    TextPart,
    Thinking,
    ToolCall,
    ToolResult,
)
from agentd.llm.dialects.anthropic import upstream as anthropic_upstream
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.dialect import DIALECTS
from agentd.llm.dialects.openai_chat.request import parse_request, peek, rewrite_for_passthrough
from tests.llm.dialects.clients import capture_openai_body

USER = {"role": "user", "content": "Hi"}


class Name(BaseModel):
    name: str


def build_body(**fields):
    return json.dumps({"model": "m", "messages": [USER], **fields}).encode()


def parse_messages(*messages):
    return parse_request(build_body(messages=list(messages)))


def test_a_whole_turn_by_openais_client():
    reply = ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "annotations": [],
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "Name", "arguments": '{"name'}}
            ],
            "reasoning_content": "Whose?",
        }
    )
    tool = openai.pydantic_function_tool(Name, description="Tells a name")
    sent = capture_openai_body(
        lambda client: client.chat.completions.parse(
            model="m",
            messages=[
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Who?"}]},
                reply,
                {"role": "tool", "tool_call_id": "a", "content": "Nobody"},
                {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
            ],
            tools=[tool],
            response_format=Name,
            max_completion_tokens=100,
            reasoning_effort="low",
            temperature=1,
            stop="END",
            user="u1",
            metadata={"a": "b"},
        )
    )
    schema = tool["function"]["parameters"]
    output = parse_request(sent)
    assert output == Conversation(
        messages=(
            ModelMessage("user", (TextPart("Who?"),)),
            ModelMessage(
                "assistant", (Thinking("openai-chat", "Whose?"), ToolCall("a", "Name", '{"name'))
            ),
            ModelMessage("user", (ToolResult("a", (TextPart("Nobody"),)),)),
        ),
        system="Be brief.\n\nBe kind.",
        tools=output.tools,
        max_output=100,
        reasoning_effort="low",
        temperature=1,
        stop_sequences=("END",),
        response_format=output.response_format,
        user="u1",
    )
    assert (output.tools[0].schema, output.tools[0].strict) == (schema, True)
    assert output.tools[0].description == "Tells a name"
    assert output.response_format == JsonFormat(schema, "Name", strict=True)
    claude = json.loads(anthropic_upstream.encode_request(output, "c"))
    assert claude["messages"][1]["content"][0]["input"] == {}
    assert claude["output_config"]["format"]["schema"] == schema


def test_pictures_by_their_bytes_and_by_their_address():
    content = [
        {"type": "image_url", "image_url": {"url": "data:image/PNG;base64,cG5n", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://host/a.png"}},
    ]
    pictures = (ImagePart("image/png", "cG5n"), ImagePart(url="https://host/a.png"))
    assert parse_messages({"role": "user", "content": content}).messages[0].parts == pictures
    result = {"role": "tool", "tool_call_id": "a", "content": content}
    assert parse_messages(result).messages[0].parts == (ToolResult("a", pictures),)


@pytest.mark.parametrize("supplier", ["anthropic", "gemini"])
def test_a_jpeg_by_its_usual_wrong_name_gets_the_right_one(supplier):
    content = [{"type": "image_url", "image_url": {"url": "data:image/jpg;base64,cG5n"}}]
    sent = DIALECTS[supplier].encode_request(
        parse_messages({"role": "user", "content": content}), "n"
    )
    assert b'"image/jpeg"' in sent and b"image/jpg" not in sent


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "data:application/pdf;base64,cG5n",
        "data:image/png,cG5n",
        "data:image/png;base64,",
        "data:",
        "",
        "//host/a.png",
    ],
)
def test_what_is_no_picture_is_refused(url):
    with pytest.raises(BadRequest):
        parse_messages(
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
        )


def test_what_a_stream_and_its_usage_are_asked_for():
    assert peek(build_body()) == RequestSummary("m", wants_usage=False)
    asked = build_body(stream=True, stream_options={"include_usage": True}, n=2, max_tokens=5)
    assert peek(asked) == RequestSummary(
        "m", stream=True, max_output=5, replies=2, wants_usage=True
    )
    assert rewrite_for_passthrough(asked, "m") == asked
    assert peek(build_body(max_tokens=5, max_completion_tokens=7)).max_output == 7
    passed = json.loads(
        rewrite_for_passthrough(build_body(stream=True, stream_options={"x": 1}), "n")
    )
    assert passed["stream_options"] == {"x": 1, "include_usage": True}
    assert json.loads(rewrite_for_passthrough(build_body(stream=True, stream_options=None), "m"))[
        "stream_options"
    ]
    assert "stream_options" not in json.loads(
        rewrite_for_passthrough(build_body(stream=False), "n")
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"models": ["dearer-model"]},
        {"n": 0},
        {"n": 1000},
        {"n": True},
        {"max_tokens": -1},
        {"max_tokens": 1.5},
        {"max_completion_tokens": "9"},
        {"max_tokens": 10**12},
        {"stream": "yes"},
        {"stream": 1},
        {"stream_options": []},
    ],
)
def test_what_would_be_counted_wrong_is_refused_in_short(fields):
    with pytest.raises(BadRequest, match=next(iter(fields))):
        peek(build_body(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"logprobs": True},
        {"top_logprobs": 3},
        {"frequency_penalty": 0.5},
        {"presence_penalty": -1},
        {"logit_bias": {"1": 5}},
        {"audio": {"voice": "alloy", "format": "wav"}},
        {"modalities": ["text", "audio"]},
        {"web_search_options": {}},
        {"functions": [{"name": "ls"}]},
        {"function_call": "auto"},
        {"store": True},
        {"service_tier": "priority"},
        {"moderation": {"model": "x"}},
        {"tools": [{"type": "custom", "custom": {"name": "x", "strict": True}}]},
        {"tools": [{"type": "custom", "function": {"name": "x"}}]},
        {"tools": [{"type": "function", "custom": {"name": "x"}}]},
        {"tools": [{"type": "custom", "custom": {"name": "x", "format": {"type": "odd"}}}]},
        {"tools": [{"type": "custom", "custom": {"name": "x", "format": {"type": "grammar"}}}]},
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "type": "custom"}]}]},
        {"tool_choice": {"type": "custom", "function": {"name": "x"}}},
        {"tool_choice": {"type": "allowed_tools"}},
        {"tools": [{"type": "function", "function": {"name": "x"}, "defer": True}]},
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {}}},
        {"tool_choice": "any"},
        {"response_format": {"type": "grammar"}},
        {"response_format": {"type": "json_schema"}},
        {"messages": [{"role": "function", "name": "x", "content": "y"}]},
        {"messages": [{"role": "assistant", "content": "x", "prefix": True}]},
        {"messages": [{"role": "assistant", "audio": {"id": "x"}}]},
        {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]},
        {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "x"}}]}]},
        {"messages": [{"role": "user"}]},
        {"messages": [{"content": "x"}]},
        {"messages": "Hi"},
    ],
    ids=str,
)
def test_what_cannot_be_translated_is_reported_by_its_name(fields):
    peek(build_body(**{"messages": [], **fields}))
    with pytest.raises(BadRequest) as caught:
        parse_request(build_body(**fields))
    assert next(iter(fields)) in caught.value.message
    assert "dialect" in caught.value.message or "needs" in caught.value.message


def test_what_says_nothing_to_another_supplier_is_no_obstacle():
    quiet = {
        "n": 1,
        "frequency_penalty": 0.0,
        "seed": None,
        "logit_bias": {},
        "store": False,
        "metadata": {"a": "b"},
        "service_tier": "auto",
        "stream_options": {"include_usage": True},
        "stream": True,
        "verbosity": "medium",
        "prompt_cache_retention": "24h",
    }
    assert parse_request(build_body(**quiet)) == parse_request(build_body())


@pytest.mark.parametrize(
    ("choice", "meant"),
    [
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "function": {"name": "ls"}}, NamedTool("ls")),
    ],
)
def test_the_choice_of_tools(choice, meant):
    assert parse_request(build_body(tool_choice=choice)).tool_choice == meant
    assert parse_request(build_body(parallel_tool_calls=False)).parallel_tool_calls is False


def test_what_a_model_refused_to_say_was_said_all_the_same():
    refused = {"role": "assistant", "content": None, "refusal": "No."}
    nested = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    for message in (refused, nested):
        assert parse_messages(USER, message).messages[1].parts == (TextPart("No."),)
