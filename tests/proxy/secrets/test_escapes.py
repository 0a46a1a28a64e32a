"""A secret comes back with exactly the escapes that its place asks for, however deep that is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.proxy.secrets.json_text import DEEPEST
from agentd.proxy.secrets.restoring import restored, restorer
from agentd.proxy.secrets.rules import Rules, Value
from agentd.proxy.secrets.writing import Written, identity, secret_of, written_at
from tests.proxy.secrets.bodies import new
from tests.proxy.secrets.replies import DIALECTS, heard, stream, whole

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


def wrapped(text: str, layers: list[str]) -> str:
    """The text in a string of JSON for each layer."""
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


def _request(text: str) -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": "f"}}
    call["function"] = {"name": "f", "arguments": json.dumps({"a": text})}
    said = [{"role": "user", "content": text}, {"role": "assistant", "tool_calls": [call]}]
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": text}}
    return {"messages": [*said, {"role": "assistant", "content": [use]}]}


@given(SECRET | BACKSLASHED, AROUND, LAYERS, CUTS, CUTS, st.sampled_from(DIALECTS))
def test_what_a_model_says_again_comes_back_as_it_was(secret, around, layers, cuts, sizes, dialect):
    text = wrapped(secret.join(around), layers)
    result = new(Rules((), (Value(id="v", text=secret),))).hide(
        json.dumps(_request(text)).encode(), "openai-chat", "k"
    )
    said, called, used = json.loads(result.body)["messages"]
    arguments = called["tool_calls"][0]["function"]["arguments"]
    inputs = used["content"][0]["input"]
    if "ascii" not in layers and len(layers) < 3:
        assert "SECRET_v_" in said["content"]
        assert "SECRET_v_" in arguments
    for told, passed in ((said["content"], arguments), (inputs["a"], json.dumps(inputs))):
        data = stream(dialect, told, passed, cuts)
        putting = restorer(dialect, result.secrets)
        out, at, turn = [], 0, 0
        while at < len(data):
            size = sizes[turn % len(sizes)]
            out.append(putting.feed(data[at : at + size]))
            at, turn = at + size, turn + 1
        again, with_ = heard(dialect, b"".join((*out, putting.close())))
        assert again == text
        assert json.loads(with_) == {"a": text}
        answer = json.dumps(whole(dialect, told, passed)).encode()
        expected = json.loads(json.dumps(whole(dialect, text, json.dumps({"a": text}))))
        assert _plain(json.loads(restored(dialect, result.secrets, answer))) == _plain(expected)


def _plain(value: Any) -> Any:
    """With arguments decoded: their blanks are of no concern."""
    if isinstance(value, dict):
        return {
            name: json.loads(one) if name == "arguments" else _plain(one)
            for name, one in value.items()
        }
    return [_plain(one) for one in value] if isinstance(value, list) else value


@given(SECRET | BACKSLASHED, st.integers(0, DEEPEST - 1), CUTS, st.sampled_from(DIALECTS))
def test_a_model_may_put_a_secret_deeper_than_it_was_found(secret, depth, cuts, dialect):
    rules = Rules((), (Value(id="v", text=secret),))
    found = new(rules).hide(json.dumps({"input": f"x {secret}"}).encode(), "openai-responses", "k")
    (placeholder,) = found.secrets
    text = f"use {placeholder} now"
    for _ in range(depth):
        text = json.dumps({"k": text})
    data = stream(dialect, text, json.dumps({"a": text}), cuts)
    putting = restorer(dialect, found.secrets)
    said, called = heard(dialect, putting.feed(data) + putting.close())
    for told in (said, json.loads(called)["a"]):
        inner = told
        for _ in range(depth):
            inner = json.loads(inner)["k"]
        assert inner == f"use {secret} now"


@pytest.mark.parametrize("written", ["ab\\/cd1234", "caf\\u00e9-4dor3", "a\\u0026b-4dor3"])
def test_what_an_encoder_wrote_in_its_own_way_comes_back_in_that(written):
    secret = json.loads(f'"{written}"')
    known = identity(written, 1)
    assert isinstance(secret_of(known), Written)
    assert secret_of(known) == written
    assert written_at(secret_of(known), 1) == written
    assert written_at(secret_of(known), 0) == secret
    assert json.loads(f'"{written_at(secret_of(known), 2)}"') == written


@given(st.text(), st.integers(0, 3))
def test_a_secret_is_known_by_what_it_is_wherever_it_stands(secret, depth):
    written = written_at(secret, depth)
    known = identity(written, depth)
    assert written_at(secret_of(known), depth) == written
    if not secret.startswith("\0"):
        assert known == secret.encode("utf-8", "surrogatepass") or "\n" in written or '"' in written
