"""A stream that is passed on stays as it is, and what it tells is known, whatever the split."""

import json
import timeit
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.llm.conversation import ReplyFinished, SupplierError, UsageUpdated
from agentd.llm.dialects import stream_observers
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.dialect import DIALECTS
from agentd.llm.dialects.stream_reader import EVENT_LIMIT
from agentd.llm.price import Usage
from tests.llm.dialects.replies import LOOK, WRITERS, draw_reply
from tests.llm.dialects.streams import (
    CHAT_CALL,
    READ,
    build_gemini_piece,
    encode_chunks,
    encode_named_events,
)
from tests.support.splitting import list_split_places, split

ASKED = RequestSummary("m", stream=True)
UNASKED = RequestSummary("m", stream=True, wants_usage=False)

TAPS = {
    "openai-chat": stream_observers.observe_chat,
    "openai-responses": stream_observers.observe_responses,
    "anthropic": stream_observers.observe_anthropic,
    "gemini": stream_observers.observe_gemini,
}
EACH = pytest.mark.parametrize("dialect", TAPS)


def observe(dialect, pieces, glance=ASKED, *, close=True):
    """Return the bytes that are passed on, and the observer afterwards."""
    tap = TAPS[dialect](glance)
    passed = b"".join([tap.feed(piece) for piece in pieces])
    return (passed + tap.close() if close else passed), tap


def read_usage_and_end(dialect, stream):
    """Return usage and end from the reader of the dialect, which decodes everything."""
    reader = DIALECTS[dialect].create_reader()
    events = [*reader.feed(stream), *reader.close()]
    usages = [event.usage for event in events if isinstance(event, UsageUpdated)]
    return (usages or [None])[-1], events[-1]


def write_reply(dialect, reply):
    writer = WRITERS[dialect](ASKED)
    return b"".join(map(writer.write, reply))


def replace_line_ends(stream, ends):
    return stream.replace(b"\n", ends)


@EACH
@given(reply=draw_reply(), data=st.data(), ends=st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_nothing_is_changed_and_all_is_known_for_every_split(dialect, reply, data, ends):
    stream = replace_line_ends(write_reply(dialect, reply), ends)
    passed, tap = observe(dialect, split(stream, data))
    usage, end = read_usage_and_end(dialect, stream)
    assert passed == stream
    assert tap.usage == usage
    if (
        isinstance(end, ReplyFinished)
        and end.reason == "tool_calls"
        and dialect != "openai-responses"
    ):
        assert isinstance(tap.end, ReplyFinished)  # calls are not looked for
    else:
        assert tap.end == end


@pytest.mark.parametrize(("dialect", "stream", "events"), READ.values(), ids=READ)
def test_recorded_streams_are_known_cut_at_every_byte(dialect, stream, events):
    usages = [event.usage for event in events if isinstance(event, UsageUpdated)] or [None]
    for at in list_split_places(stream):
        passed, tap = observe(dialect, [stream[:at], stream[at:]])
        assert (passed, tap.usage, tap.end) == (stream, usages[-1], events[-1])


@EACH
def test_whole_events_are_never_held_back_from_a_client_that_asked(dialect):
    stream = write_reply(dialect, LOOK)
    tap = TAPS[dialect](ASKED)
    passed = b""
    for at in range(0, len(stream), 7):
        passed += tap.feed(stream[at : at + 7])
        whole = stream[: at + 7].rfind(b"\n\n")
        assert passed == (stream[: whole + 2] if whole >= 0 else b"")
    assert passed == stream


@EACH
def test_the_end_is_known_before_the_piece_that_shows_it_is_passed_on(dialect):
    stream = write_reply(dialect, LOOK)
    for size in (1, 13, len(stream)):
        tap = TAPS[dialect](ASKED)
        passed = b""
        for at in range(0, len(stream), size):
            assert tap.end is None
            piece = tap.feed(stream[at : at + size])
            if tap.end is None:
                passed += piece
        assert isinstance(tap.end, ReplyFinished)
        assert tap.usage is not None
        assert not any(isinstance(event, ReplyFinished) for event in read_events(dialect, passed))


def read_events(dialect, stream):
    return DIALECTS[dialect].create_reader().feed(stream)


@given(reply=draw_reply(), data=st.data(), ends=st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_the_chunk_that_was_not_asked_for_is_dropped_and_nothing_else(reply, data, ends):
    stream = replace_line_ends(write_reply("openai-chat", reply), ends)
    passed, tap = observe("openai-chat", split(stream, data), UNASKED)
    kept = [event for event in stream.split(ends * 2) if b'"choices":[],"usage":{' not in event]
    assert passed == (ends * 2).join(kept)
    assert tap.usage == read_usage_and_end("openai-chat", stream)[0]


def test_usage_beside_a_choice_is_kept():
    stream = CHAT_CALL.replace(
        b'"finish_reason":"tool_calls"}],"usage":null',
        b'"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":7}',
    )
    passed, tap = observe("openai-chat", [stream], UNASKED)
    assert b'{"prompt_tokens":7}' in passed
    assert b'"choices":[]' not in passed
    assert tap.usage == Usage(input=10, cache_read=20, output=9)


def test_an_event_is_given_at_once_when_it_is_whole_and_a_giant_one_before():
    tap = stream_observers.observe_chat(UNASKED)
    chunk = encode_chunks({"choices": [{"delta": {"content": "x"}}]})
    assert tap.feed(chunk + chunk[:9]) == chunk
    assert tap.feed(chunk[9:]) == chunk
    say_in_one_event = encode_chunks({"choices": [{"delta": {"content": "x" * 200_000}}]})
    assert tap.feed(say_in_one_event[:100_000]) == say_in_one_event[:100_000]
    assert tap.feed(say_in_one_event[100_000:110_000]) == say_in_one_event[100_000:110_000]
    assert tap.feed(say_in_one_event[110_000:] + chunk) == say_in_one_event[110_000:] + chunk
    assert tap.end is None


def test_what_was_passed_on_in_part_is_passed_on_whole():
    usage = encode_chunks({"choices": [], "usage": {"prompt_tokens": 7}, "padding": "x" * 100_000})
    passed, tap = observe("openai-chat", [usage[:90_000], usage[90_000:]], UNASKED)
    assert passed == usage
    assert tap.usage == Usage(input=7)
    assert observe("openai-chat", [usage], UNASKED)[0] == b""


def test_what_a_model_writes_is_no_field():
    words = 'data: {"usage":{"prompt_tokens":1}} [DONE] "type":"error" response.completed'
    for dialect in TAPS:
        reply = [type(LOOK[4])(words), UsageUpdated(Usage(input=3)), ReplyFinished("end")]
        stream = write_reply(dialect, reply)
        passed, tap = observe(dialect, [stream[:-1], stream[-1:]])
        assert (passed, tap.end) == (stream, ReplyFinished("end"))
        assert tap.usage == Usage(input=3)


@EACH
def test_a_stream_that_breaks_off_is_broken(dialect):
    stream = write_reply(dialect, LOOK)
    for cut in range(0, stream.rindex(b"data: ") - 250, 50):
        passed, tap = observe(dialect, [stream[:cut]])
        assert passed == stream[:cut]
        if not (dialect == "openai-chat" and b'"finish_reason":"' in passed):
            assert isinstance(tap.end, SupplierError)
            assert tap.end.kind == "broken"


@EACH
def test_an_error_within_the_stream_is_its_end(dialect):
    start = write_reply(dialect, LOOK[:6])
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Later"}}
    tap = TAPS[dialect](ASKED)
    stream = start + (
        encode_named_events(error) if dialect != "openai-chat" else encode_chunks(error)
    )
    assert tap.feed(stream) == stream
    assert tap.end == SupplierError("overloaded", "Later")
    assert tap.close() == b""


@EACH
def test_after_the_end_all_is_passed_on_and_nothing_received(dialect):
    stream = write_reply(dialect, LOOK)
    passed, tap = observe(dialect, [stream, stream[:50], stream[50:], b"rubbish"])
    assert passed == stream + stream + b"rubbish"
    assert isinstance(tap.end, ReplyFinished)


def test_what_a_call_of_gemini_s_is_given_is_no_field():
    given = {"finishReason": "STOP", "usageMetadata": {"promptTokenCount": 7}, "error": {"a": 1}}
    call = build_gemini_piece([{"functionCall": {"name": "ls", "args": given}}])
    result = build_gemini_piece([], usageMetadata={"promptTokenCount": 3})
    stream = encode_chunks(call, result, result)
    passed, tap = observe("gemini", [stream], close=False)
    assert (passed, tap.usage, tap.end) == (stream, Usage(input=3), None)
    last = encode_chunks(
        build_gemini_piece([], finishReason="STOP", usageMetadata={"promptTokenCount": 4})
    )
    assert tap.feed(last) == last
    assert (tap.usage, tap.end) == (Usage(input=4), ReplyFinished("end"))


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER"])
def test_a_reply_of_gemini_s_that_its_caller_is_told_the_end_of_has_ended(reason):
    counts = {"promptTokenCount": 7, "thoughtsTokenCount": 5, "totalTokenCount": 12}
    stream = encode_chunks(build_gemini_piece([], finishReason=reason, usageMetadata=counts))
    passed, tap = observe("gemini", [stream])
    assert (passed, tap.usage) == (stream, Usage(input=7, reasoning=5))
    assert tap.end == ReplyFinished("refused")


@EACH
@given(st.lists(st.binary(max_size=40), max_size=5))
def test_rubbish_is_passed_on(dialect, pieces):
    passed, tap = observe(dialect, pieces, UNASKED)
    assert passed == b"".join(pieces)
    assert isinstance(tap.end, SupplierError)


def test_a_picture_of_many_megabytes_is_no_endless_event():
    part = {"inlineData": {"mimeType": "image/png", "data": "A" * 24 * 2**20}}
    counts = {"promptTokenCount": 7, "candidatesTokenCount": 2000, "totalTokenCount": 2007}
    shown = build_gemini_piece([part], finishReason="STOP", usageMetadata=counts)
    stream = encode_chunks(shown)
    pieces = [stream[at : at + 2**18] for at in range(0, len(stream), 2**18)]
    passed, tap = observe("gemini", pieces, close=False)
    assert passed == stream
    assert (tap.usage, tap.end) == (Usage(input=7, output=2000), ReplyFinished("end"))


@EACH
def test_an_endless_event_makes_deaf_and_is_passed_on(dialect):
    piece = b"data: " + b"x" * (EVENT_LIMIT // 4)
    passed, tap = observe(dialect, [piece] * 6, UNASKED, close=False)
    assert passed == piece * 6
    assert isinstance(tap.end, SupplierError)
    assert tap.end.kind == "garbled"


@EACH
def test_a_piece_of_text_costs_little(dialect):
    body = json.dumps("the next word ")
    event = {
        "openai-chat": b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,'
        b'"model":"gpt-5-mini","choices":[{"index":0,"delta":{"content":%b},"finish_reason":null}]'
        b',"usage":null}\n\n',
        "openai-responses": b'event: response.output_text.delta\ndata: {"type":"response.output_'
        b'text.delta","sequence_number":7,"item_id":"msg_1","output_index":0,"content_index":0,'
        b'"delta":%b,"logprobs":[]}\n\n',
        "anthropic": b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"text_delta","text":%b}}\n\n',
        "gemini": b'data: {"candidates":[{"content":{"parts":[{"text":%b}],"role":"model"},'
        b'"index":0}],"usageMetadata":{"promptTokenCount":9,"totalTokenCount":9},'
        b'"modelVersion":"gemini-3-pro","responseId":"r1"}\n\n',
    }[dialect] % body.encode()
    tap = TAPS[dialect](UNASKED)
    rounds = 2_000
    times = timeit.repeat(lambda: tap.feed(event), timer=process_time, number=rounds)
    assert min(times) / rounds < 100e-6  # some 2 µs on a quiet machine
