"""Text that a supplier cut between the two halves of a character arrives whole."""

import json
import tracemalloc

import pytest

from agentd.llm.conversation import ReplyFinished, TextDelta, ToolCallDone, UsageUpdated
from agentd.llm.dialects.callers import CALLERS
from agentd.llm.dialects.dialect import DIALECTS
from agentd.llm.dialects.half_characters import MOST_HALVES, HalfCharacterDecoder
from agentd.llm.price import Usage
from tests.llm.dialects.streams import build_gemini_piece, encode_chunks
from tests.supplier.frames import encode_named_event

GRIN = "\N{GRINNING FACE}"
FIRST, SECOND = "\ud83d", "\ude00"
REPLACED = "\N{REPLACEMENT CHARACTER}"
COUNTS = {"prompt_tokens": 7, "completion_tokens": 5}


def encode_named_events(*events):
    return b"".join(map(encode_named_event, events))


def stream_chat(*pieces):
    says = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    return encode_chunks(*says, {"choices": [{"delta": {}, "finish_reason": "stop"}]})


def stream_anthropic(*pieces):
    grows = [{"type": "text_delta", "text": piece} for piece in pieces]
    return encode_named_events(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in grows),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_stop"},
    )


def stream_responses(*pieces):
    grows = [{"type": "response.output_text.delta", "delta": piece} for piece in pieces]
    done = {"type": "response.completed", "response": {"status": "completed", "output": []}}
    return encode_named_events(*grows, done)


def stream_gemini(*pieces):
    says = [build_gemini_piece([{"text": piece}]) for piece in pieces]
    return encode_chunks(*says, build_gemini_piece([], finishReason="STOP"))


STREAMS = {
    "openai-chat": stream_chat,
    "openai-responses": stream_responses,
    "anthropic": stream_anthropic,
    "gemini": stream_gemini,
}
EACH = pytest.mark.parametrize("dialect", STREAMS)


def read_text(dialect, *pieces):
    reader = DIALECTS[dialect].create_reader()
    events = [*reader.feed(STREAMS[dialect](*pieces)), *reader.close()]
    assert isinstance(events[-1], ReplyFinished), events
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@EACH
def test_halves_in_two_pieces_are_one_character(dialect):
    assert read_text(dialect, f"a{FIRST}", f"{SECOND}b", "c") == f"a{GRIN}bc"
    assert read_text(dialect, FIRST, SECOND, FIRST, SECOND) == GRIN * 2


@EACH
def test_a_half_without_the_other_is_replaced_or_left_out(dialect):
    assert read_text(dialect, f"a{SECOND}b", f"{FIRST}c{GRIN}") == f"a{REPLACED}b{REPLACED}c{GRIN}"
    assert read_text(dialect, f"a{FIRST}", "b") == "ab"


def test_arguments_are_as_whole():
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": f'{{"a":"{FIRST}'}}
    rest = {"index": 0, "function": {"arguments": f'{SECOND}"}}'}}
    deltas = [{"choices": [{"delta": {"tool_calls": [one]}}]} for one in (call, rest)]
    end = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    reader = DIALECTS["openai-chat"].create_reader()
    events = [*reader.feed(encode_chunks(*deltas, end)), *reader.close()]
    (done,) = [event for event in events if isinstance(event, ToolCallDone)]
    assert done.call.arguments == f'{{"a":"{GRIN}"}}'


def test_a_whole_reply_that_ends_with_a_half_is_read():
    message = {"role": "assistant", "content": f"Hi {FIRST}"}
    body = json.dumps(
        {"choices": [{"message": message, "finish_reason": "length"}], "usage": COUNTS}
    ).encode()
    events = DIALECTS["openai-chat"].parse_response(body)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hi "]
    assert events[-1] == ReplyFinished("length")
    assert UsageUpdated(Usage(input=7, output=5)) in events
    assert CALLERS["openai-chat"].read_usage(body) == Usage(input=7, output=5)
    said = {
        "type": "message",
        "content": [{"type": "text", "text": FIRST}],
        "stop_reason": "end_turn",
    }
    assert DIALECTS["anthropic"].parse_response(json.dumps(said).encode())[-1] == ReplyFinished(
        "end"
    )


def test_halves_in_what_is_nested_deep_take_little_memory() -> None:
    depth = 300
    body = b"[" * depth + rb'"\ud83d",' * 50_000 + b"0" + b"]" * depth
    tracemalloc.start()
    HalfCharacterDecoder().decode(body)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 40 * len(body)


def test_of_many_cut_texts_the_first_ones_are_remembered() -> None:
    halves = HalfCharacterDecoder()
    halves.decode(b"[%b0]" % (rb'"\ud83d",' * (MOST_HALVES + 1)))
    found = halves.decode(b"[%b0]" % (rb'"\ude00",' * (MOST_HALVES + 1)))
    assert found == [GRIN] * MOST_HALVES + [REPLACED, 0]
