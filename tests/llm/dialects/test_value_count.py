"""How many values a request has is known without decoding it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import TooLarge
from agentd.llm.dialects import value_count

MOST = 10

VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=9) | st.sampled_from(['"', "\\", "[,]", '\\",[{']),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=30,
)


def count_values(value: Any) -> int:
    """Count a value with all that are in it."""
    within = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count_values, within))


@given(VALUES, st.booleans())
def test_all_that_is_refused_has_too_many_values_and_nothing_with_many_more_is_let_through(
    value: Any, ascii_only: bool
) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(value_count, "MAX_VALUES", MOST)
        if 2 * count_values(value) <= MOST:  # a member of an object has a text of its own: its key
            value_count.check_value_count(body)
        elif count_values(value) > 2 * MOST + 1:
            with pytest.raises(TooLarge):
                value_count.check_value_count(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":"%b"}' % (b",[{" * value_count.MAX_VALUES),
        b'{"a":"%b"}' % (b'\\",' * value_count.MAX_VALUES),
        b'{"a":"%b' % (b'\\",' * value_count.MAX_VALUES),
        b"x" * (2 * value_count.MAX_VALUES),
    ],
)
def test_what_is_within_a_text_does_not_count(body: bytes) -> None:
    value_count.check_value_count(body)


@pytest.mark.parametrize("part", [b"[],", b"{},", b"1,", b'"ab",', b'"a":1,', b"[", b'"",'])
def test_many_values_are_too_many_whatever_they_are(part: bytes) -> None:
    with pytest.raises(TooLarge, match=str(value_count.MAX_VALUES)):
        value_count.check_value_count(b"[" + part * (value_count.MAX_VALUES + 1))
