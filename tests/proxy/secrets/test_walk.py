"""Strings are found by their bytes, escapes and all."""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentd.proxy.secrets.walk import escaped, literals, places, pointer, raw_places, text_of

TEXT = st.text(max_size=20)
MARKED = st.text('\\":{}[], \naé', max_size=60)
VALUES = st.recursive(
    st.none() | MARKED,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(MARKED, inner, max_size=4),
)


def written(text: str, as_ascii: bool) -> bytes:
    return json.dumps(text, ensure_ascii=as_ascii).encode("utf-8", "surrogatepass")[1:-1]


@given(TEXT, TEXT, TEXT, st.booleans())
def test_a_place_in_a_text_is_found_in_its_bytes(before, middle, after, as_ascii):
    parts = [text.encode("utf-8", "surrogatepass") for text in (before, middle, after)]
    content = b"".join(written(text, as_ascii) for text in (before, middle, after))
    offsets = [len(parts[0]), len(parts[0] + parts[1])]
    start, end = raw_places(content, offsets)
    assert text_of(content[start:end]) == parts[1]
    assert text_of(content[:start]) == parts[0]


@given(st.text(), st.integers(0, 3))
def test_what_is_escaped_is_read_again(text, times):
    made = escaped(text, times)
    for _ in range(times):
        made = json.loads(f'"{made}"')
    assert made == text


def test_every_string_that_is_a_value_has_its_way():
    raw = b'{"a": ["x", {"b/c": "y"}, [], "z"], "d": {}, "e~\\u0066": "\\"]"}'
    assert [(way, raw[start:end]) for way, start, end in places(raw)] == [
        (("a", 0), b"x"),
        (("a", 1, "b/c"), b"y"),
        (("a", 3), b"z"),
        (("e~f",), b'\\"]'),
    ]
    assert pointer(raw, raw.index(b"y")) == "/a/1/b~1c"
    assert pointer(raw, raw.index(b'\\"]')) == "/e~0f"


def test_names_are_told_only_where_a_user_chose_them():
    raw = b'{"type": "t", "text": "a", "input": {"type": "b", "deep": ["c"]}, "role": "r"}'
    found = [(raw[one.start : one.end], one.is_name) for one in literals(raw, 0, len(raw), False)]
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
    found = [raw[one.start : one.end] for one in literals(raw, 0, len(raw), True)]
    assert found == [text[1:-1] for text in _strings(value)]


def _strings(value: Any) -> Iterator[bytes]:
    """As the encoder writes them, in their order."""
    match value:
        case str():
            yield json.dumps(value).encode()
        case list():
            yield from chain.from_iterable(map(_strings, value))
        case dict():
            for name, inner in value.items():
                yield json.dumps(name).encode()
                yield from _strings(inner)
