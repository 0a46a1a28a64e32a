"""A secret comes back with exactly the escapes that its place asks for, however deep that is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.gateway.secrets.escape_layers import (
    EscapedSecret,
    decode_identity,
    escape_at_depth,
    get_identity,
)
from agentd.gateway.secrets.json_text import DEEPEST
from agentd.gateway.secrets.restoring import create_restorer, restore_body
from agentd.gateway.secrets.rules import ExactSecret, SecretRules
from tests.gateway.secrets.bodies import create_masker
from tests.gateway.secrets.replies import DIALECTS, build_reply, build_stream, parse_stream

SECRET = st.text(st.sampled_from('ab1\\"/\n\té€{}[]:, '), min_size=8, max_size=16).filter(
    lambda text: len(text.strip()) == len(text)
)
BACKSLASHED = st.sampled_from(
    ["tr0ub\\\\4dor", 'tr0ub\\"4dor', "tr0ub\\4dor3", 'tr0"ub"4dor', "C:\\new\\tab"]
)
AROUND = st.sampled_from(
    [("", ""), ("x ", " y"), ("DB: ", "\nz"), ('"', '"'), ("'", "'"), ("é\\n", "é")]
)
CUTS = st.lists(st.integers(1, 40), min_size=1, max_size=4)
LAYERS = st.lists(st.sampled_from(["object", "list", "indented", "fragment", "ascii"]), max_size=3)


def wrap_in_json(text: str, layers: list[str]) -> str:
    """Put the text into a string of JSON for each layer."""
    for layer in layers:
        match layer:
            case "object":
                text = json.dumps({"n": 1, "k": text}, ensure_ascii=False)
            case "list":
                text = json.dumps(["a", text], ensure_ascii=False)
            case "indented":
                text = json.dumps({"k": [text]}, ensure_ascii=False, indent=2)
            case "ascii":
                text = json.dumps({"k": text})
            case _:
                text = f'  12\t"k": {json.dumps(text, ensure_ascii=False)},'
    return text


def _build_request(text: str) -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": "f"}}
    call["function"] = {"name": "f", "arguments": json.dumps({"a": text})}
    said = [{"role": "user", "content": text}, {"role": "assistant", "tool_calls": [call]}]
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": text}}
    return {"messages": [*said, {"role": "assistant", "content": [use]}]}


@given(SECRET | BACKSLASHED, AROUND, LAYERS, CUTS, CUTS, st.sampled_from(DIALECTS))
def test_what_a_model_says_again_comes_back_as_it_was(secret, around, layers, cuts, sizes, dialect):
    text = wrap_in_json(secret.join(around), layers)
    result = create_masker(SecretRules((), (ExactSecret(id="v", text=secret),))).mask(
        json.dumps(_build_request(text)).encode(), "openai-chat", "k"
    )
    said, called, used = json.loads(result.body)["messages"]
    arguments = called["tool_calls"][0]["function"]["arguments"]
    inputs = used["content"][0]["input"]
    if "ascii" not in layers and len(layers) < 3:
        assert "SECRET_v_" in said["content"]
        assert "SECRET_v_" in arguments
    for output, passed in ((said["content"], arguments), (inputs["a"], json.dumps(inputs))):
        data = build_stream(dialect, output, passed, cuts)
        putting = create_restorer(dialect, result.secrets)
        out, at, turn = [], 0, 0
        while at < len(data):
            size = sizes[turn % len(sizes)]
            out.append(putting.feed(data[at : at + size]))
            at, turn = at + size, turn + 1
        again, with_ = parse_stream(dialect, b"".join((*out, putting.close())))
        assert again == text
        assert json.loads(with_) == {"a": text}
        answer = json.dumps(build_reply(dialect, output, passed)).encode()
        expected = json.loads(json.dumps(build_reply(dialect, text, json.dumps({"a": text}))))
        assert _decode_arguments(
            json.loads(restore_body(dialect, result.secrets, answer))
        ) == _decode_arguments(expected)


def _decode_arguments(value: Any) -> Any:
    """Decode the arguments: their blanks do not matter."""
    if isinstance(value, dict):
        return {
            name: json.loads(one) if name == "arguments" else _decode_arguments(one)
            for name, one in value.items()
        }
    return [_decode_arguments(one) for one in value] if isinstance(value, list) else value


@given(SECRET | BACKSLASHED, st.integers(0, DEEPEST - 1), CUTS, st.sampled_from(DIALECTS))
def test_a_model_may_put_a_secret_deeper_than_it_was_found(secret, depth, cuts, dialect):
    rules = SecretRules((), (ExactSecret(id="v", text=secret),))
    found = create_masker(rules).mask(
        json.dumps({"input": f"x {secret}"}).encode(), "openai-responses", "k"
    )
    (placeholder,) = found.secrets
    text = f"use {placeholder} now"
    for _ in range(depth):
        text = json.dumps({"k": text})
    data = build_stream(dialect, text, json.dumps({"a": text}), cuts)
    putting = create_restorer(dialect, found.secrets)
    said, called = parse_stream(dialect, putting.feed(data) + putting.close())
    for output in (said, json.loads(called)["a"]):
        inner = output
        for _ in range(depth):
            inner = json.loads(inner)["k"]
        assert inner == f"use {secret} now"


@pytest.mark.parametrize("written", ["ab\\/cd1234", "caf\\u00e9-4dor3", "a\\u0026b-4dor3"])
def test_what_an_encoder_wrote_in_its_own_way_comes_back_in_that(written):
    secret = json.loads(f'"{written}"')
    known = get_identity(written, 1)
    assert isinstance(decode_identity(known), EscapedSecret)
    assert decode_identity(known) == written
    assert escape_at_depth(decode_identity(known), 1) == written
    assert escape_at_depth(decode_identity(known), 0) == secret
    assert json.loads(f'"{escape_at_depth(decode_identity(known), 2)}"') == written


@given(st.text(), st.integers(0, 3))
def test_a_secret_is_known_by_what_it_is_wherever_it_stands(secret, depth):
    written = escape_at_depth(secret, depth)
    known = get_identity(written, depth)
    assert escape_at_depth(decode_identity(known), depth) == written
    if not secret.startswith("\0"):
        assert known == secret.encode("utf-8", "surrogatepass") or "\n" in written or '"' in written
