"""What a supplier is told, in each dialect."""

import base64
import json

import pytest

from agentd.errors import BadRequest
from agentd.proxy.dialects import anthropic, openai_chat, openai_responses
from agentd.proxy.dialects.conversation import (
    Conversation,
    Image,
    JsonFormat,
    Message,
    OneTool,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from agentd.proxy.dialects.dialect import DIALECTS

PNG = Image("image/png", base64.b64encode(b"png").decode())
LS = Tool("ls", "Lists a folder", {"type": "object", "properties": {"p": {"type": "string"}}})

TURN = Conversation(
    system="Be brief.",
    messages=(
        Message("user", (Text("What is here?"), PNG)),
        Message(
            "assistant",
            (Text("I look."), ToolCall("a", "ls", '{"p": "/"}'), ToolCall("b", "ls", '{"p')),
        ),
        Message("user", (Text("Hurry"),)),
        Message(
            "user", (ToolResult("a", (Text("etc"), PNG)), ToolResult("b", (Text("No"),), True))
        ),
    ),
    tools=(LS,),
)


def told(dialect, conversation=TURN, **more):
    return json.loads(dialect.request(conversation, "m", **more))


def changed(**more):
    return Conversation(**{"messages": (Message("user", (Text("Hi"),)),), "tools": (LS,), **more})


def test_a_turn_for_chat_completions():
    assert told(openai_chat) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "ls",
                    "description": "Lists a folder",
                    "parameters": LS.schema,
                },
            }
        ],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is here?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
                ],
            },
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {
                        "id": "a",
                        "type": "function",
                        "function": {"name": "ls", "arguments": '{"p": "/"}'},
                    },
                    {"id": "b", "type": "function", "function": {"name": "ls", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": "etc"},
            {"role": "tool", "tool_call_id": "b", "content": "Error: No"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "The pictures of the tool result a:"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
                    {"type": "text", "text": "Hurry"},
                ],
            },
        ],
    }


def test_a_turn_for_responses():
    assert told(openai_responses) == {
        "model": "m",
        "stream": True,
        "store": False,
        "instructions": "Be brief.",
        "parallel_tool_calls": True,
        "tools": [
            {
                "type": "function",
                "name": "ls",
                "description": "Lists a folder",
                "parameters": LS.schema,
                "strict": False,
            }
        ],
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is here?"},
                    {"type": "input_image", "image_url": "data:image/png;base64,cG5n"},
                ],
            },
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "I look."}],
            },
            {"type": "function_call", "call_id": "a", "name": "ls", "arguments": '{"p": "/"}'},
            {"type": "function_call", "call_id": "b", "name": "ls", "arguments": "{}"},
            {
                "type": "function_call_output",
                "call_id": "a",
                "output": [
                    {"type": "input_text", "text": "etc"},
                    {"type": "input_image", "image_url": "data:image/png;base64,cG5n"},
                ],
            },
            {"type": "function_call_output", "call_id": "b", "output": "Error: No"},
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "Hurry"}],
            },
        ],
    }


def test_a_turn_for_anthropic():
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"},
    }
    assert told(anthropic) == {
        "model": "m",
        "stream": True,
        "max_tokens": 8192,
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [{"name": "ls", "description": "Lists a folder", "input_schema": LS.schema}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "What is here?"}, picture]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "a", "name": "ls", "input": {"p": "/"}},
                    {"type": "tool_use", "id": "b", "name": "ls", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "a",
                        "content": [{"type": "text", "text": "etc"}, picture],
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "b",
                        "content": [{"type": "text", "text": "No"}],
                        "is_error": True,
                    },
                    {"type": "text", "text": "Hurry"},
                ],
            },
        ],
    }


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_without_streaming_nothing_of_it_is_said(dialect):
    assert not {"stream", "stream_options"} & told(dialect, stream=False).keys()


@pytest.mark.parametrize(
    ("choice", "chat", "responses", "claude"),
    [
        ("auto", None, None, None),
        ("none", "none", "none", {"type": "none"}),
        ("required", "required", "required", {"type": "any"}),
        (
            OneTool("ls"),
            {"type": "function", "function": {"name": "ls"}},
            {"type": "function", "name": "ls"},
            {"type": "tool", "name": "ls"},
        ),
    ],
)
def test_the_choice_of_tools(choice, chat, responses, claude):
    conversation = changed(tool_choice=choice)
    assert told(openai_chat, conversation).get("tool_choice") == chat
    assert told(openai_responses, conversation).get("tool_choice") == responses
    assert told(anthropic, conversation).get("tool_choice") == claude
    for dialect in DIALECTS.values():
        assert "tool_choice" not in told(dialect, changed(tool_choice=choice, tools=()))


def test_one_tool_at_a_time():
    conversation = changed(parallel=False)
    assert told(openai_chat, conversation)["parallel_tool_calls"] is False
    assert told(openai_responses, conversation)["parallel_tool_calls"] is False
    assert told(anthropic, conversation)["tool_choice"] == {
        "type": "auto",
        "disable_parallel_tool_use": True,
    }


def test_limits_and_temperature():
    conversation = changed(max_output=100, temperature=0.5, stop=("END",))
    chat, claude = told(openai_chat, conversation), told(anthropic, conversation)
    assert (chat["max_completion_tokens"], chat["temperature"], chat["stop"]) == (100, 0.5, ["END"])
    assert (claude["max_tokens"], claude["temperature"]) == (100, 0.5)
    assert claude["stop_sequences"] == ["END"]
    responses = told(openai_responses, changed(max_output=100, temperature=0))
    assert (responses["max_output_tokens"], responses["temperature"]) == (100, 0)


def test_effort_in_words_and_as_a_number():
    assert told(openai_chat, changed(effort="low"))["reasoning_effort"] == "low"
    responses = told(openai_responses, changed(effort="low"))
    assert responses["reasoning"] == {"effort": "low"}
    assert responses["include"] == ["reasoning.encrypted_content"]
    claude = told(anthropic, changed(effort="low"))
    assert claude["thinking"] == {"type": "adaptive"}
    assert claude["output_config"] == {"effort": "low"}
    claude = told(anthropic, changed(effort="2000"))
    assert claude["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert claude["max_tokens"] > 2000
    assert "thinking" not in told(anthropic, changed(effort="none", temperature=1.0))


@pytest.mark.parametrize(
    ("tokens", "word"), [("1", "low"), ("4096", "low"), ("10000", "medium"), ("31999", "high")]
)
def test_tokens_of_thinking_are_a_word_to_openai(tokens, word):
    assert told(openai_chat, changed(effort=tokens))["reasoning_effort"] == word
    assert told(openai_responses, changed(effort=tokens))["reasoning"] == {"effort": word}


def test_what_is_usual_with_thinking_is_no_wish():
    claude = told(anthropic, changed(effort="minimal", temperature=1))
    assert "temperature" not in claude
    assert claude["output_config"] == {"effort": "low"}


def test_a_reply_in_json():
    schema = {"type": "object"}
    wanted = changed(reply_format=JsonFormat(schema, "who", "A person", strict=True))
    fields = {"name": "who", "description": "A person", "schema": schema, "strict": True}
    chat = told(openai_chat, wanted)["response_format"]
    assert chat == {"type": "json_schema", "json_schema": fields}
    assert told(openai_responses, wanted)["text"]["format"] == {"type": "json_schema", **fields}
    claude = told(anthropic, wanted)["output_config"]["format"]
    described = {"description": "A person", "type": "object"}
    assert claude == {"type": "json_schema", "schema": described}
    plain = changed(reply_format=JsonFormat())
    assert told(openai_chat, plain)["response_format"] == {"type": "json_object"}
    assert told(openai_responses, plain)["text"] == {"format": {"type": "json_object"}}
    told_claude = told(anthropic, plain)
    assert "output_config" not in told_claude
    assert "exactly one JSON object" in told_claude["system"][-1]["text"]


def test_a_users_long_name_is_short_and_his_own_to_openai():
    first, second = ("x" * 70 + letter for letter in "ab")
    names = [told(openai_chat, changed(user=name))["user"] for name in (first, second, "x" * 64)]
    assert len({*names}) == 3
    assert all(len(name) == 64 for name in names)
    assert told(openai_responses, changed(user=first))["user"] == names[0]
    assert told(anthropic, changed(user=first))["metadata"] == {"user_id": first}


@pytest.mark.parametrize(
    ("dialect", "more"),
    [
        (openai_responses, {"stop": ("END",)}),
        (openai_responses, {"top_k": 5}),
        (openai_chat, {"top_k": 5}),
        (anthropic, {"verbosity": "low"}),
        (anthropic, {"temperature": 1.5}),
        (anthropic, {"temperature": 0.5, "effort": "low"}),
        (anthropic, {"effort": "2000", "max_output": 2000}),
        (anthropic, {"messages": (Message("user", (Image("image/bmp", "AA"),)),)}),
        (openai_chat, {"messages": (Message("user", (Image(),)),)}),
        (openai_chat, {"messages": (Message("assistant", (PNG,)),)}),
        (openai_chat, {"messages": (Message("user", (ToolCall("a", "ls"),)),)}),
    ],
)
def test_what_a_dialect_cannot_say_is_refused_not_dropped(dialect, more):
    with pytest.raises(BadRequest):
        dialect.request(changed(**more), "m")


CALL = Message("assistant", (ToolCall("a", "ls"),))
RESULT = Message("user", (ToolResult("a", (Text("etc"),)),))
PROMPT = Message("user", (Text("Hi"),))


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ((PROMPT, CALL), "'a' has no result"),
        ((PROMPT, CALL, PROMPT), "'a' has no result"),
        ((PROMPT, CALL, PROMPT, CALL, RESULT), "'a' has no result"),
        ((PROMPT, CALL, RESULT, RESULT), "'a' answers no call"),
        ((PROMPT, RESULT), "'a' answers no call"),
    ],
)
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_each_call_has_exactly_one_result(dialect, messages, words):
    with pytest.raises(BadRequest, match=words):
        dialect.request(Conversation(messages=messages), "m")


def test_empty_text_is_never_sent_and_neighbours_are_one():
    messages = (
        Message("user", (Text(""), Text("a"))),
        Message("assistant", (Text(""),)),
        Message("user", (Text("b"),)),
    )
    (message,) = told(anthropic, Conversation(messages=messages))["messages"]
    assert [block["text"] for block in message["content"]] == ["a", "b"]


def test_anthropic_remembers_the_instructions_and_the_last_two_prompts():
    after = Message("user", (Text("And now?"),))
    asked = Conversation(
        system="Be brief.",
        messages=(PROMPT, CALL, RESULT, Message("assistant", (Text("x"),)), after),
        cache_key="chat-1",
    )
    body = told(anthropic, asked)
    assert "cache_control" in body["system"][0]
    marked = ["cache_control" in message["content"][-1] for message in body["messages"]]
    assert marked == [False, False, True, False, True]
    assert "cache_control" not in anthropic.request(TURN, "m").decode()
    assert told(openai_responses, asked)["prompt_cache_key"] == "chat-1"


@pytest.mark.parametrize("ids", [("functions.ls:0", "functions_ls_0"), ("", "a"), ("a b", "a.b")])
def test_ids_become_what_anthropic_allows_and_stay_different(ids):
    calls = Message("assistant", tuple(ToolCall(name, "ls") for name in ids))
    results = Message("user", tuple(ToolResult(name, ()) for name in ids))
    body = told(anthropic, Conversation(messages=(PROMPT, calls, results)))
    called = [block["id"] for block in body["messages"][1]["content"]]
    assert called == [block["tool_use_id"] for block in body["messages"][2]["content"]]
    assert len(set(called)) == 2
    assert all(name.replace("_", "").isalnum() for name in called)


def test_thinking_goes_back_within_a_turn_and_not_after_it():
    thought = Thinking("openai-chat", "Hm")
    turn = (PROMPT, Message("assistant", (thought, *CALL.parts)), RESULT)
    messages = told(openai_chat, Conversation(messages=turn))["messages"]
    assert messages[1]["reasoning_content"] == "Hm"
    later = (*turn, Message("assistant", (Text("Done"),)), PROMPT)
    assert b"Hm" not in openai_chat.request(Conversation(messages=later), "m")


def test_arguments_keep_their_bytes():
    for dialect in DIALECTS.values():
        call = Message("assistant", (ToolCall("a", "ls", '{ "p":  "\\u00e4" }'),))
        body = dialect.request(Conversation(messages=(PROMPT, call, RESULT)), "m")
        assert b'{ "p":  "\\u00e4" }' in body.replace(b'\\"', b'"').replace(b"\\\\", b"\\")
