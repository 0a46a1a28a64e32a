"""YAML of strangers becomes plain values, or is refused before it costs anything."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import BadRequest
from agentd.storage.yaml.untrusted import (
    MAX_ALIASES,
    MAX_DEPTH,
    MAX_NODES,
    MAX_TEXT_SIZE,
    parse_untrusted_yaml,
)


def test_plain_values_aliases_and_merges_are_read():
    text = "a: &a {x: 1, y: [yes, ~, 2.5, t]}\nb: *a\nc: {<<: *a, x: 2}\n"
    one = {"x": 1, "y": [True, None, 2.5, "t"]}
    assert parse_untrusted_yaml(text) == {"a": one, "b": one, "c": one | {"x": 2}}


@pytest.mark.parametrize("text", ["", "# nothing", "null"])
def test_nothing_is_nothing(text):
    assert parse_untrusted_yaml(text) is None


def build_bomb(width: int, depth: int) -> str:
    lines = ["a0: &a0 [" + ",".join("x" * width) + "]"]
    for level in range(1, depth):
        lines.append(f"a{level}: &a{level} [" + ",".join([f"*a{level - 1}"] * width) + "]")
    return "\n".join(lines)


HOSTILE = {
    "a bomb": build_bomb(9, 9),
    "a wide bomb": "a: &a [" + "x," * 10_000 + "]\nb: [" + "*a," * 500 + "]",
    "a bomb of mappings": "a: &a {b: 1}\nc: &c {<<: [*a, *a]}\n" + build_bomb(30, 5),
    "a loop": "&a [*a]",
    "a loop of mappings": "&a {b: *a}",
    "an alias of nothing": "[*a]",
    "many aliases": "a: &a x\nb: [" + "*a," * (MAX_ALIASES + 1) + "]",
    "deep": "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
    "many values": "[" + "1," * (MAX_NODES + 1) + "]",
    "large": "#" * (MAX_TEXT_SIZE + 1),
    "a program": "!!python/object/apply:os.system [id]",
    "two documents": "a\n---\nb",
    "no YAML": "{",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_document_is_refused_quickly(kind):
    before = time.process_time()
    with pytest.raises(BadRequest):
        parse_untrusted_yaml(HOSTILE[kind])
    assert time.process_time() - before < 60


def test_a_mistake_is_reported_with_its_line():
    with pytest.raises(BadRequest, match="line 3"):
        parse_untrusted_yaml("a: 1\nb: 2\n\tc: 3\n")


@given(st.text(alphabet="ab:-&*?![]{}<>|\n #'\"%@0.~,", max_size=60))
def test_no_text_does_more_than_be_refused(text):
    try:
        parse_untrusted_yaml(text)
    except BadRequest:
        return
