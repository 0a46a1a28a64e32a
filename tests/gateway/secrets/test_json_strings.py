"""Strings are found by their bytes, escapes and all."""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentd.gateway.secrets.json_strings import (
    decode_text,
    escape,
    find_pointers,
    iter_strings,
    iter_values,
    replace_in_strings,
    to_raw_offsets,
)

TEXT = st.text(max_size=20)
MARKED = st.text('\\":{}[], \naé', max_size=60)
VALUES = st.recursive(
    st.none() | MARKED,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(MARKED, inner, max_size=4),
)


def encode_string(text: str, as_ascii: bool) -> bytes:
    return json.dumps(text, ensure_ascii=as_ascii).encode("utf-8", "surrogatepass")[1:-1]


@given(TEXT, TEXT, TEXT, st.booleans())
def test_a_place_in_a_text_is_found_in_its_bytes(before, middle, after, as_ascii):
    parts = [text.encode("utf-8", "surrogatepass") for text in (before, middle, after)]
    content = b"".join(encode_string(text, as_ascii) for text in (before, middle, after))
    offsets = [len(parts[0]), len(parts[0] + parts[1])]
    start, end = to_raw_offsets(content, offsets)
    assert decode_text(content[start:end]) == parts[1]
    assert decode_text(content[:start]) == parts[0]


@given(st.text(), st.integers(0, 3))
def test_what_is_escaped_is_read_again(text, times):
    made = escape(text, times)
    for _ in range(times):
        made = json.loads(f'"{made}"')
    assert made == text


@given(VALUES, st.text(min_size=1, max_size=3), st.booleans())
def test_a_text_is_replaced_in_all_strings_and_nothing_else_changes(value, text, as_ascii):
    def replace(one: Any) -> Any:
        if isinstance(one, dict):
            return {replace(name): replace(inner) for name, inner in one.items()}
        if isinstance(one, list):
            return [replace(inner) for inner in one]
        return one.replace(text, "***") if one else one

    raw = json.dumps(value, ensure_ascii=as_ascii).encode()
    assert json.loads(replace_in_strings(raw, text, "***")) == replace(value)
    assert replace_in_strings(raw, "", "***") == raw


def test_every_string_that_is_a_value_has_its_way():
    raw = b'{"a": ["x", {"b/c": "y"}, [], "z"], "d": {}, "e~\\u0066": "\\"]"}'
    assert [(way, raw[start:end]) for way, start, end in iter_values(raw, 9)] == [
        (("a", 0), b"x"),
        (("a", 1, "b/c"), b"y"),
        (("a", 3), b"z"),
        (("e~f",), b'\\"]'),
    ]
    within, last = raw.index(b'"y"') + 1, raw.index(b'\\"]')
    assert find_pointers(raw, [within, last]) == {within: "/a/1/b~1c", last: "/e~0f"}


def test_a_way_that_is_deeper_than_is_asked_for_is_passed_over():
    raw = b'{"a": ["x", {"b": "y"}], "c": "z"}'
    assert [way for way, _, _ in iter_values(raw, 2)] == [("a", 0), ("c",)]


def test_a_name_that_is_a_secret_is_not_reported_in_a_pointer():
    raw = b'{"a": {"tr0ub4dor3": {"b": "x"}, "c": "y"}}'
    name, x, y = (raw.index(one) for one in (b"tr0ub4dor3", b"x", b"y"))
    result = find_pointers(raw, [name, x, y], [name])
    assert result == {name: "/a/*", x: "/a/*/b", y: "/a/c"}


def test_a_pointer_is_no_longer_than_a_reader_needs():
    deep = b'{"%b": ' % (b"n" * 5000) * 200 + b'"x"' + b"}" * 200
    at = deep.index(b'"x"') + 1
    assert len(find_pointers(deep, [at])[at]) < 5000


def test_names_are_reported_only_where_a_user_chose_them():
    raw = b'{"type": "t", "text": "a", "input": {"type": "b", "deep": ["c"]}, "role": "r"}'
    found = [
        (raw[one.start : one.end], one.is_name) for one in iter_strings(raw, 0, len(raw), False)
    ]
    assert found == [
        (b"a", False),
        (b"type", True),
        (b"b", False),
        (b"deep", True),
        (b"c", False),
    ]


@given(VALUES, st.booleans())
def test_every_string_is_found_whatever_is_escaped_in_it(value, spaced):
    raw = json.dumps(value, separators=(", ", " : ") if spaced else (",", ":")).encode()
    found = [raw[one.start : one.end] for one in iter_strings(raw, 0, len(raw), True)]
    assert found == [text[1:-1] for text in _iter_strings(value)]


def _iter_strings(value: Any) -> Iterator[bytes]:
    """Yield the strings as the encoder writes them, in their order."""
    match value:
        case str():
            yield json.dumps(value).encode()
        case list():
            yield from chain.from_iterable(map(_iter_strings, value))
        case dict():
            for name, inner in value.items():
                yield json.dumps(name).encode()
                yield from _iter_strings(inner)
