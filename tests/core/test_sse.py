"""Server-sent events: what is written is read, however it was split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import TooLarge
from agentd.core.sse import (
    ServerSentEvent,
    SseReader,
    encode_event,
    encode_id,
    encode_json_event,
    encode_retry,
)
from tests.support.splitting import split

COMMENT = b":\n\n"
LINE = st.text().filter(lambda text: not set(text) & {"\r", "\n", "\0"} and text.isprintable())


def split_bytes(stream):
    return [stream[at : at + 1] for at in range(len(stream))]


def feed_reader(pieces, limit=1 << 20):
    reader, found = SseReader(limit), []
    try:
        for piece in pieces:
            for received in reader.feed(piece):
                found.append(received)
    except TooLarge:
        return found, "too large"
    return found, (reader.last_id, reader.retry)


def test_what_is_written():
    assert encode_event("{}") == b"data: {}\n\n"
    assert encode_event("{}", "messageUpdate", 7) == b"id: 7\nevent: messageUpdate\ndata: {}\n\n"
    assert encode_event("a\r\nb\rc\n") == b"data: a\ndata: b\ndata: c\ndata: \n\n"
    assert encode_retry(2.5) == b"retry: 2500\n\n"
    assert encode_id("7.0") == b"id: 7.0\n\n"
    assert encode_json_event(b'["a\\n"]', "x", "7") == encode_event('["a\\n"]', "x", "7")
    assert encode_json_event(b"[]", "x") == encode_event("[]", "x")


@pytest.mark.parametrize("wrong", [{"name": "a\nb"}, {"id": "a\rb"}, {"id": "a\0"}])
def test_a_field_cannot_smuggle_in_another(wrong):
    with pytest.raises(ValueError, match=r"line break|NUL"):
        encode_event("x", **wrong)


@given(st.lists(st.tuples(LINE, LINE, st.text())), st.data())
def test_every_split_gives_back_what_was_written(result, data):
    stream = encode_retry(3) + COMMENT
    for name, key, text in result:
        stream += b": still here\n\n" + encode_event(text, name, key)
    expected = [
        ServerSentEvent(name or "message", text.replace("\r\n", "\n").replace("\r", "\n"), key)
        for name, key, text in result
    ]
    assert feed_reader(split(stream, data)) == (expected, (result[-1][1] if result else "", 3.0))


FIELDS = st.sampled_from(
    [b"data", b"data:", b": x", b"id:", b"id", b"event: e", b"retry: 10", b"\xef\xbb\xbf", b"\0"]
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n", b""])
NOISE = st.lists(FIELDS | ENDS | st.binary(max_size=4)).map(b"".join)


@given(NOISE, st.data())
def test_every_split_of_anything_reads_the_same(stream, data):
    assert feed_reader(split(stream, data), 20) == feed_reader([stream], 20)
    assert feed_reader(split_bytes(stream), 20) == feed_reader([stream], 20)


def test_a_stream_is_read_as_the_standard_says():
    stream = (
        b"\xef\xbb\xbfdata: first\r\rdata:  two\ndata\ndata:\r\n\r\n: comment\nid: 5\n\n"
        b"event: named\ndata: x\n\ndata:y\nid\n\nid: a\0b\nretry: 1x\nodd: z\n"
        b"data: \xff\n\ndata: cut"
    )
    assert feed_reader([stream]) == (
        [
            ServerSentEvent("message", "first", ""),
            ServerSentEvent("message", " two\n\n", ""),
            ServerSentEvent("named", "x", "5"),
            ServerSentEvent("message", "y", ""),
            ServerSentEvent("message", "\ufffd", ""),
        ],
        ("", None),
    )


def test_an_event_that_broke_off_was_not_seen():
    """A client that comes back with its id would never receive it."""
    assert feed_reader([encode_event("seen", id=1) + b"id: 2\ndata: half"])[1] == ("1", None)
    assert feed_reader([encode_event("seen", id=1) + b"id: 2\ndata: whole\n\n"])[1] == ("2", None)


def test_a_mark_moves_the_place_and_is_no_event():
    assert feed_reader([encode_event("seen", id=1) + encode_id("2.0")]) == (
        [ServerSentEvent("message", "seen", "1")],
        ("2.0", None),
    )


def test_a_line_end_that_is_split_is_one():
    assert feed_reader([b"data: x\r", b"", b"\ndata: y\r", b"\n\r", b"\n"]) == (
        [ServerSentEvent("message", "x\ny", "")],
        ("", None),
    )


def test_an_event_is_read_as_soon_as_it_is_whole():
    reader = SseReader()
    assert list(reader.feed(b"data: x\r\n\r")) == [ServerSentEvent("message", "x", "")]
    assert list(reader.feed(b"\ndata: y\n\n")) == [ServerSentEvent("message", "y", "")]


@pytest.mark.parametrize("stream", [b"data: " + b"x" * 100, b"data: xxxx\n" * 12, b":" + b"x" * 99])
def test_an_event_without_end_is_not_kept(stream):
    assert feed_reader([stream], 64) == ([], "too large")
    assert feed_reader(split_bytes(stream), 64) == ([], "too large")


def test_comments_for_ever_are_no_event():
    assert feed_reader([COMMENT * 100], 64)[1] == ("", None)
    assert feed_reader([b": x\n" * 100], 64)[1] == ("", None)
