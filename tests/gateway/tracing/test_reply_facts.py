"""The model and the finish reasons of replies, in every dialect and however they are split."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.gateway.tracing.reply_facts import MAX_EVENT, ReplyFacts

WHOLE: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "openai-chat": (
        {
            "model": "gpt-x-1",
            "choices": [
                {"message": {"content": '"finish_reason": "wrong"'}, "finish_reason": "stop"},
                {"message": {"content": ""}, "finish_reason": "length"},
            ],
        },
        "gpt-x-1",
        ["stop", "length"],
    ),
    "openai-responses": (
        {
            "object": "response",
            "model": "gpt-x-2",
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
        },
        "gpt-x-2",
        ["max_output_tokens"],
    ),
    "anthropic": (
        {"type": "message", "model": "claude-x", "content": [], "stop_reason": "end_turn"},
        "claude-x",
        ["end_turn"],
    ),
    "gemini": (
        {"modelVersion": "gemini-x", "candidates": [{"finishReason": "STOP"}]},
        "gemini-x",
        ["STOP"],
    ),
    "embeddings": ({"object": "list", "model": "small", "data": [{"embedding": [1]}]}, "small", []),
}

STREAMS: dict[str, tuple[list[dict[str, Any]], str, list[str]]] = {
    "openai-chat": (
        [
            {"model": "gpt-x-1", "choices": [{"delta": {"content": "a"}, "finish_reason": None}]},
            {"model": "gpt-x-1", "choices": [{"delta": {"content": '"finish_reason":"no"'}}]},
            {"model": "gpt-x-1", "choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
        ],
        "gpt-x-1",
        ["tool_calls"],
    ),
    "openai-responses": (
        [
            {"type": "response.created", "response": {"model": "m", "status": "in_progress"}},
            {"type": "response.output_text.delta", "delta": "text"},
            {"type": "response.completed", "response": {"model": "m", "status": "completed"}},
        ],
        "m",
        ["completed"],
    ),
    "anthropic": (
        [
            {"type": "message_start", "message": {"model": "claude-x", "stop_reason": None}},
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "hi"}},
            {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
        ],
        "claude-x",
        ["max_tokens"],
    ),
    "gemini": (
        [
            {"modelVersion": "gemini-x", "candidates": [{"content": {"parts": []}}]},
            {"modelVersion": "gemini-x", "candidates": [{"finishReason": "SAFETY"}]},
        ],
        "gemini-x",
        ["SAFETY"],
    ),
}


def encode(events: list[dict[str, Any]], line_end: str = "\n") -> bytes:
    return "".join(f"data: {json.dumps(one)}{line_end * 2}" for one in events).encode()


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_reply_is_read(name: str) -> None:
    body, model, reasons = WHOLE[name]
    facts = ReplyFacts()
    facts.set_body(json.dumps(body).encode())
    assert (facts.model, facts.finish_reasons) == (model, reasons)


@given(
    st.sampled_from(sorted(STREAMS)),
    st.sampled_from(["\n", "\r\n"]),
    st.lists(st.integers(1, 60), max_size=80),
)
def test_a_stream_is_read_however_it_is_split(name: str, line_end: str, sizes: list[int]) -> None:
    events, model, reasons = STREAMS[name]
    data, facts = encode(events, line_end), ReplyFacts()
    for size in sizes:
        facts.feed(data[:size])
        data = data[size:]
    facts.feed(data)
    assert (facts.model, facts.finish_reasons) == (model, reasons)


@given(st.lists(st.binary(max_size=50)))
def test_anything_may_come(chunks: list[bytes]) -> None:
    facts = ReplyFacts()
    for chunk in chunks:
        facts.feed(chunk)
    facts.set_body(b"".join(chunks))
    assert len(facts.model) <= 128


def test_after_an_event_that_is_too_long_nothing_more_is_kept() -> None:
    facts = ReplyFacts()
    for _ in range(MAX_EVENT // 1024 + 2):
        facts.feed(b"x" * 1024)
    facts.feed(encode(STREAMS["openai-chat"][0]))
    assert (facts.model, facts.finish_reasons) == ("", [])


def test_long_names_and_many_reasons_are_cut() -> None:
    facts = ReplyFacts()
    body = {"model": "m" * 1000, "choices": [{"finish_reason": "r" * 1000}] * 100}
    facts.set_body(json.dumps(body).encode())
    assert len(facts.model) == 128
    assert [len(one) for one in facts.finish_reasons] == [128] * 16
