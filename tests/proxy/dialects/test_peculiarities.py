"""What suppliers do differently from the books is understood."""

import json

import pytest

from agentd.proxy.dialects import anthropic, openai_chat, openai_responses
from agentd.proxy.dialects.conversation import (
    CallDone,
    Finished,
    SupplierError,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ThinkingDone,
    ToolCall,
    UsageSeen,
)
from agentd.proxy.price import Usage
from tests.proxy.dialects.streams import RESPONSE, chunks, named


def delta(finish=None, **said):
    return {"id": "c", "choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


def call(id=None, name=None, arguments="", **more):  # noqa: A002
    return {"id": id, "function": {"name": name, "arguments": arguments}, **more}


def read(*events, dialect=openai_chat, stream=None):
    reader = dialect.reader()
    told = reader.feed((stream or chunks)(*events)) + reader.close()
    return [event for event in told if type(event).__name__ not in ("Started", "CallStarted")]


def calls(*fragments):
    told = read(*(delta(tool_calls=[fragment]) for fragment in fragments), delta("tool_calls"))
    return [event.call for event in told if isinstance(event, CallDone)]


def test_usage_on_a_chunk_with_choices_and_none_at_all():
    counted = delta("stop") | {"usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    assert read(delta(content="a"), counted) == [
        TextDelta("a"),
        UsageSeen(Usage(input=3, output=2)),
        Finished("end"),
    ]
    assert read(delta(content="a"), delta("stop")) == [TextDelta("a"), Finished("end")]


def test_calls_are_trusted_more_than_the_finish_reason():
    told = read(delta(tool_calls=[call("a", "ls", "{}", index=0)]), delta("stop"))
    assert told[-1] == Finished("tool_calls")
    cut = read(delta(tool_calls=[call("a", "ls", '{"p', index=0)]), delta("length"))
    assert cut[-1] == Finished("length")


def test_fragments_of_several_calls_may_be_mixed():
    assert calls(
        call("a", "ls", '{"', index=0),
        call("b", "cat", "{", index=1),
        call(arguments='p":1}', index=0),
        call(arguments="}", index=1),
    ) == [ToolCall("a", "ls", '{"p":1}'), ToolCall("b", "cat", "{}")]


def test_calls_that_are_all_counted_as_the_first_are_told_apart_by_their_ids():
    assert calls(call("a", "ls", "{}", index=0), call("b", "ls", "{}", index=0)) == [
        ToolCall("a", "ls", "{}"),
        ToolCall("b", "ls", "{}"),
    ]


def test_an_id_and_name_repeated_in_each_fragment_are_one_call():
    assert calls(call("a", "ls", '{"p":', index=0), call("a", "ls", "1}", index=0)) == [
        ToolCall("a", "ls", '{"p":1}')
    ]


def test_calls_without_index_id_or_text():
    told = read(
        delta("tool_calls", tool_calls=[call(name="ls", arguments={"p": 1}), call(name="ls")])
    )
    first, second = (event.call for event in told if isinstance(event, CallDone))
    assert (first.arguments, second.arguments) == ('{"p":1}', "{}")
    assert first.id != second.id
    assert first.id.startswith("call_")
    other = read(delta("tool_calls", tool_calls=[call(name="ls")]) | {"id": "d"})
    assert other[0].call.id != first.id


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_thinking_in_the_dialects_dialects(name):
    assert read(delta(**{name: "H"}), delta(**{name: "m"}), delta("stop", content="Yes")) == [
        ThinkingDelta("H"),
        ThinkingDelta("m"),
        ThinkingDone(Thinking("openai-chat", "Hm")),
        TextDelta("Yes"),
        Finished("end"),
    ]


def test_content_in_parts():
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]
    told = read(delta(content=parts), delta("stop", content=[{"type": "text", "text": "Yes"}]))
    assert told[0] == ThinkingDelta("Hm")
    assert TextDelta("Yes") in told


def test_a_refusal_is_text_and_an_end_of_its_own():
    assert read(delta(refusal="No"), delta("stop")) == [TextDelta("No"), Finished("refused")]
    assert read(delta("content_filter"))[-1] == Finished("refused")


def test_done_without_a_finish_reason_is_no_sound_end():
    told = openai_chat.reader().feed(chunks(delta(content="a")) + b"data: [DONE]\n\n")
    assert isinstance(told[-1], SupplierError)
    assert told[-1].kind == "broken"


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
    assert read(*end, dialect=anthropic, stream=named) == [Finished(stop)]


def test_an_anthropic_call_that_is_whole_from_its_start_and_never_closed():
    block = {"type": "tool_use", "id": "a", "name": "ls", "input": {"p": 1}}
    told = read(
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "message_stop"},
        dialect=anthropic,
        stream=named,
    )
    assert told[-2:] == [CallDone(0, ToolCall("a", "ls", '{"p":1}')), Finished("tool_calls")]


@pytest.mark.parametrize(
    ("change", "end"),
    [
        ({"incomplete_details": {"reason": "max_output_tokens"}}, Finished("length")),
        ({"incomplete_details": {"reason": "content_filter"}}, Finished("refused")),
    ],
)
def test_an_incomplete_response_says_why(change, end):
    body = RESPONSE | {"status": "incomplete"} | change
    assert openai_responses.answer(json.dumps(body).encode())[-1] == end


def test_a_failed_response_says_why():
    error = {"code": "rate_limit_exceeded", "message": "Please try again in 2s."}
    failed = {"type": "response.failed", "response": {"status": "failed", "error": error}}
    told = read(failed, dialect=openai_responses, stream=named)
    assert told == [SupplierError("rate_limit", "Please try again in 2s.", 2.0)]
    flat = {"type": "error", "code": "server_error", "message": "Oh", "param": None}
    assert read(flat, dialect=openai_responses, stream=named) == [SupplierError("server", "Oh")]


def test_a_response_whose_pieces_did_not_come_is_read_from_its_items():
    done = {"type": "response.completed", "response": RESPONSE}
    told = read(done, dialect=openai_responses, stream=named)
    assert [event.text for event in told if isinstance(event, TextDelta)] == ["I look."]
    assert told[-1] == Finished("tool_calls")


def test_reasoning_that_only_its_supplier_could_find_again_is_not_sent_back():
    item = {"type": "reasoning", "id": "rs_1", "summary": [{"text": "a"}, {"text": "b"}]}
    body = RESPONSE | {"output": [item]}
    (done,) = (
        event
        for event in openai_responses.answer(json.dumps(body).encode())
        if isinstance(event, ThinkingDone)
    )
    assert done.thinking == Thinking("openai-responses", "a\n\nb")
