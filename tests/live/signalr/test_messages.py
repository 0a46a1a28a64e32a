"""The messages that clients send, typed; and the handshake before them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import BadRequest
from agentd.live.signalr.messages import (
    Ack,
    Call,
    Close,
    IgnoredMessage,
    Ping,
    Sequence,
    Unknown,
    parse_handshake,
    parse_message,
)

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def read(**fields):
    return parse_message(json.dumps(fields).encode())


def test_each_type_is_reported_from_the_others():
    call = {"target": "Subscribe", "arguments": ["all"]}
    assert read(type=1, **call) == Call("Subscribe", ["all"], None, stream=False)
    assert read(type=1, invocationId="7", **call).id == "7"
    assert read(type=4, invocationId="7", **call) == Call("Subscribe", ["all"], "7", stream=True)
    assert [read(type=kind, invocationId="7") for kind in (2, 3, 5)] == [IgnoredMessage()] * 3
    assert (read(type=6), read(type=7, error="x")) == (Ping(), Close())
    assert (read(type=8, sequenceId=3), read(type=9, sequenceId=1)) == (Ack(3), Sequence(1))
    assert [read(type=kind) for kind in (0, 10, -1, 2**70)] == [Unknown()] * 4


def test_an_invocation_id_of_null_is_none():
    assert read(type=1, invocationId=None, target="x", arguments=[]).id is None


def test_headers_are_passed_over():
    assert read(type=1, headers={"X-API-Key": "k"}, target="x", arguments=[]) == Call(
        "x", [], None, stream=False
    )


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"x",
        b"[]",
        b"1",
        b"null",
        b"{}",
        b'{"type":true}',
        b'{"type":"1"}',
        b'{"type":1.0}',
        b'{"type":1,"invocationId":5}',
        b'{"type":8}',
        b'{"type":8,"sequenceId":true}',
        b'{"type":9,"sequenceId":"1"}',
        b'{"type":6,"x":NaN}',
        b'{"type":6}{"type":6}',
        b"[" * 30_000,
        b'{"type":6,"x":' + b"9" * 5000 + b"}",
        b'{"type":6,"x":"\xff"}',
        b'{"type":1,"target":"\\ud800"}',
    ],
)
def test_what_is_no_message_is_an_error_in_words(record):
    with pytest.raises(BadRequest, match=r"^A"):
        parse_message(record)


@given(st.binary(max_size=200) | ANYTHING.map(lambda value: json.dumps(value).encode()))
def test_nothing_raises_anything_else(record):
    for read_it in (parse_message, parse_handshake):
        try:
            read_it(record)
        except BadRequest as error:
            assert error.message


@given(st.dictionaries(st.sampled_from(["type", "sequenceId", "invocationId", "target"]), ANYTHING))
def test_no_fields_raise_anything_else(fields):
    try:
        parse_message(json.dumps(fields).encode())
    except BadRequest as error:
        assert error.message


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_0_to_2_are_taken(version):
    record = json.dumps({"protocol": "json", "version": version, "more": 1}).encode()
    assert parse_handshake(record) == version


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (b'{"type":6}', "must be a handshake"),
        (b'{"protocol":"messagepack","version":1}', "'json'"),
        (b'{"protocol":null,"version":1}', "'json'"),
        (b'{"protocol":"json"}', "version"),
        (b'{"protocol":"json","version":3}', "version"),
        (b'{"protocol":"json","version":-1}', "version"),
        (b'{"protocol":"json","version":true}', "version"),
        (b'{"protocol":"json","version":1.0}', "version"),
        (b"GET / HTTP/1.1", "JSON"),
    ],
)
def test_other_handshakes_are_refused_in_words(record, says):
    with pytest.raises(BadRequest, match=says):
        parse_handshake(record)
