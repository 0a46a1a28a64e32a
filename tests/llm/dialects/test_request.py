"""The requests that suppliers are sent, in each dialect."""

import base64
import json

import pytest

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
    ToolDefinition,
    ToolResult,
)
from agentd.llm.dialects.anthropic import upstream as anthropic_upstream
from agentd.llm.dialects.dialect import DIALECTS
from agentd.llm.dialects.gemini import upstream as gemini_upstream
from agentd.llm.dialects.openai_chat import upstream as openai_chat_upstream
from agentd.llm.dialects.openai_responses import upstream as openai_responses_upstream

PNG = ImagePart("image/png", base64.b64encode(b"png").decode())
LS = ToolDefinition(
    "ls", "Lists a folder", {"type": "object", "properties": {"p": {"type": "string"}}}
)

TURN = Conversation(
    system="Be brief.",
    messages=(
        ModelMessage("user", (TextPart("What is here?"), PNG)),
        ModelMessage(
            "assistant",
            (TextPart("I look."), ToolCall("a", "ls", '{"p": "/"}'), ToolCall("b", "ls", '{"p')),
        ),
        ModelMessage("user", (TextPart("Hurry"),)),
        ModelMessage(
            "user",
            (ToolResult("a", (TextPart("etc"), PNG)), ToolResult("b", (TextPart("No"),), True)),
        ),
    ),
    tools=(LS,),
)


def encode(dialect, conversation=TURN, **more):
    return json.loads(dialect.encode_request(conversation, "m", **more))


def build_conversation(**more):
    return Conversation(
        **{"messages": (ModelMessage("user", (TextPart("Hi"),)),), "tools": (LS,), **more}
    )


def test_a_turn_for_chat_completions():
    assert encode(openai_chat_upstream) == {
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
    assert encode(openai_responses_upstream) == {
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
    assert encode(anthropic_upstream) == {
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
    assert not {"stream", "stream_options"} & encode(dialect, stream=False).keys()


@pytest.mark.parametrize(
    ("choice", "chat", "responses", "claude"),
    [
        ("auto", None, None, None),
        ("none", "none", "none", {"type": "none"}),
        ("required", "required", "required", {"type": "any"}),
        (
            NamedTool("ls"),
            {"type": "function", "function": {"name": "ls"}},
            {"type": "function", "name": "ls"},
            {"type": "tool", "name": "ls"},
        ),
    ],
)
def test_the_choice_of_tools(choice, chat, responses, claude):
    conversation = build_conversation(tool_choice=choice)
    assert encode(openai_chat_upstream, conversation).get("tool_choice") == chat
    assert encode(openai_responses_upstream, conversation).get("tool_choice") == responses
    assert encode(anthropic_upstream, conversation).get("tool_choice") == claude
    for dialect in DIALECTS.values():
        assert "tool_choice" not in encode(
            dialect, build_conversation(tool_choice=choice, tools=())
        )


def test_one_tool_at_a_time():
    conversation = build_conversation(parallel_tool_calls=False)
    assert encode(openai_chat_upstream, conversation)["parallel_tool_calls"] is False
    assert encode(openai_responses_upstream, conversation)["parallel_tool_calls"] is False
    assert encode(anthropic_upstream, conversation)["tool_choice"] == {
        "type": "auto",
        "disable_parallel_tool_use": True,
    }


def test_limits_and_temperature():
    conversation = build_conversation(max_output=100, temperature=0.5, stop_sequences=("END",))
    chat, claude = (
        encode(openai_chat_upstream, conversation),
        encode(anthropic_upstream, conversation),
    )
    assert (chat["max_completion_tokens"], chat["temperature"], chat["stop"]) == (100, 0.5, ["END"])
    assert (claude["max_tokens"], claude["temperature"]) == (100, 0.5)
    assert claude["stop_sequences"] == ["END"]
    responses = encode(openai_responses_upstream, build_conversation(max_output=100, temperature=0))
    assert (responses["max_output_tokens"], responses["temperature"]) == (100, 0)


def test_effort_in_words_and_as_a_number():
    assert (
        encode(openai_chat_upstream, build_conversation(reasoning_effort="low"))["reasoning_effort"]
        == "low"
    )
    responses = encode(openai_responses_upstream, build_conversation(reasoning_effort="low"))
    assert responses["reasoning"] == {"effort": "low"}
    assert responses["include"] == ["reasoning.encrypted_content"]
    claude = encode(anthropic_upstream, build_conversation(reasoning_effort="low"))
    assert claude["thinking"] == {"type": "adaptive"}
    assert claude["output_config"] == {"effort": "low"}
    claude = encode(anthropic_upstream, build_conversation(reasoning_effort="2000"))
    assert claude["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert claude["max_tokens"] > 2000
    assert "thinking" not in encode(
        anthropic_upstream, build_conversation(reasoning_effort="none", temperature=1.0)
    )


@pytest.mark.parametrize(
    ("tokens", "word"), [("1", "low"), ("4096", "low"), ("10000", "medium"), ("31999", "high")]
)
def test_tokens_of_thinking_are_a_word_to_openai(tokens, word):
    assert (
        encode(openai_chat_upstream, build_conversation(reasoning_effort=tokens))[
            "reasoning_effort"
        ]
        == word
    )
    assert encode(openai_responses_upstream, build_conversation(reasoning_effort=tokens))[
        "reasoning"
    ] == {"effort": word}


def test_what_is_usual_with_thinking_is_no_wish():
    claude = encode(
        anthropic_upstream, build_conversation(reasoning_effort="minimal", temperature=1)
    )
    assert "temperature" not in claude
    assert claude["output_config"] == {"effort": "low"}


def test_a_reply_in_json():
    schema = {"type": "object"}
    wanted = build_conversation(response_format=JsonFormat(schema, "who", "A person", strict=True))
    fields = {"name": "who", "description": "A person", "schema": schema, "strict": True}
    chat = encode(openai_chat_upstream, wanted)["response_format"]
    assert chat == {"type": "json_schema", "json_schema": fields}
    assert encode(openai_responses_upstream, wanted)["text"]["format"] == {
        "type": "json_schema",
        **fields,
    }
    claude = encode(anthropic_upstream, wanted)["output_config"]["format"]
    described = {"description": "A person", "type": "object"}
    assert claude == {"type": "json_schema", "schema": described}
    plain = build_conversation(response_format=JsonFormat())
    assert encode(openai_chat_upstream, plain)["response_format"] == {"type": "json_object"}
    assert encode(openai_responses_upstream, plain)["text"] == {"format": {"type": "json_object"}}
    told_claude = encode(anthropic_upstream, plain)
    assert "output_config" not in told_claude
    assert "exactly one JSON object" in told_claude["system"][-1]["text"]


def test_a_users_long_name_is_short_and_its_own_to_openai():
    first, second = ("x" * 70 + letter for letter in "ab")
    names = [
        encode(openai_chat_upstream, build_conversation(user=name))["user"]
        for name in (first, second, "x" * 64)
    ]
    assert len({*names}) == 3
    assert all(len(name) == 64 for name in names)
    assert encode(openai_responses_upstream, build_conversation(user=first))["user"] == names[0]
    assert encode(anthropic_upstream, build_conversation(user=first))["metadata"] == {
        "user_id": first
    }


@pytest.mark.parametrize(
    ("dialect", "more"),
    [
        (openai_responses_upstream, {"stop_sequences": ("END",)}),
        (openai_responses_upstream, {"top_k": 5}),
        (openai_chat_upstream, {"top_k": 5}),
        (openai_responses_upstream, {"seed": 5}),
        (anthropic_upstream, {"seed": 5}),
        (gemini_upstream, {"seed": 2**31}),
        (gemini_upstream, {"seed": -(2**31) - 1}),
        (anthropic_upstream, {"verbosity": "low"}),
        (anthropic_upstream, {"temperature": 1.5}),
        (anthropic_upstream, {"temperature": 0.5, "reasoning_effort": "low"}),
        (anthropic_upstream, {"reasoning_effort": "2000", "max_output": 2000}),
        (
            anthropic_upstream,
            {"messages": (ModelMessage("user", (ImagePart("image/bmp", "AA"),)),)},
        ),
        (openai_chat_upstream, {"messages": (ModelMessage("user", (ImagePart(),)),)}),
        (openai_chat_upstream, {"messages": (ModelMessage("assistant", (PNG,)),)}),
        (openai_chat_upstream, {"messages": (ModelMessage("user", (ToolCall("a", "ls"),)),)}),
    ],
)
def test_what_a_dialect_cannot_say_is_refused_not_dropped(dialect, more):
    with pytest.raises(BadRequest):
        dialect.encode_request(build_conversation(**more), "m")


@pytest.mark.parametrize("image", [ImagePart("image/png", ""), ImagePart("", "cG5n")])
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_an_image_without_bytes_or_without_their_type_is_refused_not_sent_half(dialect, image):
    messages = (ModelMessage("user", (TextPart("What is it?"), image)),)
    with pytest.raises(BadRequest):
        dialect.encode_request(Conversation(messages=messages), "m")


CALL = ModelMessage("assistant", (ToolCall("a", "ls"),))
RESULT = ModelMessage("user", (ToolResult("a", (TextPart("etc"),)),))
PROMPT = ModelMessage("user", (TextPart("Hi"),))


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ((PROMPT, CALL), "'a' has no result"),
        ((PROMPT, CALL, PROMPT), "'a' has no result"),
        ((PROMPT, CALL, PROMPT, CALL, RESULT), "'a' has no result"),
        ((PROMPT, CALL, RESULT, RESULT), "'a' matches no call"),
        ((PROMPT, RESULT), "'a' matches no call"),
    ],
)
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_each_call_has_exactly_one_result(dialect, messages, words):
    with pytest.raises(BadRequest, match=words):
        dialect.encode_request(Conversation(messages=messages), "m")


def test_empty_text_is_never_sent_and_neighbours_are_one():
    messages = (
        ModelMessage("user", (TextPart(""), TextPart("a"))),
        ModelMessage("assistant", (TextPart(""),)),
        ModelMessage("user", (TextPart("b"),)),
    )
    (message,) = encode(anthropic_upstream, Conversation(messages=messages))["messages"]
    assert [block["text"] for block in message["content"]] == ["a", "b"]


def test_anthropic_receives_no_text_that_is_all_whitespace():
    """It refuses the request, and with it the whole conversation from then on."""
    blank = TextPart("\n \t")
    called = ModelMessage("assistant", (blank, *CALL.parts))
    result = ModelMessage("user", (ToolResult("a", (blank,)), blank, TextPart(" ok\n")))
    asked = Conversation(
        system=" \n", messages=(PROMPT, ModelMessage("assistant", (blank,)), called, result)
    )
    body = encode(anthropic_upstream, asked)
    assert "system" not in body
    assert [[block["type"] for block in message["content"]] for message in body["messages"]] == [
        ["text"],
        ["tool_use"],
        ["tool_result", "text"],
    ]
    assert body["messages"][2]["content"][0] == {"type": "tool_result", "tool_use_id": "a"}
    assert body["messages"][2]["content"][1]["text"] == " ok\n"
    assert encode(openai_chat_upstream, asked)["messages"][-2]["content"] == blank.text


def test_anthropic_remembers_the_instructions_and_the_last_two_prompts():
    after = ModelMessage("user", (TextPart("And now?"),))
    asked = Conversation(
        system="Be brief.",
        messages=(PROMPT, CALL, RESULT, ModelMessage("assistant", (TextPart("x"),)), after),
        cache_key="chat-1",
    )
    body = encode(anthropic_upstream, asked)
    assert "cache_control" in body["system"][0]
    marked = ["cache_control" in message["content"][-1] for message in body["messages"]]
    assert marked == [False, False, True, False, True]
    assert "cache_control" not in anthropic_upstream.encode_request(TURN, "m").decode()
    assert encode(openai_responses_upstream, asked)["prompt_cache_key"] == "chat-1"


@pytest.mark.parametrize("ids", [("functions.ls:0", "functions_ls_0"), ("", "a"), ("a b", "a.b")])
def test_ids_become_what_anthropic_allows_and_stay_different(ids):
    calls = ModelMessage("assistant", tuple(ToolCall(name, "ls") for name in ids))
    results = ModelMessage("user", tuple(ToolResult(name, ()) for name in ids))
    body = encode(anthropic_upstream, Conversation(messages=(PROMPT, calls, results)))
    called = [block["id"] for block in body["messages"][1]["content"]]
    assert called == [block["tool_use_id"] for block in body["messages"][2]["content"]]
    assert len(set(called)) == 2
    assert all(name.replace("_", "").isalnum() for name in called)


def test_thinking_goes_back_within_a_turn_and_not_after_it():
    thought = Thinking("openai-chat", "Hm")
    turn = (PROMPT, ModelMessage("assistant", (thought, *CALL.parts)), RESULT)
    messages = encode(openai_chat_upstream, Conversation(messages=turn))["messages"]
    assert messages[1]["reasoning_content"] == "Hm"
    later = (*turn, ModelMessage("assistant", (TextPart("Done"),)), PROMPT)
    assert b"Hm" not in openai_chat_upstream.encode_request(Conversation(messages=later), "m")


def test_arguments_keep_their_bytes():
    for dialect in DIALECTS.values():
        call = ModelMessage("assistant", (ToolCall("a", "ls", '{ "p":  "\\u00e4" }'),))
        body = dialect.encode_request(Conversation(messages=(PROMPT, call, RESULT)), "m")
        assert b'{ "p":  "\\u00e4" }' in body.replace(b'\\"', b'"').replace(b"\\\\", b"\\")


@pytest.mark.parametrize("messages", [(), (ModelMessage("user", (TextPart(""),)),)])
def test_instructions_alone_are_the_prompt_where_a_request_needs_a_message(messages):
    alone = Conversation(system="Greet me.", messages=messages)
    asked = {name: encode(dialect, alone) for name, dialect in DIALECTS.items()}
    assert asked["openai-chat"]["messages"][0] == {"role": "system", "content": "Greet me."}
    assert asked["openai-responses"]["input"][0]["content"][0]["text"] == "Greet me."
    assert asked["anthropic"]["messages"][0]["content"] == [{"type": "text", "text": "Greet me."}]
    assert asked["gemini"]["contents"] == [{"role": "user", "parts": [{"text": "Greet me."}]}]
    assert not {"instructions", "system", "systemInstruction"} & {
        field for body in asked.values() for field in body
    }


def test_instructions_beside_a_message_stay_instructions():
    assert encode(anthropic_upstream)["system"][0]["text"] == "Be brief."
