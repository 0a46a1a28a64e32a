"""Streams of a writer are read again as they were, whatever the reply and the split."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.llm.conversation import (
    ReplyFinished,
    ReplyStarted,
    SupplierError,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ThinkingDone,
    ToolCall,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStarted,
    UsageUpdated,
)
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.dialect import DIALECTS
from agentd.llm.dialects.thinking_signatures import unwrap_thinking, wrap_thinking
from agentd.llm.price import Usage
from tests.llm.dialects.replies import GLANCE, LOOK, WHOLE, WRITERS, draw_reply, get_meaning
from tests.support.splitting import list_split_places, split

FINISHED = b'"finishReason"'
"""With Gemini the end of the stream is the end of the reply."""

EACH = pytest.mark.parametrize("dialect", WRITERS)


def write_events(dialect, events, glance=GLANCE):
    writer = WRITERS[dialect](glance)
    return [writer.write(event) for event in events]


def read_pieces(dialect, pieces):
    reader = DIALECTS[dialect].create_reader()
    told = [event for piece in pieces for event in reader.feed(piece)]
    return told + (reader.close() if dialect == "gemini" and FINISHED in b"".join(pieces) else [])


def join_texts(events, kind):
    return "".join(event.text for event in events if isinstance(event, kind))


def parse_stream(stream):
    """Parse a stream's events as JSON, ``[DONE]`` as text."""
    lines = [line[6:] for line in stream.decode().split("\n") if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


@EACH
@given(reply=draw_reply(), data=st.data())
def test_what_is_reported_is_read_again(dialect, reply, data):
    again = read_pieces(dialect, split(b"".join(write_events(dialect, reply)), data))
    assert get_meaning(again, dialect) == get_meaning(reply, dialect)
    assert isinstance(again[0], ReplyStarted)
    calls = [event.index for event in again if isinstance(event, ToolCallStarted)]
    assert calls == list(range(len(calls)))  # clients gather a call's pieces by its number


@EACH
@given(reply=draw_reply())
def test_nothing_is_held_back_that_can_be_reported(dialect, reply):
    calls = [at for at, event in enumerate(reply) if isinstance(event, ToolCallStarted)]
    shown = reply[: calls[0] if calls else -1]  # what grows beside a call may have to wait for it
    for cut in range(len(shown) + 1):
        again = read_pieces(dialect, write_events(dialect, shown[:cut]))
        for kind in (TextDelta, ThinkingDelta):
            assert join_texts(again, kind) == join_texts(shown[:cut], kind)


@EACH
def test_it_is_read_the_same_cut_at_every_byte(dialect):
    stream = b"".join(write_events(dialect, LOOK))
    events = read_pieces(dialect, [stream])
    for at in list_split_places(stream):
        assert read_pieces(dialect, [stream[:at], stream[at:]]) == events


@EACH
@given(reply=draw_reply())
def test_a_whole_answer_says_what_the_stream_says(dialect, reply):
    body = WHOLE[dialect](reply, GLANCE, "r1", 17)
    again = DIALECTS[dialect].parse_response(body)
    assert get_meaning(again, dialect) == get_meaning(reply, dialect)


@EACH
def test_only_a_whole_reply_is_reported_at_once(dialect):
    with pytest.raises(ValueError, match="complete reply"):
        WHOLE[dialect](LOOK[:-1], GLANCE, "r1", 17)


@EACH
@given(reply=draw_reply(), data=st.data())
def test_an_error_ends_a_stream_and_nothing_follows(dialect, reply, data):
    cut = data.draw(st.integers(0, len(reply) - 1))
    writer = WRITERS[dialect]()
    stream = b"".join(map(writer.write, reply[:cut]))
    last = writer.write(SupplierError("overloaded", "Later"))
    assert last.count(b"\n\n") == 1
    assert b"Later" in last
    assert [writer.write(event) for event in reply] == [b""] * len(reply)
    for end in (
        b"[DONE]",
        b"message_stop",
        b"response.completed",
        b"response.incomplete",
        FINISHED,
    ):
        assert end not in stream + last
    assert not any(isinstance(event, ReplyFinished) for event in read_pieces(dialect, [stream]))


@EACH
def test_what_was_not_begun_begins_with_the_first_word(dialect):
    again = read_pieces(dialect, write_events(dialect, [TextDelta("Hi"), ReplyFinished("end")]))
    assert [type(event) for event in again if not isinstance(event, UsageUpdated)] == [
        ReplyStarted,
        TextDelta,
        ReplyFinished,
    ]


@EACH
@pytest.mark.parametrize("reason", ["end", "length", "refused"])
def test_an_empty_reply_has_an_end(dialect, reason):
    again = read_pieces(
        dialect, write_events(dialect, [ReplyStarted("x", "m"), ReplyFinished(reason)])
    )
    assert again[-1] == ReplyFinished(reason)


@EACH
def test_a_call_that_was_never_whole_has_what_there_is_of_it(dialect):
    again = read_pieces(
        dialect,
        write_events(
            dialect,
            [
                ToolCallStarted(0, "call_1", "ls"),
                ToolCallDelta(0, '{"p":'),
                ReplyFinished("length"),
            ],
        ),
    )
    written = "{}" if dialect == "gemini" else '{"p":'  # where arguments are an object
    assert ToolCallDone(0, ToolCall("call_1", "ls", written)) in again
    assert again[-1] == ReplyFinished("length")


@EACH
def test_a_call_s_arguments_are_json_even_when_it_has_none(dialect):
    call = ToolCall("call_1", "now", "{}")
    stream = write_events(dialect, [ToolCallStarted(0, "call_1", "now"), ToolCallDone(0, call)])
    assert ToolCallDelta(0, "{}") in read_pieces(dialect, stream)


class TestChat:
    def test_the_role_comes_first_and_a_call_s_name_once(self):
        deltas = [event["choices"][0]["delta"] for event in parse_stream(write_chat(LOOK))[:-2]]
        assert deltas[0] == {"role": "assistant", "content": ""}
        assert deltas[1] == {"reasoning_content": "Which "}
        fragments = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
        named = {"index": 1, "id": "call_2", "type": "function"}
        assert fragments[2] == {**named, "function": {"name": "cat", "arguments": ""}}
        assert fragments[3] == {"index": 1, "function": {"arguments": '{"f":"a\\n'}}
        assert [fragment["index"] for fragment in fragments] == [0, 0, 1, 1, 0, 1]

    def test_usage_is_the_last_chunk_before_done(self):
        *chunks, last, done = parse_stream(write_chat(LOOK))
        assert done == "[DONE]"
        assert last["choices"] == []
        assert last["usage"] == {
            "prompt_tokens": 33,
            "completion_tokens": 9,
            "total_tokens": 42,
            "prompt_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 3},
            "completion_tokens_details": {"reasoning_tokens": 4},
        }
        assert {chunk["usage"] for chunk in chunks} == {None}
        assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"

    def test_usage_is_reported_only_to_a_client_that_asked(self):
        events = parse_stream(write_chat(LOOK, RequestSummary("m", stream=True, wants_usage=False)))
        assert [event for event in events if "usage" in event] == []
        assert len(events) == len(parse_stream(write_chat(LOOK))) - 1

    def test_every_chunk_names_the_model_that_was_asked_for(self):
        heads = [
            (c["id"], c["model"], c["created"], c["object"])
            for c in parse_stream(write_chat(LOOK))[:-1]
        ]
        assert set(heads) == {("chatcmpl-r1", "m", 17, "chat.completion.chunk")}


class TestAnthropic:
    def test_one_block_is_open_at_a_time_and_their_numbers_have_no_gap(self):
        events = parse_stream(b"".join(write_events("anthropic", LOOK)))
        assert events[0]["message"]["usage"] == {
            "input_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 0,
        }
        moves = [(e["type"].removeprefix("content_block_"), e["index"]) for e in events[1:-2]]
        assert moves == [
            *[("start", 0), ("delta", 0), ("delta", 0), ("delta", 0), ("stop", 0)],
            *[("start", 1), ("delta", 1), ("delta", 1), ("stop", 1)],
            *[("start", 2), ("delta", 2), ("delta", 2), ("stop", 2)],
            *[("start", 3), ("delta", 3), ("delta", 3), ("stop", 3)],
        ]
        assert [e["content_block"]["type"] for e in events if "content_block" in e] == [
            *["thinking", "text", "tool_use", "tool_use"]
        ]

    def test_the_true_usage_is_reported_at_the_end(self):
        *_, last, stop = parse_stream(b"".join(write_events("anthropic", LOOK)))
        assert last["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
        counted = last["usage"]
        assert (counted["input_tokens"], counted["output_tokens"]) == (10, 9)
        assert counted["cache_read_input_tokens"] == 20
        assert counted["cache_creation_input_tokens"] == 3
        assert stop == {"type": "message_stop"}

    def test_anthropic_s_own_seals_go_on_as_they_are(self):
        for thinking in (
            Thinking("anthropic", "Hm", "EqQB=="),
            Thinking("anthropic", "", "EqQB=="),
            Thinking("anthropic", sealed="x=="),
        ):
            again = read_pieces(
                "anthropic",
                write_events("anthropic", [ThinkingDone(thinking), ReplyFinished("end")]),
            )
            assert [e.thinking for e in again if isinstance(e, ThinkingDone)] == [thinking]


class TestGemini:
    def test_every_piece_is_an_answer_of_its_own(self):
        events = parse_stream(b"".join(write_events("gemini", LOOK)))
        parts = [event["candidates"][0]["content"]["parts"] for event in events]
        assert parts == [
            [{"text": "Which ", "thought": True}],
            [{"text": "one?", "thought": True}],
            [{"text": "I look"}],
            [{"text": " around Ω🎉."}],
            [{"functionCall": {"id": "call_1", "name": "ls", "args": {"p": "/"}}}],
            [{"functionCall": {"id": "call_2", "name": "cat", "args": {"f": "a\nb"}}}],
            [{"text": ""}],
        ]
        assert {(event["modelVersion"], event["responseId"]) for event in events} == {("m", "r1")}
        assert [event["candidates"][0].get("finishReason") for event in events[-2:]] == [
            *[None, "STOP"]
        ]
        assert events[-1]["usageMetadata"] == {
            "promptTokenCount": 33,
            "cachedContentTokenCount": 20,
            "candidatesTokenCount": 5,
            "thoughtsTokenCount": 4,
            "totalTokenCount": 42,
        }

    def test_a_seal_stands_at_what_comes_next(self):
        own, foreign = Thinking("gemini", "", "EqQB=="), Thinking("anthropic", "", "x==")
        unsealable = Thinking("openai-chat")
        carried = wrap_thinking(foreign, with_text=True)
        assert unwrap_thinking(carried, "") == foreign
        cases = ((own, "EqQB=="), (foreign, carried), (unsealable, None))
        for thinking, signature in cases:
            for event in (TextDelta("Hi"), ToolCallStarted(0, "c", "ls"), ReplyFinished("end")):
                reply = [ThinkingDone(thinking), event, ReplyFinished("end")]
                (first, *_) = parse_stream(b"".join(write_events("gemini", reply)))
                (part,) = first["candidates"][0]["content"]["parts"]
                assert part.get("thoughtSignature") == signature
                whole = json.loads(WHOLE["gemini"](reply, GLANCE, "r1", 17))
                parts = whole["candidates"][0]["content"]["parts"]
                assert [part.get("thoughtSignature") for part in parts] in (
                    [[signature]] if parts else [[]]
                )

    def test_an_error_is_reported_as_the_vendor_s(self):
        (error,) = parse_stream(
            b"".join(write_events("gemini", [SupplierError("rate_limit", "Slow")]))
        )
        assert error == {"error": {"code": 429, "message": "Slow", "status": "RESOURCE_EXHAUSTED"}}


class TestResponses:
    def test_the_events_have_their_order_and_numbers(self):
        events = parse_stream(b"".join(write_events("openai-responses", LOOK)))
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        short = [event["type"].removeprefix("response.") for event in events]
        assert short[:9] == [
            "created",
            "in_progress",
            "output_item.added",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "output_item.done",
        ]
        assert short[9:16] == [
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
        ]
        called = ["output_item.added", *["function_call_arguments.delta"] * 2]
        called += ["function_call_arguments.done", "output_item.done"]
        assert short[16:] == [*called, *called, "completed"]

    def test_the_last_event_holds_what_the_others_reported(self):
        events = parse_stream(b"".join(write_events("openai-responses", LOOK)))
        whole = json.loads(WHOLE["openai-responses"](LOOK, GLANCE, "r1", 17))
        done = [e["item"] for e in events if e["type"] == "response.output_item.done"]
        added = [e["item"] for e in events if e["type"] == "response.output_item.added"]
        assert events[-1]["response"] == whole
        assert whole["output"] == done
        assert [item["id"] for item in added] == [item["id"] for item in done]
        assert len({item["id"] for item in done}) == 4
        assert whole["usage"]["total_tokens"] == 42
        assert whole["usage"]["input_tokens_details"]["cached_tokens"] == 20

    def test_what_was_sealed_by_openai_goes_on(self):
        sealed = Thinking("openai-responses", sealed='{"type":"reasoning","encrypted_content":"g"}')
        (event,) = [
            e
            for e in parse_stream(
                b"".join(write_events("openai-responses", [ThinkingDone(sealed)]))
            )
            if e["type"] == "response.output_item.done"
        ]
        assert event["item"]["encrypted_content"] == "g"
        assert event["item"]["summary"] == []

    def test_a_failure_holds_what_there_was_and_the_reason(self):
        failed = [*LOOK[:8], SupplierError("context_too_long", "Too long")]
        last = parse_stream(b"".join(write_events("openai-responses", failed)))[-1]
        assert last["type"] == "response.failed"
        assert last["response"]["status"] == "failed"
        assert last["response"]["error"] == {
            "code": "context_length_exceeded",
            "message": "Too long",
        }
        assert [item["type"] for item in last["response"]["output"]] == ["reasoning", "message"]
        again = read_pieces("openai-responses", write_events("openai-responses", failed))
        assert again[-1] == SupplierError("context_too_long", "Too long")


def write_chat(events, glance=GLANCE):
    return b"".join(write_events("openai-chat", events, glance))


def test_usage_survives_the_way_through_each_dialect():
    usage = Usage(input=1, cache_read=2, cache_write=3, output=5, reasoning=4)
    for dialect in WRITERS:
        again = read_pieces(
            dialect, write_events(dialect, [UsageUpdated(usage), ReplyFinished("end")])
        )
        last = [event.usage for event in again if isinstance(event, UsageUpdated)][-1]
        assert last.total_input == 6
        written = 0 if dialect == "gemini" else 3  # which does not tell
        assert (last.cache_read, last.cache_write, last.total_output) == (2, written, 9)
