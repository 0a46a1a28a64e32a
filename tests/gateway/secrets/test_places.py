"""Every place of a request that holds text is looked at, and no other."""

import base64
import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.secrets.bodies import PLACEHOLDER, create_masker, mask_body, unmask_body
from tests.gateway.secrets.samples import PEM, TOKENS

GITHUB, OPENAI = TOKENS["github"], TOKENS["openai"]

CHAT = [
    {
        "messages": [
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "c", "type": "custom", "custom": {"name": "f", "input": "{}"}}
                ],
            }
        ]
    },
    {"tools": [{"type": "custom", "custom": {"name": "f", "description": "{}"}}]},
    {"messages": [{"role": "system", "content": "{}"}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "{}"}]}]},
    {
        "messages": [
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": "c",
                        "function": {
                            "name": "f",
                            "arguments": '{{"a": [1.0, {{"command": "x\\n{} é"}}]}}',
                        },
                    }
                ],
            }
        ]
    },
    {"messages": [{"role": "tool", "tool_call_id": "c", "content": "{}"}]},
    {"tools": [{"type": "function", "function": {"name": "f", "description": "{}"}}]},
    {
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "f",
                    "parameters": {"properties": {"type": {"default": "{}", "name": "{}"}}},
                },
            }
        ]
    },
    {"user": "{}"},
    {"metadata": {"id": "{}", "{}": "x"}},
]
ANTHROPIC = [
    {"system": "{}"},
    {"system": [{"type": "text", "text": "{}", "cache_control": {"type": "ephemeral"}}]},
    {
        "messages": [
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "tool_use",
                        "id": "t",
                        "name": "f",
                        "input": {"name": "{}", "deep": [{"data": "{}"}], "{}": 1},
                    }
                ],
            }
        ]
    },
    {
        "messages": [
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t",
                        "content": [{"type": "text", "text": "{}"}],
                    }
                ],
            }
        ]
    },
    {
        "messages": [
            {
                "role": "user",
                "content": [
                    {
                        "type": "document",
                        "source": {"type": "text", "media_type": "text/plain", "data": "{}"},
                    }
                ],
            }
        ]
    },
    {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "document", "source": {"type": "content", "content": "{}"}},
                    {
                        "type": "search_result",
                        "source": "https://example.org",
                        "title": "{}",
                        "content": [{"type": "text", "text": "{}"}],
                    },
                ],
            }
        ]
    },
    {"tools": [{"name": "f", "input_schema": {"properties": {"x": {"description": "{}"}}}}]},
]
RESPONSES = [
    {"instructions": "{}"},
    {"input": "{}"},
    {"input": [{"type": "message", "content": [{"type": "input_text", "text": "{}"}]}]},
    {
        "input": [
            {
                "type": "function_call",
                "call_id": "c",
                "name": "f",
                "arguments": '{{"content": "{{\\"key\\": \\"{}\\"}}"}}',
            }
        ]
    },
    {"input": [{"type": "function_call", "call_id": "c", "arguments": 'broken {{"a": "{}'}]},
    {"input": [{"type": "function_call_output", "call_id": "c", "output": "{}"}]},
    {"input": [{"type": "custom_tool_call", "call_id": "c", "input": "{}"}]},
    {"input": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "{}"}]}]},
]
GEMINI = [
    {"systemInstruction": {"parts": [{"text": "{}"}]}},
    {"contents": [{"role": "user", "parts": [{"text": "{}"}]}]},
    {
        "contents": [
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"id": "{}"}}}]}
        ]
    },
    {
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "f", "response": {"output": "{}", "type": "{}"}}}
                ],
            }
        ]
    },
]


def plant_secret(body: Any, secret: str) -> Any:
    if isinstance(body, str):
        return body.format(secret) if "{" in body else body
    if isinstance(body, list):
        return [plant_secret(item, secret) for item in body]
    if isinstance(body, dict):
        return {
            plant_secret(name, secret): plant_secret(item, secret) for name, item in body.items()
        }
    return body


PLACES = [("openai-chat", one) for one in CHAT] + [("anthropic", one) for one in ANTHROPIC]
PLACES += [("openai-responses", one) for one in RESPONSES] + [("gemini", one) for one in GEMINI]


@pytest.mark.parametrize(("dialect", "place"), PLACES)
def test_every_place_that_holds_text_is_looked_at(dialect, place):
    body = plant_secret(place, GITHUB)
    result = mask_body(body, dialect=dialect)
    assert GITHUB.encode() not in result.body
    assert list(result.secrets.values()) == [GITHUB]
    after = json.loads(result.body)
    assert PLACEHOLDER.search(result.body.decode())
    assert json.loads(json.dumps(unmask_body(after, result.secrets))) == unmask_body(body, {})


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "source": {"type": "base64", "data": "A" * 40 + "{}" + "B" * 60}},
        {"type": "thinking", "thinking": "so {} it is", "signature": "{}"},
        {"type": "redacted_thinking", "data": "{}" + "C" * 200},
        {"type": "reasoning", "encrypted_content": "{}"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,{}" + "D" * 90}},
    ],
)
def test_what_is_no_text_is_left_alone(block):
    alphanumeric = TOKENS["twilio"]
    body = {"messages": [{"role": "user", "content": [plant_secret(block, f"/{alphanumeric}/")]}]}
    result = mask_body(body)
    assert result.secrets == {}
    assert json.loads(result.body) == body


def test_a_text_file_in_base64_is_no_picture():
    data = base64.b64encode(f"first\nkey {GITHUB}\n".encode()).decode()
    body = {"input": [{"content": [{"file_data": f"data:text/plain;base64,{data}"}]}]}
    assert data.encode() not in mask_body(body, dialect="openai-responses").body


def test_the_same_bytes_are_looked_at_by_where_they_stand():
    sealed = f"{GITHUB} of which the supplier wrote it"
    body = {"text": {"thinking": sealed}, "metadata": {"thinking": sealed}}
    after = json.loads(mask_body(body).body)
    assert after["text"] == {"thinking": sealed}
    assert GITHUB not in after["metadata"]["thinking"]


def test_a_members_name_shows_a_secret_that_has_no_form():
    body = {"messages": [{"content": [{"type": "tool_use", "input": {"password": "tr0ub4dor"}}]}]}
    assert list(mask_body(body).secrets.values()) == ["tr0ub4dor"]


SHARED = create_masker()
KEYS = itertools.count()
SECRETS = [GITHUB, OPENAI, PEM, TOKENS["jwt"], TOKENS["agentd-key"]]
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=30)
PLANTED = st.lists(TEXT | st.sampled_from([*SECRETS, "\n", " ", '"', "\\", "{"]), max_size=5).map(
    "".join
)
JSON = st.recursive(
    PLANTED | st.integers(-(2**53), 2**53) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
BLOCK = st.one_of(
    PLANTED.map(lambda text: {"type": "text", "text": text}),
    st.dictionaries(TEXT, JSON, max_size=3).map(
        lambda made: {"type": "tool_use", "id": "t", "name": "f", "input": made}
    ),
    st.dictionaries(TEXT, JSON, max_size=3).map(
        lambda made: {"type": "function_call", "arguments": json.dumps(made, ensure_ascii=False)}
    ),
)
REQUEST = st.fixed_dictionaries(
    {
        "model": st.just("m"),
        "messages": st.lists(
            st.fixed_dictionaries({"role": st.just("user"), "content": st.lists(BLOCK)}), max_size=3
        ),
        "metadata": st.dictionaries(TEXT, JSON, max_size=2),
    }
)


@given(REQUEST, st.booleans())
def test_nothing_secret_is_left_and_nothing_else_is_changed(body, as_ascii):
    raw = json.dumps(body, ensure_ascii=as_ascii).encode()
    result = SHARED.mask(raw, "anthropic", f"k{next(KEYS)}")
    after = json.loads(result.body)
    plain = json.dumps(after, ensure_ascii=False)
    for secret in SECRETS:
        assert secret not in plain
        assert json.dumps(secret)[1:-1] not in plain
    assert unmask_body(after, result.secrets) == unmask_body(body, {})
