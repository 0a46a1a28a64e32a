"""Secrets in names and identifiers: hidden in a form that fits there, or refused."""

import json
import re
from typing import Any

import pytest

from agentd.errors import BadRequest
from agentd.proxy.secrets.placeholder import LONGEST, Placeholders
from agentd.proxy.secrets.restoring import restored, restorer
from tests.proxy.secrets.bodies import SEED, hidden, new, put_back, said
from tests.proxy.secrets.samples import TOKENS, letters

GITHUB = TOKENS["github"]
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SHORT_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")


def _chat(name: str, call: str) -> dict[str, Any]:
    function = {"name": name, "description": "d", "parameters": {"type": "object"}}
    calls = [{"id": call, "type": "function", "function": {"name": name, "arguments": "{}"}}]
    return {
        "messages": [
            {"role": "user", "name": name, "content": "hello"},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": call, "content": "well"},
        ],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": {"type": "function", "function": {"name": name}},
    }


def _responses(name: str, call: str) -> dict[str, Any]:
    return {
        "input": [
            {"type": "function_call", "call_id": call, "name": name, "arguments": "{}"},
            {"type": "function_call_output", "call_id": call, "output": "well"},
        ],
        "tools": [{"type": "function", "name": name, "parameters": {}}],
    }


def _anthropic(name: str, call: str) -> dict[str, Any]:
    return {
        "messages": [
            {"content": [{"type": "tool_use", "id": call, "name": name, "input": {}}]},
            {"content": [{"type": "tool_result", "tool_use_id": call, "content": "well"}]},
        ],
        "tools": [{"name": name, "input_schema": {"type": "object"}}],
    }


def _gemini(name: str, call: str) -> dict[str, Any]:
    return {
        "contents": [
            {"parts": [{"functionCall": {"id": call, "name": name, "args": {}}}]},
            {"parts": [{"functionResponse": {"id": call, "name": name, "response": {}}}]},
        ],
        "tools": [{"functionDeclarations": [{"name": name, "parameters": {}}]}],
    }


REQUESTS = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}


@pytest.mark.parametrize("name", [GITHUB, f"get_{GITHUB}", f"{GITHUB}_{'x' * 20}"])
@pytest.mark.parametrize("dialect", REQUESTS)
def test_names_and_ids_stay_names_and_ids_and_the_same_everywhere(dialect, name):
    call = f"call_{GITHUB}_{'y' * 10}"
    body = REQUESTS[dialect](name, call)
    result = hidden(body, dialect=dialect)
    assert GITHUB.encode() not in result.body
    after = json.loads(result.body)
    assert put_back(after, result.secrets) == body
    found = json.dumps(after)
    names, calls = (
        set(re.findall(rf'"(?:{keys})": "([^"]*SECRET[^"]*)"', found))
        for keys in ("name", "id|call_id|tool_call_id|tool_use_id")
    )
    assert len(names) == len(calls) == 1
    assert all(map(NAME.fullmatch, names))
    assert all(map(SHORT_ID.fullmatch, calls))


def test_the_name_of_a_member_is_looked_at_wherever_it_stands():
    body = {"messages": [{"role": "user", GITHUB: 1, "content": [{"deep": {f"x{GITHUB}": "y"}}]}]}
    result = hidden(body)
    assert GITHUB.encode() not in result.body
    assert put_back(json.loads(result.body), result.secrets) == body


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({GITHUB: "x"}, "name of a member"),
        ({"input": "x", "previous_response_id": f"resp_{GITHUB}"}, "previous_response_id"),
        ({"input": [{"type": "input_file", "file_id": GITHUB}]}, "file_id"),
        ({"model": GITHUB, "input": "x"}, "model"),
        ({"messages": [{"role": GITHUB, "content": "x"}]}, "role"),
        ({"input": "x", "service_tier": GITHUB}, "service_tier"),
    ],
)
def test_where_a_supplier_must_know_the_very_words_a_secret_is_refused(body, where):
    hiding = new()
    for _ in range(2):  # also when it is sent again
        with pytest.raises(BadRequest, match=where) as refusal:
            hidden(body, hiding)
        assert GITHUB not in str(refusal.value)
    assert hidden(said("hello"), hiding).body


def test_a_word_of_the_protocol_that_is_somebodys_password_stays_what_it_is():
    hiding = new()
    words = ("assistant", "tool_calls", "function", "tool_call_id", "messages")
    for word in words:
        hidden(said(f'password: "{word}"'), hiding)
    plain = _chat("name", "c1")
    assert json.loads(hidden(plain, hiding).body) == plain


def test_a_secret_that_was_told_in_text_is_hidden_as_a_name_too():
    hiding = new()
    hidden(said("DB_PASSWORD=tr0ub4dor3"), hiding)
    result = hidden(_chat("get_tr0ub4dor3", "call_tr0ub4dor3"), hiding)
    assert b"tr0ub4dor3" not in result.body


@pytest.mark.parametrize("cut", [1, 7, 10_000])
def test_a_tools_name_comes_back_in_a_reply_of_every_dialect(cut):
    placeholder = Placeholders(SEED).of(GITHUB.encode(), "github", "k")
    call = {"id": placeholder, "type": "function", "function": {"name": placeholder}}
    use = {"type": "tool_use", "id": placeholder, "name": f"get_{placeholder}", "input": {}}
    item = {"type": "function_call", "call_id": placeholder, "name": placeholder}
    replies: dict[Any, Any] = {
        "openai-chat": {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]},
        "openai-responses": {"type": "response.output_item.added", "item": item},
        "anthropic": {"type": "content_block_start", "index": 0, "content_block": use},
        "gemini": {
            "candidates": [{"content": {"parts": [{"functionCall": {"name": placeholder}}]}}]
        },
    }
    secrets = {placeholder: GITHUB}
    for dialect, reply in replies.items():
        expected = json.dumps(reply).replace(placeholder, GITHUB).encode()
        data = b"data: %b\n\n" % json.dumps(reply).encode()
        stream = restorer(dialect, secrets)
        told = [stream.feed(data[at : at + cut]) for at in range(0, len(data), cut)]
        assert b"".join((*told, stream.close())) == b"data: %b\n\n" % expected
        assert restored(dialect, secrets, json.dumps(reply).encode()) == expected


def test_no_placeholder_is_longer_than_the_shortest_identifier_that_a_supplier_takes():
    made = Placeholders(SEED).of(b"x", "a-rule-with-quite-a-long-name", letters(20))
    assert len(made) == LONGEST == 40
    assert SHORT_ID.fullmatch(made)
