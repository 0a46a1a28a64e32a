"""A body is taken apart by its bytes, and refused when that cannot be."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.errors import BadRequest
from agentd.proxy.secrets.growth import same
from agentd.proxy.secrets.request import LISTS, apart, grown

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
    found = [json.loads(raw[part.start : part.end]) for part in apart(raw).parts]
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
        apart(body)


MESSAGES = st.lists(VALUE, max_size=4)
OTHERS = st.dictionaries(st.sampled_from(["model", "a", "tools", "messages/1", "metadata"]), VALUE)


def written(first, messages, others, space=""):
    said = {**first, "messages": messages, **others}
    return json.dumps(said, separators=(f"{space},{space}", f"{space}:{space}")).encode()


@given(OTHERS, MESSAGES, MESSAGES, OTHERS, OTHERS, SPACE, st.data())
def test_a_body_that_grew_is_taken_apart_as_if_it_were_the_first(
    first, messages, new, others, later, space, data
):
    before = written(first, messages, others, space)
    number = data.draw(st.integers(0, len(messages)))
    body = written(first, [*messages[:number], *new], later, space)
    size = same(before, body)
    taken = apart(before)
    for count in range(1, len([part for part in taken.parts if part.end < size]) + 1):
        assert grown(body, taken, count) == apart(body)


@pytest.mark.parametrize(
    "after",
    [
        *(b"", b"]", b",]}", b"]}}", b"}", b"]} x", b',"y"]', b'],"messages":[]}', b'],"a":1}'),
        *(b'],"b":1,"b":1}', b'],"b":1,"\\u0062":1}', b'],"\xff":1}', b"," + b"[" * 100_000),
    ],
)
def test_what_grew_into_no_request_is_refused(after):
    refused(b'{"a":"b","messages":["x"' + after, apart(b'{"a":"b","messages":["x"],"b":1}'), 2)


def test_what_is_in_no_list_does_not_grow_as_one():
    refused(b'{"a":"b",1]}', apart(b'{"a":"b","c":1}'), 1)
    refused(b'{"messages":"b",1]}', apart(b'{"messages":"b","c":1}'), 1)


def refused(body, before, count):
    with pytest.raises(BadRequest) as whole:
        apart(body)
    with pytest.raises(BadRequest) as more:
        grown(body, before, count)
    assert (more.value.message, more.value.details) == (whole.value.message, whole.value.details)
