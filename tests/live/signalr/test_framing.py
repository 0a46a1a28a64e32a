"""RecordReader are cut the same however they were split, and frames are what RFC 6455 says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import TooLarge
from agentd.live.signalr.framing import (
    RECORD_LIMIT,
    RecordReader,
    encode_stream_event,
    encode_text_frame,
)
from tests.support.splitting import split


def feed_reader(pieces):
    """Return all records, and whether reading ended in an error."""
    reader, found = RecordReader(), []
    try:
        for piece in pieces:
            for record in reader.feed(piece):
                found.append(record)
    except TooLarge:
        return found, True
    return found, False


@given(st.lists(st.binary(max_size=40).filter(lambda record: b"\x1e" not in record)), st.data())
def test_every_split_gives_the_same_records(records, data):
    stream = b"".join(record + b"\x1e" for record in records)
    assert feed_reader(split(stream, data)) == (records, False)


@pytest.mark.parametrize("size", [RECORD_LIMIT, RECORD_LIMIT + 1])
@pytest.mark.parametrize("step", [RECORD_LIMIT * 2, 1000, RECORD_LIMIT - 1])
def test_a_record_over_32_kib_ends_it_after_those_before(size, step):
    stream = b"a\x1e" + b"x" * size + b"\x1eb\x1e"
    found, failed = feed_reader(stream[at : at + step] for at in range(0, len(stream), step))
    assert failed == (size > RECORD_LIMIT)
    assert found == ([b"a"] if failed else [b"a", b"x" * size, b"b"])


def test_an_endless_record_is_not_kept():
    assert feed_reader(b"x" * 1000 for _ in range(34)) == ([], True)


@pytest.mark.parametrize(
    ("size", "header"),
    [
        (0, b"\x81\x00"),
        (125, b"\x81\x7d"),
        (126, b"\x81\x7e\x00\x7e"),
        (65535, b"\x81\x7e\xff\xff"),
        (65536, b"\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00"),
    ],
)
def test_a_frame_is_final_text_unmasked_with_the_shortest_length(size, header):
    assert encode_text_frame(b"x" * size) == header + b"x" * size


def test_a_stream_unit_is_one_data_line():
    assert encode_stream_event(b'{"type":6}\x1e') == b'data: {"type":6}\x1e\r\n\r\n'
