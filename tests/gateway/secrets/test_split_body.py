"""A body is taken apart by its bytes, and refused when that cannot be."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import BadRequest
from agentd.gateway.secrets.prefix_cache import measure_common_prefix
from agentd.gateway.secrets.split_body import LISTS, split_body, split_incrementally

SPACE = st.sampled_from(["", " ", "\n\t", "\r\n "])
VALUE = st.recursive(
    st.text(max_size=4) | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)


@given(
    st.dictionaries(st.text(max_size=5) | st.sampled_from(sorted(LISTS)), VALUE, max_size=4),
    SPACE,
    st.booleans(),
)
def test_each_part_is_the_bytes_of_one_value(body, space, as_ascii):
    separators = (f"{space},{space}", f"{space}:{space}")
    text = json.dumps(body, separators=separators, ensure_ascii=as_ascii)
    raw = f"{space}{text}{space}".encode("utf-8", "surrogatepass")
    if b"\\ud" in raw or b"\xed" in raw:
        return
    found = [json.loads(raw[part.start : part.end]) for part in split_body(raw).parts]
    expected = []
    for name, value in body.items():
        if name in LISTS and isinstance(value, list):
            expected += value
        elif isinstance(value, str | list | dict) and name != "model":
            expected.append(value)
    assert found == expected


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"{", b'{"a":1,"a":2}', b'{"a":"x","b":1,"a":"x"}', b'{"a":1,"a":1}'),
        *(b'{"a":1} x', b"[" * 100_000, b'{"a":"\\ud800"}', b"\xff\xfe", b'{"a":[1,]}'),
    ],
)
def test_what_is_no_request_is_refused(body):
    with pytest.raises(BadRequest):
        split_body(body)


MESSAGES = st.lists(VALUE, max_size=4)
OTHERS = st.dictionaries(st.sampled_from(["model", "a", "tools", "messages/1", "metadata"]), VALUE)


def encode_body(first, messages, others, space=""):
    said = {**first, "messages": messages, **others}
    return json.dumps(said, separators=(f"{space},{space}", f"{space}:{space}")).encode()


@given(OTHERS, MESSAGES, MESSAGES, OTHERS, OTHERS, SPACE, st.data())
def test_a_body_that_grew_is_taken_apart_as_if_it_were_the_first(
    first, messages, new, others, later, space, data
):
    before = encode_body(first, messages, others, space)
    number = data.draw(st.integers(0, len(messages)))
    body = encode_body(first, [*messages[:number], *new], later, space)
    size = measure_common_prefix(before, body)
    taken = split_body(before)
    for count in range(1, len([part for part in taken.parts if part.end < size]) + 1):
        assert split_incrementally(body, taken, count) == split_body(body)


@pytest.mark.parametrize(
    "after",
    [
        *(b"", b"]", b",]}", b"]}}", b"}", b"]} x", b',"y"]', b'],"messages":[]}', b'],"a":1}'),
        *(b'],"b":1,"b":1}', b'],"b":1,"\\u0062":1}', b'],"\xff":1}', b"," + b"[" * 100_000),
    ],
)
def test_what_grew_into_no_request_is_refused(after):
    check_refused(
        b'{"a":"b","messages":["x"' + after, split_body(b'{"a":"b","messages":["x"],"b":1}'), 2
    )


def test_what_is_in_no_list_does_not_grow_as_one():
    check_refused(b'{"a":"b",1]}', split_body(b'{"a":"b","c":1}'), 1)
    check_refused(b'{"messages":"b",1]}', split_body(b'{"messages":"b","c":1}'), 1)


def check_refused(body, before, count):
    with pytest.raises(BadRequest) as whole:
        split_body(body)
    with pytest.raises(BadRequest) as more:
        split_incrementally(body, before, count)
    assert (more.value.message, more.value.details) == (whole.value.message, whole.value.details)
