"""Requests to chat completions, as OpenAI's client and others make them."""

import json

import openai
import pytest
from openai.types.chat import ChatCompletionMessage
from pydantic import BaseModel

from agentd.errors import BadRequest
from agentd.proxy.dialects import anthropic
from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers.asked_chat import glance, passed_on, understood
from agentd.proxy.dialects.conversation import (
    Conversation,
    Image,
    JsonFormat,
    Message,
    OneTool,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tests.proxy.dialects.callers.clients import openai_body

USER = {"role": "user", "content": "Hi"}


class Name(BaseModel):
    name: str


def body(**fields):
    return json.dumps({"model": "m", "messages": [USER], **fields}).encode()


def said(*messages):
    return understood(body(messages=list(messages)))


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
    sent = openai_body(
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
    told = understood(sent)
    assert told == Conversation(
        messages=(
            Message("user", (Text("Who?"),)),
            Message(
                "assistant", (Thinking("openai-chat", "Whose?"), ToolCall("a", "Name", '{"name'))
            ),
            Message("user", (ToolResult("a", (Text("Nobody"),)),)),
        ),
        system="Be brief.\n\nBe kind.",
        tools=told.tools,
        max_output=100,
        effort="low",
        temperature=1,
        stop=("END",),
        reply_format=told.reply_format,
        user="u1",
    )
    assert (told.tools[0].schema, told.tools[0].strict) == (schema, True)
    assert told.tools[0].description == "Tells a name"
    assert told.reply_format == JsonFormat(schema, "Name", strict=True)
    claude = json.loads(anthropic.request(told, "c"))
    assert claude["messages"][1]["content"][0]["input"] == {}
    assert claude["output_config"]["format"]["schema"] == schema


def test_pictures_by_their_bytes_and_by_their_address():
    content = [
        {"type": "image_url", "image_url": {"url": "data:image/PNG;base64,cG5n", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://host/a.png"}},
    ]
    pictures = (Image("image/png", "cG5n"), Image(url="https://host/a.png"))
    assert said({"role": "user", "content": content}).messages[0].parts == pictures
    result = {"role": "tool", "tool_call_id": "a", "content": content}
    assert said(result).messages[0].parts == (ToolResult("a", pictures),)


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
        said({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})


def test_what_a_stream_and_its_usage_are_asked_for():
    assert glance(body()) == Glance("m", wants_usage=False)
    asked = body(stream=True, stream_options={"include_usage": True}, n=2, max_tokens=5)
    assert glance(asked) == Glance("m", stream=True, max_output=5, replies=2, wants_usage=True)
    assert passed_on(asked, "m") == asked
    assert glance(body(max_tokens=5, max_completion_tokens=7)).max_output == 7
    passed = json.loads(passed_on(body(stream=True, stream_options={"x": 1}), "n"))
    assert passed["stream_options"] == {"x": 1, "include_usage": True}
    assert json.loads(passed_on(body(stream=True, stream_options=None), "m"))["stream_options"]
    assert "stream_options" not in json.loads(passed_on(body(stream=False), "n"))


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
def test_what_would_be_counted_wrong_is_refused_at_a_glance(fields):
    with pytest.raises(BadRequest, match=next(iter(fields))):
        glance(body(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"logprobs": True},
        {"top_logprobs": 3},
        {"frequency_penalty": 0.5},
        {"presence_penalty": -1},
        {"logit_bias": {"1": 5}},
        {"seed": 7},
        {"audio": {"voice": "alloy", "format": "wav"}},
        {"modalities": ["text", "audio"]},
        {"web_search_options": {}},
        {"functions": [{"name": "ls"}]},
        {"function_call": "auto"},
        {"store": True},
        {"service_tier": "priority"},
        {"moderation": {"model": "x"}},
        {"tools": [{"type": "custom", "custom": {"name": "x"}}]},
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
def test_what_cannot_be_translated_is_told_by_its_name(fields):
    glance(body(**{"messages": [], **fields}))
    with pytest.raises(BadRequest) as caught:
        understood(body(**fields))
    assert next(iter(fields)) in caught.value.message
    assert "another dialect" in caught.value.message or "needs" in caught.value.message


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
    assert understood(body(**quiet)) == understood(body())


@pytest.mark.parametrize(
    ("choice", "meant"),
    [
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "function": {"name": "ls"}}, OneTool("ls")),
    ],
)
def test_the_choice_of_tools(choice, meant):
    assert understood(body(tool_choice=choice)).tool_choice == meant
    assert understood(body(parallel_tool_calls=False)).parallel is False


def test_what_a_model_refused_to_say_was_said_all_the_same():
    refused = {"role": "assistant", "content": None, "refusal": "No."}
    nested = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    for message in (refused, nested):
        assert said(USER, message).messages[1].parts == (Text("No."),)
