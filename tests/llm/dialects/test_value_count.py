"""How many values a request or a reply has is known without decoding it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import TooLarge
from agentd.llm.dialects import value_count
from agentd.llm.dialects.value_count import MAX_PARTS, MAX_VALUES

MOST = 10

TEXTS = st.text(max_size=4) | st.sampled_from(['"', "\\", "[,]", '\\",[{'])
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=40,
)


def count_parts(value: Any) -> int:
    """Count the texts, lists and objects in a value, and the names of its members."""
    match value:
        case str():
            return 1
        case list():
            return 1 + sum(map(count_parts, value))
        case dict():
            return 1 + len(value) + sum(map(count_parts, value.values()))
    return 0


@given(VALUES, st.booleans(), st.booleans())
def test_of_a_reply_only_numbers_may_be_many(value: Any, ascii_only: bool, is_text: bool) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only)
    data = body if is_text else body.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(value_count, "MAX_PARTS", MOST)
        patch.setattr(value_count, "MAX_VALUES", 0)
        found = value_count.has_too_many_parts(data)
    assert found or count_parts(value) <= 3 * MOST + 1
    assert not found or count_parts(value) > MOST


@given(VALUES, st.booleans())
def test_all_that_is_refused_has_too_many_parts_and_nothing_with_many_more_is_let_through(
    value: Any, ascii_only: bool
) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(value_count, "MAX_PARTS", MOST)
        if count_parts(value) <= MOST:
            value_count.check_value_count(body)
        elif count_parts(value) > 3 * MOST + 1:
            with pytest.raises(TooLarge):
                value_count.check_value_count(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":"%b"}' % (b",[{" * MAX_PARTS),
        b'{"a":"%b"}' % (b'\\",' * MAX_PARTS),
        b'{"a":"%b' % (b'\\",' * MAX_PARTS),
        b"x" * (2 * MAX_PARTS),
    ],
)
def test_what_is_within_a_text_does_not_count(body: bytes) -> None:
    value_count.check_value_count(body)


def test_numbers_may_be_many_more() -> None:
    value_count.check_value_count(b"[" + b"1," * MAX_VALUES + b"1]")
    with pytest.raises(TooLarge):
        value_count.check_value_count(b"[" + b"1," * (MAX_VALUES + 1) + b"1]")


@pytest.mark.parametrize("part", [b"[],", b"{},", b'"ab",', b'"a":1,', b"[", b'"",'])
def test_many_parts_are_too_many_whatever_they_are(part: bytes) -> None:
    with pytest.raises(TooLarge, match=str(MAX_PARTS)):
        value_count.check_value_count(b"[" + part * (MAX_PARTS + 1))
