"""Fields that only clients use, and empty ones, keep no request from translation."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import BadRequest
from agentd.llm.conversation import TextPart, Thinking, ToolCall, ToolResult
from agentd.llm.dialects import ignored_fields
from agentd.llm.dialects.callers import CALLERS
from agentd.llm.dialects.dialect import DIALECTS
from agentd.llm.dialects.openai_chat.request import _Request as ChatRequest

LITELLM = {
    "content": "I look.",
    "role": "assistant",
    "tool_calls": [
        {
            "index": 1,
            "function": {"arguments": '{"p": "/"}', "name": "ls"},
            "id": "call_1",
            "type": "function",
            "provider_specific_fields": {"thought_signature": "x"},
        }
    ],
    "function_call": None,
    "provider_specific_fields": {"citations": None, "thinking_blocks": []},
    "annotations": [],
    "images": [],
    "audio": None,
}
"""``message.model_dump()`` of litellm 1.80."""

OPENAI_PARSED = {
    "content": "I look.",
    "refusal": None,
    "role": "assistant",
    "annotations": None,
    "audio": None,
    "function_call": None,
    "parsed": None,
    "tool_calls": [
        {
            "id": "call_1",
            "type": "function",
            "index": 0,
            "function": {"name": "ls", "arguments": '{"p": "/"}', "parsed_arguments": {"p": "/"}},
        }
    ],
}
"""``ParsedChatCompletionMessage.model_dump()`` of openai 3.54."""

ROUTED = {
    "role": "assistant",
    "content": "I look.",
    "reasoning": None,
    "reasoning_details": [],
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": '{"p": "/"}'}}
    ],
}

RESULT = {"role": "tool", "tool_call_id": "call_1", "name": "ls", "content": "etc"}
CALLED = (TextPart("I look."), ToolCall("call_1", "ls", '{"p": "/"}'))


def build_chat_body(*messages, **fields):
    said = [{"role": "user", "content": "Look", "name": None, "cache_control": None}, *messages]
    return json.dumps({"model": "m", "messages": said, **fields}).encode()


@pytest.mark.parametrize("supplier", DIALECTS)
@pytest.mark.parametrize(
    "message", [LITELLM, OPENAI_PARSED, ROUTED], ids=["litellm", "openai", "openrouter"]
)
def test_a_message_as_a_client_holds_it_goes_back_to_any_supplier(message, supplier):
    marked = {**RESULT, "cache_control": {"type": "ephemeral"}}
    tool = {"type": "function", "function": {"name": "ls", "strict": None, "x": None}}
    result = CALLERS["openai-chat"].parse_request(
        build_chat_body(message, marked, tools=[{**tool, "cache_control": {"type": "ephemeral"}}])
    )
    assert result.messages[1].parts == CALLED
    assert result.messages[2].parts == (ToolResult("call_1", (TextPart("etc"),)),)
    assert result.dropped_fields == ()
    assert json.loads(DIALECTS[supplier].encode_request(result, "m"))


def test_a_participants_name_is_left_out_and_reported():
    said = {"role": "user", "content": "And me", "name": "Ann"}
    assert CALLERS["openai-chat"].parse_request(build_chat_body(said)).dropped_fields == ("name",)


def test_the_same_for_anthropic():
    call = {"type": "tool_use", "id": "a", "name": "ls", "input": {"x": None, "y": [], "z": 1e2}}
    body = {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "Look", "cache_control": {"type": "ephemeral"}},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I look.", "citations": None, "parsed_output": None},
                    {**call, "caller": {"type": "direct"}, "toolset_name": None, "odd": None},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "a", "content": "etc"}],
            },
        ],
        "tools": [{"name": "ls", "input_schema": {"type": "object", "x": None}, "odd": None}],
        "container": None,
        "betas": [],
    }
    result = CALLERS["anthropic"].parse_request(json.dumps(body).encode())
    text, called = result.messages[1].parts
    assert text == TextPart("I look.")
    assert called.arguments == '{"x": null, "y": [], "z": 100.0}'  # not a byte of it is changed
    assert result.tools[0].schema == {"type": "object", "x": None}


def test_the_same_for_responses():
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Look", "odd": None}]},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "phase": None,
            "content": [
                {
                    "type": "output_text",
                    "text": "I look.",
                    "annotations": [],
                    "logprobs": [],
                    "parsed": {"a": 1},
                }
            ],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "ls",
            "arguments": '{"p": "/"}',
            "parsed_arguments": {"p": "/"},
            "namespace": None,
            "created_by": None,
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "etc", "odd": None},
    ]
    body = {"model": "m", "input": items, "include": [], "prompt": None, "max_tool_calls": None}
    result = CALLERS["openai-responses"].parse_request(json.dumps(body).encode())
    assert result.messages[1].parts == CALLED


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "x", "odd": 1},
        {"role": "user", "content": "x", "odd": {}},
        {"role": "user", "content": "x", "odd": False},
        {"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]},
    ],
)
def test_a_field_that_says_something_unknown_is_still_refused(message):
    with pytest.raises(BadRequest, match="cannot be translated"):
        CALLERS["openai-chat"].parse_request(build_chat_body(message))


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.just([]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(arguments=VALUES, blanks=st.sampled_from(["", " ", "\n\t"]))
def test_what_the_caller_chose_keeps_every_byte(arguments, blanks):
    given_ = json.dumps(arguments, indent=1 if blanks else None)
    data = f'{blanks}{{"a":null,{blanks}"tools":[ {{"parameters":{blanks}{given_}{blanks}}} ]}}'
    found = ignored_fields.drop_ignored_fields(data.encode(), ChatRequest)
    kept = f'{{"tools":[{{"parameters":{given_}}}]}}' if arguments is not None else '{"tools":[{}]}'
    assert found.decode() == kept


def test_a_supplier_is_informed_of_thinking_that_litellm_carries():
    blocks = [
        {"type": "thinking", "thinking": "Which?", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "c2VhbGVk"},
    ]
    message = {**LITELLM, "reasoning_content": "Which?", "thinking_blocks": blocks}
    result = CALLERS["openai-chat"].parse_request(build_chat_body(message, RESULT))
    assert result.messages[1].parts == (
        Thinking("anthropic", "Which?", "c2ln"),
        Thinking("anthropic", sealed="c2VhbGVk"),
        *CALLED,
    )
