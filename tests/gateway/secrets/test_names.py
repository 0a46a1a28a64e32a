"""Secrets in names and identifiers: hidden in a form that fits there, or refused."""

import json
import re
from typing import Any

import pytest

from agentd.core.errors import BadRequest
from agentd.gateway.secrets.placeholder import LONGEST, Placeholders
from agentd.gateway.secrets.restoring import create_restorer, restore_body
from agentd.gateway.secrets.rules import SecretPattern, SecretRules
from tests.gateway.secrets.bodies import SEED, build_body, create_masker, mask_body, unmask_body
from tests.gateway.secrets.samples import TOKENS, make_letters

GITHUB = TOKENS["github"]
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SHORT_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")


def _build_chat_request(name: str, call: str) -> dict[str, Any]:
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


def _build_responses_request(name: str, call: str) -> dict[str, Any]:
    return {
        "input": [
            {"type": "function_call", "call_id": call, "name": name, "arguments": "{}"},
            {"type": "function_call_output", "call_id": call, "output": "well"},
        ],
        "tools": [{"type": "function", "name": name, "parameters": {}}],
    }


def _build_anthropic_request(name: str, call: str) -> dict[str, Any]:
    return {
        "messages": [
            {"content": [{"type": "tool_use", "id": call, "name": name, "input": {}}]},
            {"content": [{"type": "tool_result", "tool_use_id": call, "content": "well"}]},
        ],
        "tools": [{"name": name, "input_schema": {"type": "object"}}],
    }


def _build_gemini_request(name: str, call: str) -> dict[str, Any]:
    return {
        "contents": [
            {"parts": [{"functionCall": {"id": call, "name": name, "args": {}}}]},
            {"parts": [{"functionResponse": {"id": call, "name": name, "response": {}}}]},
        ],
        "tools": [{"functionDeclarations": [{"name": name, "parameters": {}}]}],
    }


REQUESTS = {
    "openai-chat": _build_chat_request,
    "openai-responses": _build_responses_request,
    "anthropic": _build_anthropic_request,
    "gemini": _build_gemini_request,
}


@pytest.mark.parametrize("name", [GITHUB, f"get_{GITHUB}", f"{GITHUB}_{'x' * 20}"])
@pytest.mark.parametrize("dialect", REQUESTS)
def test_names_and_ids_stay_names_and_ids_and_the_same_everywhere(dialect, name):
    call = f"call_{GITHUB}_{'y' * 10}"
    body = REQUESTS[dialect](name, call)
    result = mask_body(body, dialect=dialect)
    assert GITHUB.encode() not in result.body
    after = json.loads(result.body)
    assert unmask_body(after, result.secrets) == body
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
    result = mask_body(body)
    assert GITHUB.encode() not in result.body
    assert unmask_body(json.loads(result.body), result.secrets) == body


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
    hiding = create_masker()
    for _ in range(2):  # also when it is sent again
        with pytest.raises(BadRequest, match=where) as refusal:
            mask_body(body, hiding)
        assert GITHUB not in str(refusal.value)
    assert mask_body(build_body("hello"), hiding).body


def test_a_word_of_the_protocol_that_is_somebodys_password_stays_what_it_is():
    hiding = create_masker()
    words = ("assistant", "tool_calls", "function", "tool_call_id", "messages")
    for word in words:
        mask_body(build_body(f'password: "{word}"'), hiding)
    plain = _build_chat_request("name", "c1")
    assert json.loads(mask_body(plain, hiding).body) == plain


def test_a_secret_that_was_reported_in_text_is_hidden_as_a_name_too():
    hiding = create_masker()
    mask_body(build_body("DB_PASSWORD=tr0ub4dor3"), hiding)
    body = _build_chat_request("get_tr0ub4dor3", "call_tr0ub4dor3")
    result = mask_body(body, hiding)
    assert b"tr0ub4dor3" not in result.body
    after = json.loads(result.body)
    assert after["tools"][0]["function"]["name"].startswith("get_SECRET_")
    assert SHORT_ID.fullmatch(after["messages"][2]["tool_call_id"])
    assert unmask_body(after, result.secrets) == body


@pytest.mark.parametrize("length", range(20, 31))
def test_a_name_that_would_grow_too_long_is_hidden_as_a_whole(length):
    hiding = create_masker()
    mask_body(build_body("DB_PASSWORD=tr0ub4dor3"), hiding)
    body = _build_chat_request(f"{'x' * length}_tr0ub4dor3", "c1")
    result = mask_body(body, hiding)
    after = json.loads(result.body)
    assert NAME.fullmatch(after["tools"][0]["function"]["name"])
    assert unmask_body(after, result.secrets) == body


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("get", "call_bbb123"),
        ("bbb123_get", "c1"),
        ("get", f"call_{'y' * 50}_bbb123"),
        (f"{'x' * 50}_bbb123", "c1"),
        ("get", "call_hhh123_bbb123"),
        ("get", "call_bbb123_hhh123"),
    ],
)
def test_a_secret_that_blocks_does_so_in_names_and_ids_beside_others_that_are_hidden(name, call):
    patterns = (
        SecretPattern(id="h", regex="hhh[0-9]{3}"),
        SecretPattern(id="b", regex="bbb[0-9]{3}", mode="block"),
    )
    result = mask_body(
        _build_chat_request(name, call), create_masker(SecretRules(patterns)), dialect="openai-chat"
    )
    assert result.blocked == "b"


@pytest.mark.parametrize("cut", [1, 7, 10_000])
def test_a_tools_name_comes_back_in_a_reply_of_every_dialect(cut):
    placeholder = Placeholders(SEED).create(GITHUB.encode(), "github", "k")
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
        stream = create_restorer(dialect, secrets)
        output = [stream.feed(data[at : at + cut]) for at in range(0, len(data), cut)]
        assert b"".join((*output, stream.close())) == b"data: %b\n\n" % expected
        assert restore_body(dialect, secrets, json.dumps(reply).encode()) == expected


def test_no_placeholder_is_longer_than_the_shortest_identifier_that_a_supplier_takes():
    made = Placeholders(SEED).create(b"x", "a-rule-with-quite-a-long-name", make_letters(20))
    assert len(made) == LONGEST == 40
    assert SHORT_ID.fullmatch(made)
