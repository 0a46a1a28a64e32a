"""Suppliers' deviations from their documentation are understood."""

import json

import pytest

from agentd.llm.conversation import (
    ReplyFinished,
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
from agentd.llm.dialects.anthropic import upstream as anthropic_upstream
from agentd.llm.dialects.openai_chat import upstream as openai_chat_upstream
from agentd.llm.dialects.openai_responses import upstream as openai_responses_upstream
from agentd.llm.price import Usage
from tests.llm.dialects.streams import RESPONSE, encode_chunks, encode_named_events


def build_delta(finish=None, **said):
    return {"id": "c", "choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


def build_call(id=None, name=None, arguments="", **more):  # noqa: A002
    return {"id": id, "function": {"name": name, "arguments": arguments}, **more}


def read_events(*events, dialect=openai_chat_upstream, stream=None):
    reader = dialect.create_reader()
    result = reader.feed((stream or encode_chunks)(*events)) + reader.close()
    return [
        event for event in result if type(event).__name__ not in ("ReplyStarted", "ToolCallStarted")
    ]


def read_calls(*fragments):
    result = read_events(
        *(build_delta(tool_calls=[fragment]) for fragment in fragments), build_delta("tool_calls")
    )
    return [event.call for event in result if isinstance(event, ToolCallDone)]


def test_usage_on_a_chunk_with_choices_and_none_at_all():
    counted = build_delta("stop") | {"usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    assert read_events(build_delta(content="a"), counted) == [
        TextDelta("a"),
        UsageUpdated(Usage(input=3, output=2)),
        ReplyFinished("end"),
    ]
    assert read_events(build_delta(content="a"), build_delta("stop")) == [
        TextDelta("a"),
        ReplyFinished("end"),
    ]


def test_calls_are_trusted_more_than_the_finish_reason():
    result = read_events(
        build_delta(tool_calls=[build_call("a", "ls", "{}", index=0)]), build_delta("stop")
    )
    assert result[-1] == ReplyFinished("tool_calls")
    cut = read_events(
        build_delta(tool_calls=[build_call("a", "ls", '{"p', index=0)]), build_delta("length")
    )
    assert cut[-1] == ReplyFinished("length")


def test_fragments_of_several_calls_may_be_mixed():
    assert read_calls(
        build_call("a", "ls", '{"', index=0),
        build_call("b", "cat", "{", index=1),
        build_call(arguments='p":1}', index=0),
        build_call(arguments="}", index=1),
    ) == [ToolCall("a", "ls", '{"p":1}'), ToolCall("b", "cat", "{}")]


def test_calls_that_are_all_counted_as_the_first_are_reported_apart_by_their_ids():
    assert read_calls(
        build_call("a", "ls", "{}", index=0), build_call("b", "ls", "{}", index=0)
    ) == [
        ToolCall("a", "ls", "{}"),
        ToolCall("b", "ls", "{}"),
    ]


def test_an_id_and_name_repeated_in_each_fragment_are_one_call():
    assert read_calls(
        build_call("a", "ls", '{"p":', index=0), build_call("a", "ls", "1}", index=0)
    ) == [ToolCall("a", "ls", '{"p":1}')]


def test_calls_without_index_id_or_text():
    result = read_events(
        build_delta(
            "tool_calls",
            tool_calls=[build_call(name="ls", arguments={"p": 1}), build_call(name="ls")],
        )
    )
    first, second = (event.call for event in result if isinstance(event, ToolCallDone))
    assert (first.arguments, second.arguments) == ('{"p":1}', "{}")
    assert first.id != second.id
    assert first.id.startswith("call_")
    other = read_events(build_delta("tool_calls", tool_calls=[build_call(name="ls")]) | {"id": "d"})
    assert other[0].call.id != first.id


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_thinking_in_the_dialects_dialects(name):
    assert read_events(
        build_delta(**{name: "H"}), build_delta(**{name: "m"}), build_delta("stop", content="Yes")
    ) == [
        ThinkingDelta("H"),
        ThinkingDelta("m"),
        ThinkingDone(Thinking("openai-chat", "Hm")),
        TextDelta("Yes"),
        ReplyFinished("end"),
    ]


def test_thinking_ends_before_the_call_that_follows_it():
    reader = openai_chat_upstream.create_reader()
    call = build_call("c", "ls", index=0)
    events = reader.feed(
        encode_chunks(build_delta(reasoning="Hm"), build_delta("tool_calls", tool_calls=[call]))
    )
    kinds = [type(event) for event in (*events, *reader.close())]
    assert kinds.index(ThinkingDone) < kinds.index(ToolCallStarted)


def test_content_in_parts():
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]
    result = read_events(
        build_delta(content=parts), build_delta("stop", content=[{"type": "text", "text": "Yes"}])
    )
    assert result[0] == ThinkingDelta("Hm")
    assert TextDelta("Yes") in result


def test_a_refusal_is_text_and_an_end_of_its_own():
    assert read_events(build_delta(refusal="No"), build_delta("stop")) == [
        TextDelta("No"),
        ReplyFinished("refused"),
    ]
    assert read_events(build_delta("content_filter"))[-1] == ReplyFinished("refused")


def test_done_without_a_finish_reason_is_no_sound_end():
    result = openai_chat_upstream.create_reader().feed(
        encode_chunks(build_delta(content="a")) + b"data: [DONE]\n\n"
    )
    assert isinstance(result[-1], SupplierError)
    assert result[-1].kind == "broken"


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("pause_turn", "end"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refused"),
        ("tool_use", "tool_calls"),
    ],
)
def test_anthropics_stop_reasons(reason, stop):
    end = [{"type": "message_delta", "delta": {"stop_reason": reason}}, {"type": "message_stop"}]
    assert read_events(*end, dialect=anthropic_upstream, stream=encode_named_events) == [
        ReplyFinished(stop, paused=reason == "pause_turn")
    ]


def test_an_anthropic_call_that_is_whole_from_its_start_and_never_closed():
    block = {"type": "tool_use", "id": "a", "name": "ls", "input": {"p": 1}}
    result = read_events(
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "message_stop"},
        dialect=anthropic_upstream,
        stream=encode_named_events,
    )
    assert result[-2:] == [
        ToolCallDone(0, ToolCall("a", "ls", '{"p":1}')),
        ReplyFinished("tool_calls"),
    ]


@pytest.mark.parametrize(
    ("change", "end"),
    [
        ({"incomplete_details": {"reason": "max_output_tokens"}}, ReplyFinished("length")),
        ({"incomplete_details": {"reason": "content_filter"}}, ReplyFinished("refused")),
    ],
)
def test_an_incomplete_response_says_why(change, end):
    body = RESPONSE | {"status": "incomplete"} | change
    assert openai_responses_upstream.parse_response(json.dumps(body).encode())[-1] == end


def test_a_failed_response_says_why():
    error = {"code": "rate_limit_exceeded", "message": "Please try again in 2s."}
    failed = {"type": "response.failed", "response": {"status": "failed", "error": error}}
    result = read_events(failed, dialect=openai_responses_upstream, stream=encode_named_events)
    assert result == [SupplierError("rate_limit", "Please try again in 2s.", 2.0)]
    flat = {"type": "error", "code": "server_error", "message": "Oh", "param": None}
    assert read_events(flat, dialect=openai_responses_upstream, stream=encode_named_events) == [
        SupplierError("server", "Oh")
    ]


def test_a_response_whose_pieces_did_not_come_is_read_from_its_items():
    done = {"type": "response.completed", "response": RESPONSE}
    result = read_events(done, dialect=openai_responses_upstream, stream=encode_named_events)
    assert [event.text for event in result if isinstance(event, TextDelta)] == ["I look."]
    assert result[-1] == ReplyFinished("tool_calls")


def test_reasoning_that_only_its_supplier_could_find_again_is_not_sent_back():
    item = {"type": "reasoning", "id": "rs_1", "summary": [{"text": "a"}, {"text": "b"}]}
    body = RESPONSE | {"output": [item]}
    thought = [
        event
        for event in openai_responses_upstream.parse_response(json.dumps(body).encode())
        if isinstance(event, ThinkingDelta | ThinkingDone)
    ]
    assert thought == [
        ThinkingDelta("a\n\nb"),
        ThinkingDone(Thinking("openai-responses", "a\n\nb")),
    ]


def test_the_text_of_a_call_is_whole_in_pieces_too_though_it_came_at_once():
    item = {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": 'a "b"\n'}
    body = RESPONSE | {"output": [item]}
    result = openai_responses_upstream.parse_response(json.dumps(body).encode())
    pieces = "".join(event.text for event in result if isinstance(event, ToolCallDelta))
    (done,) = (event.call for event in result if isinstance(event, ToolCallDone))
    assert json.loads(pieces) == json.loads(done.arguments)


def test_a_supplier_without_a_key_is_sent_none():
    assert openai_chat_upstream.build_headers("") == {"content-type": "application/json"}
    assert openai_chat_upstream.build_headers("k")["authorization"] == "Bearer k"
