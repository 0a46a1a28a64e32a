"""A body is taken apart by its bytes, and refused when that cannot be."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.errors import BadRequest
from agentd.proxy.secrets.request import LISTS, parts

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
    found = [json.loads(raw[part.start : part.end]) for part in parts(raw)]
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
        list(parts(body))
