"""How deep in JSON a place is, is known however a text is cut."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.gateway.secrets.json_text import DEEPEST, JsonDepthTracker

CUTS = st.lists(st.integers(1, 5), min_size=1)


def track_depth(text: str, cuts: list[int]) -> JsonDepthTracker:
    follower = JsonDepthTracker()
    at = turn = 0
    while at < len(text):
        size = cuts[turn % len(cuts)]
        follower.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    return follower


@given(st.text(st.sampled_from('ab"\\{}[]:, é\n'), max_size=12), CUTS, st.booleans(), st.data())
def test_every_string_in_json_is_as_deep_as_it_is_for_every_cut(words, cuts, as_ascii, data):
    text = f"{words}@"
    depth = data.draw(st.integers(0, DEEPEST))
    for _ in range(depth):
        value = data.draw(st.sampled_from([{"k": text}, [text], ["x", text], {"a": [], "b": text}]))
        text = json.dumps(
            value, ensure_ascii=as_ascii, indent=data.draw(st.sampled_from([None, 1]))
        )
    before = text[: text.index("@")]
    assert track_depth(before, cuts).depth == min(depth + track_depth(words, cuts).depth, DEEPEST)


@given(st.text(max_size=40), CUTS)
def test_the_depth_does_not_depend_on_how_a_text_is_cut(text, cuts):
    assert track_depth(text, cuts).depth == track_depth(text, [len(text) or 1]).depth


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("plain ", 0),
        ('he said "', 0),
        ('he said, "', 0),
        ('password="', 0),
        ('password: "', 0),
        ('"password": "', 1),
        ('  12\t  "password" : "', 1),
        ('see {"password": "', 1),
        ('["a", "', 1),
        ('5" wide, {"a": "b", "c": "', 0),
        ('5" wide,\n{"a": "b", "c": "', 1),
        ('{"a": "{\\"b\\": \\"', 2),
        ('{"a": "x\\ny: \\"', 1),
        ('curl -d \'{"a": "', 1),
        ('{"a": "b"} "', 0),
    ],
)
def test_what_stands_before_it_shows_a_string_of_json(text, depth):
    assert track_depth(text, [3]).depth == depth
