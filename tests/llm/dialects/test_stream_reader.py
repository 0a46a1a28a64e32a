"""An answer is read the same however it was split, and its end is always told, once."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.llm.conversation import ReplyFinished, SupplierError, TextDelta
from agentd.llm.dialects.dialect import DIALECTS
from agentd.llm.dialects.openai_chat.upstream import _ReplyParser
from agentd.llm.dialects.stream_reader import StreamReader, get_number
from tests.llm.dialects.streams import (
    CHAT_CALL,
    COMPLETION,
    GEMINI,
    MESSAGE,
    READ,
    RESPONSE,
    encode_chunks,
)
from tests.support.processor import busy_for_less_than
from tests.support.splitting import list_split_places, split

STREAMS = pytest.mark.parametrize(("dialect", "stream", "events"), READ.values(), ids=READ)

ENDED = {name: row for name, row in READ.items() if row[0] != "gemini"}
"""Those whose end is told by themselves; Gemini's is told by closing."""

ENDED_STREAMS = pytest.mark.parametrize(("dialect", "stream", "events"), ENDED.values(), ids=ENDED)


def read_pieces(dialect, pieces, *, close=True):
    reader = DIALECTS[dialect].create_reader()
    events = [event for piece in pieces for event in reader.feed(piece)]
    return events + (reader.close() if close else [])


@STREAMS
def test_a_stream_is_read_whole_and_cut_at_every_byte(dialect, stream, events):
    assert read_pieces(dialect, [stream]) == events
    for at in list_split_places(stream):
        assert read_pieces(dialect, [stream[:at], stream[at:]]) == events


@ENDED_STREAMS
def test_the_end_is_reported_by_the_stream_itself(dialect, stream, events):
    assert read_pieces(dialect, [stream], close=False) == events


@given(data=st.data(), name=st.sampled_from(list(READ)), crlf=st.booleans())
def test_every_split_gives_the_same_events(data, name, crlf):
    dialect, stream, events = READ[name]
    if crlf:
        stream = stream.replace(b"\n", b"\r\n")
    assert read_pieces(dialect, split(stream, data)) == events


@STREAMS
def test_comments_pings_and_unknown_events_are_passed_over(dialect, stream, events):
    noise = b': keep-alive\n\nevent: novelty\ndata: {"type":"novelty","index":[],"choices":7}\n\n'
    noisy = stream.replace(b"\n\n", b"\n\n" + noise)
    if dialect in ("openai-chat", "gemini"):  # what is first told begins the reply
        assert read_pieces(dialect, [noisy])[1:] == events[1:]
    else:
        assert read_pieces(dialect, [noise + noisy]) == events


@STREAMS
def test_a_stream_without_its_end_is_broken(dialect, stream, events):
    last = stream.rstrip().rfind(b"\n\n")
    if dialect == "openai-chat":  # the finish reason tells the end already
        last = stream.index(b'data: {"id":"c1"', stream.index(b"{\\"))
    for cut in range(0, last + 2, 7):
        result = read_pieces(dialect, [stream[:cut]])
        assert isinstance(result[-1], SupplierError)
        assert result[-1].kind == "broken"
        assert result[:-1] == events[: len(result) - 1]


@ENDED_STREAMS
def test_after_the_end_nothing_is_reported(dialect, stream, events):
    assert read_pieces(dialect, [stream, stream, b"data: rubbish\n\n"]) == events


@STREAMS
@pytest.mark.parametrize("rubbish", [b"{", b"[]", b"17", b"\xff", b"<html>", b'"text"', b"null"])
def test_what_is_no_json_object_is_garbled(dialect, stream, events, rubbish):
    result = read_pieces(dialect, [b"data: " + rubbish + b"\n\n", stream])
    assert [event.kind for event in result] == ["garbled"]


def test_too_much_at_once_is_garbled():
    for endless in (b"data: " + b"x" * 200, b"data: x\n" * 40):
        reader = StreamReader(_ReplyParser(), limit=100)
        (result,) = reader.feed(endless)
        assert result.kind == "garbled"
        assert "100 bytes" in result.message
        assert reader.feed(CHAT_CALL) == reader.close() == []


JUNK = (
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    "",
    "x",
    [],
    {},
    [None],
    [[]],
    [{}],
    [{"type": 7}],
    {"a": 1},
)


def iter_damaged(value):
    """Yield the value with each of its inner values replaced by junk, or gone, one at a time."""
    yield from JUNK
    if isinstance(value, dict):
        for name, inner in value.items():
            yield {other: kept for other, kept in value.items() if other != name}
            yield from (value | {name: worse} for worse in iter_damaged(inner))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from ([*value[:at], worse, *value[at + 1 :]] for worse in iter_damaged(inner))


@STREAMS
def test_nothing_that_a_supplier_says_breaks_the_reader(dialect, stream, events):
    said = [json.loads(line[6:]) for line in stream.split(b"\n") if line.startswith(b"data: {")]
    for at, event in enumerate(said):
        for worse in iter_damaged(event):
            result = read_pieces(dialect, [encode_chunks(*said[:at], worse, *said[at + 1 :])])
            ends = [event for event in result if isinstance(event, ReplyFinished | SupplierError)]
            assert ends == [result[-1]]


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("openai-chat", COMPLETION),
        ("anthropic", MESSAGE),
        ("openai-responses", RESPONSE),
        ("gemini", GEMINI),
    ],
)
def test_nothing_in_a_whole_answer_breaks_the_reader(dialect, body):
    for worse in iter_damaged(body):
        result = DIALECTS[dialect].parse_response(json.dumps(worse).encode())
        ends = [event for event in result if isinstance(event, ReplyFinished | SupplierError)]
        assert ends == [result[-1]]


@given(st.binary(max_size=60), st.sampled_from(list(DIALECTS)))
def test_any_bytes_as_a_whole_answer_end_in_an_error(body, dialect):
    assert isinstance(DIALECTS[dialect].parse_response(body)[-1], SupplierError)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("event", [{"error": {"type": "overloaded_error", "message": "Later"}}])
def test_an_error_in_the_midst_of_a_stream_ends_it(dialect, event):
    _, stream, events = next(row for row in READ.values() if row[0] == dialect)
    begun = stream[: stream.index(b"\n\n") + 2]
    result = read_pieces(dialect, [begun, encode_chunks({"type": "error", **event}), stream])
    assert result[0] == events[0]
    assert result[-1] == SupplierError("overloaded", "Later")


def test_an_empty_piece_of_text_is_not_reported():
    stream = encode_chunks(
        {"choices": [{"delta": {"content": ""}}]}, {"choices": [{"delta": {"content": "a"}}]}
    )
    assert [e for e in read_pieces("openai-chat", [stream]) if isinstance(e, TextDelta)] == [
        TextDelta("a")
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_nested_too_deep_is_garbled_and_raises_nothing(dialect):
    deep = b'{"candidates":' + b"[" * 100_000
    (streamed,) = read_pieces(dialect, [b"data: " + deep + b"\n\n"], close=False)
    (whole,) = DIALECTS[dialect].parse_response(deep)
    assert isinstance(streamed, SupplierError)
    assert isinstance(whole, SupplierError)
    assert streamed.kind == whole.kind == "garbled"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_json_of_too_many_parts_is_garbled_and_is_not_decoded(dialect):
    many = b'{"candidates":[' + b"[]," * 3_000_000 + b"[]]}"
    with busy_for_less_than(2):
        (streamed,) = read_pieces(dialect, [b"data: " + many + b"\n\n"], close=False)
        (whole,) = DIALECTS[dialect].parse_response(many)
    assert streamed.kind == whole.kind == "garbled"


@pytest.mark.parametrize("value", [True, False, -1, 1.5, "3", None])
def test_only_a_whole_number_from_zero_on_is_a_number(value):
    assert get_number({"index": value}, "index", 7) == 7
    assert get_number({"index": 0}, "index", 7) == 0
