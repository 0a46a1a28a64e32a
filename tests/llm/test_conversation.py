"""A reply is put together from its events, and goes back as it came."""

import json

import pytest

from agentd.llm.conversation import (
    Conversation,
    ModelMessage,
    ReplyBuilder,
    ReplyFinished,
    SupplierError,
    TextDelta,
    TextPart,
    Thinking,
    ToolResult,
)
from agentd.llm.dialects.dialect import DIALECTS, join_url
from agentd.llm.price import Usage
from tests.llm.dialects.streams import (
    ANTHROPIC_THOUGHT,
    COMPLETION,
    LS,
    MESSAGE,
    READ,
    RESPONSE,
    RESPONSES_CALL,
    SEALED,
)

PROMPT = ModelMessage("user", (TextPart("Look around"),))
RESULT = ModelMessage("user", (ToolResult("call_1", (TextPart("etc"),)),))


def build_draft(events):
    draft = ReplyBuilder()
    for event in events:
        draft.add(event)
    return draft


def read_draft(dialect, stream):
    reader = DIALECTS[dialect].create_reader()
    return build_draft(reader.feed(stream))


@pytest.mark.parametrize(
    ("dialect", "body", "thinking"),
    [
        ("openai-chat", COMPLETION, Thinking("openai-chat", "Look.")),
        ("anthropic", MESSAGE, Thinking("anthropic", "Look.", "EqQB==")),
        ("openai-responses", RESPONSE, Thinking("openai-responses", "Look.", sealed=SEALED)),
    ],
)
def test_a_whole_answer_says_what_a_streamed_one_says(dialect, body, thinking):
    draft = build_draft(DIALECTS[dialect].parse_response(json.dumps(body).encode()))
    assert draft.end == ReplyFinished("tool_calls")
    assert draft.build_message() == ModelMessage("assistant", (thinking, TextPart("I look."), LS))
    assert (draft.text, draft.calls) == ("I look.", (LS,))
    assert draft.usage.total_input == 30
    assert draft.usage.total_output == 9


def test_text_is_one_part_until_something_else_comes():
    draft = build_draft([TextDelta("a"), TextDelta("b"), *READ["chat call"][2], TextDelta("c")])
    assert draft.build_message().parts == (TextPart("ab"), LS, TextPart("c"))
    assert draft.usage == Usage(input=10, cache_read=20, output=9)


def test_what_is_not_whole_is_not_in_the_message():
    for _, stream, events in READ.values():
        assert stream
        draft = build_draft(events[:2])
        assert draft.build_message().parts in ((), (TextPart("I "),))
        assert draft.end is None


def test_signed_thinking_goes_back_to_the_letter():
    reply = read_draft("anthropic", ANTHROPIC_THOUGHT).build_message()
    body = DIALECTS["anthropic"].encode_request(Conversation(messages=(PROMPT, reply)), "m")
    assert json.loads(body)["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Is it Ω?", "signature": "EqQB/Ω+=="},
        {"type": "redacted_thinking", "data": "sealed=="},
        {"type": "text", "text": "Yes 🎉"},
    ]
    assert '"signature":"EqQB/Ω+=="'.encode() in body


def test_sealed_reasoning_goes_back_without_its_status():
    reply = read_draft("openai-responses", RESPONSES_CALL).build_message()
    body = DIALECTS["openai-responses"].encode_request(
        Conversation(messages=(PROMPT, reply, RESULT)), "m"
    )
    assert SEALED.encode() in body
    assert "status" not in SEALED


@pytest.mark.parametrize("ours", DIALECTS)
@pytest.mark.parametrize("foreign", DIALECTS)
def test_thinking_goes_to_the_dialect_only_that_it_came_from(ours, foreign):
    thinking = Thinking(foreign, "a thought", "a signature", '{"type":"a seal"}')
    reply = ModelMessage("assistant", (thinking, TextPart("Hello")))
    body = DIALECTS[ours].encode_request(Conversation(messages=(PROMPT, reply)), "m").decode()
    held = any(word in body for word in ("a thought", "a signature", "a seal"))
    assert held == (ours == foreign)
    only = Conversation(messages=(PROMPT, ModelMessage("assistant", (thinking,)), PROMPT))
    for message in json.loads(DIALECTS[ours].encode_request(only, "m")).get("messages", []):
        assert message["content"]


def test_a_repeated_key_is_taken_out_of_an_error():
    error = SupplierError("authentication", "The key sk-1 is wrong", 3.0)
    masked = SupplierError("authentication", "The key *** is wrong", 3.0)
    assert error.mask(("sk-1", "")) == masked
    assert error.mask(("", "sk-2")) == error


@pytest.mark.parametrize(
    ("base", "found"),
    [
        ("https://api.openai.com", "https://api.openai.com/v1/chat/completions"),
        ("https://api.openai.com/v1/", "https://api.openai.com/v1/chat/completions"),
        ("https://v1.host", "https://v1.host/v1/chat/completions"),
        ("http://[::1]:11434/api", "http://[::1]:11434/api/v1/chat/completions"),
        ("https://host/api/paas/v4", "https://host/api/paas/v4/chat/completions"),
        ("https://host/v1beta/openai", "https://host/v1beta/openai/chat/completions"),
    ],
)
def test_a_version_is_not_said_twice_in_an_address(base, found):
    assert join_url(base, "/v1/chat/completions") == found


@pytest.mark.parametrize(
    ("base", "found"),
    [
        ("https://generativelanguage.googleapis.com", "googleapis.com/v1beta/models/m:x"),
        ("https://generativelanguage.googleapis.com/v1beta", "googleapis.com/v1beta/models/m:x"),
        ("https://host/gemini/v1alpha/", "host/gemini/v1alpha/models/m:x"),
        ("https://host/gemini", "host/gemini/v1beta/models/m:x"),
    ],
)
def test_gemini_s_version_is_not_said_twice_either(base, found):
    assert join_url(base, "/v1beta/models/m:x").endswith(found)


def test_the_key_stands_where_the_dialect_wants_it_and_nowhere_without_one():
    assert DIALECTS["openai-chat"].build_headers("k")["authorization"] == "Bearer k"
    assert DIALECTS["openai-responses"].build_headers("k")["authorization"] == "Bearer k"
    assert DIALECTS["anthropic"].build_headers("k")["x-api-key"] == "k"
    assert DIALECTS["gemini"].build_headers("k")["x-goog-api-key"] == "k"
    assert DIALECTS["anthropic"].build_headers("k")["anthropic-version"] == "2023-06-01"
    for dialect in DIALECTS.values():
        assert not {"authorization", "x-api-key", "x-goog-api-key"} & set(dialect.build_headers(""))
