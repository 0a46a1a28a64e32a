"""A supplier never sees a secret, and sees every other byte as it was."""

import base64
import itertools
import json
import re
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.errors import BadRequest
from agentd.proxy.secrets.builtin import BUILT_IN
from agentd.proxy.secrets.hiding import Hidden, Hiding
from agentd.proxy.secrets.rules import Rule, Rules, Value
from tests.proxy.secrets.samples import PEM, TOKENS, letters

SEED = bytes(range(32))
GITHUB, OPENAI = TOKENS["github"], TOKENS["openai"]
PLACEHOLDER = re.compile(r"SECRET_[a-z0-9_]+?_[a-z2-7]{22}")


def new(rules: Rules | None = None) -> Hiding:
    return Hiding(rules or Rules(BUILT_IN), SEED)


def hidden(body: Any, hiding: Hiding | None = None, key: str = "k", dialect: Any = "anthropic"):
    return (hiding or new()).hide(json.dumps(body).encode(), dialect, key)


def said(text: str) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}]}


def put_back(body: Any, secrets: Any) -> Any:
    """The placeholders in a decoded body replaced, in JSON texts too."""
    if isinstance(body, str):
        return PLACEHOLDER.sub(lambda one: secrets[one[0]], body)
    if isinstance(body, list):
        return [put_back(item, secrets) for item in body]
    if isinstance(body, dict):
        return {
            put_back(name, secrets): (
                json.dumps(put_back(json.loads(item), secrets))
                if name == "arguments" and str(item)[:1] in ("{", "[")
                else put_back(item, secrets)
            )
            for name, item in body.items()
        }
    return body


def test_a_clean_request_is_passed_on_as_it_is():
    body = json.dumps(said("hello")).encode()
    result = new().hide(body, "anthropic", "k")
    assert result.body is body
    assert result == Hidden(body)


def test_a_secret_becomes_a_placeholder_and_nothing_else_changes():
    body = b'{ "model":"m" ,\n"messages" : [ {"content": "\\u00e9 %b \\/", "n": 1.0} ] }'
    result = new().hide(body % GITHUB.encode(), "anthropic", "k")
    ((placeholder, value),) = result.secrets.items()
    assert value == GITHUB
    assert PLACEHOLDER.fullmatch(placeholder)
    assert result.body == body % placeholder.encode()
    assert dict(result.found) == {"github": 1}
    (finding,) = result.findings
    assert (finding.rule, finding.place, finding.length) == ("github", "/messages/0/content", 40)
    assert GITHUB not in repr(result)
    assert GITHUB not in repr(finding)


CHAT = [
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


def planted(body: Any, secret: str) -> Any:
    if isinstance(body, str):
        return body.format(secret) if "{" in body else body
    if isinstance(body, list):
        return [planted(item, secret) for item in body]
    if isinstance(body, dict):
        return {planted(name, secret): planted(item, secret) for name, item in body.items()}
    return body


PLACES = [("openai-chat", one) for one in CHAT] + [("anthropic", one) for one in ANTHROPIC]
PLACES += [("openai-responses", one) for one in RESPONSES] + [("gemini", one) for one in GEMINI]


@pytest.mark.parametrize(("dialect", "place"), PLACES)
def test_every_place_that_holds_text_is_looked_at(dialect, place):
    body = planted(place, GITHUB)
    result = hidden(body, dialect=dialect)
    assert GITHUB.encode() not in result.body
    assert list(result.secrets.values()) == [GITHUB]
    after = json.loads(result.body)
    assert PLACEHOLDER.search(result.body.decode())
    assert json.loads(json.dumps(put_back(after, result.secrets))) == put_back(body, {})


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "source": {"type": "base64", "data": "A" * 40 + "{}" + "B" * 60}},
        {"type": "thinking", "thinking": "so {} it is", "signature": "{}"},
        {"type": "redacted_thinking", "data": "{}" + "C" * 200},
        {"type": "reasoning", "encrypted_content": "{}"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,{}" + "D" * 90}},
        {"type": "tool_result", "tool_use_id": "{}"},
    ],
)
def test_what_is_no_text_is_left_alone(block):
    alphanumeric = TOKENS["twilio"]
    body = {"messages": [{"role": "user", "content": [planted(block, f"/{alphanumeric}/")]}]}
    result = hidden(body)
    assert result.secrets == {}
    assert json.loads(result.body) == body


def test_a_text_file_in_base64_is_no_picture():
    data = base64.b64encode(f"first\nkey {GITHUB}\n".encode()).decode()
    body = {"input": [{"content": [{"file_data": f"data:text/plain;base64,{data}"}]}]}
    assert data.encode() not in hidden(body, dialect="openai-responses").body


def test_a_members_name_tells_a_secret_that_has_no_form():
    body = {"messages": [{"content": [{"type": "tool_use", "input": {"password": "tr0ub4dor"}}]}]}
    assert list(hidden(body).secrets.values()) == ["tr0ub4dor"]


def test_the_same_secret_has_the_same_placeholder_in_a_key_and_another_in_another():
    hiding = new()
    (first,) = hidden(said(f"a {GITHUB}"), hiding).secrets
    (again,) = hidden(said(f"b {GITHUB}"), hiding).secrets
    (restarted,) = hidden(said(f"c {GITHUB}"), new()).secrets
    (other,) = hidden(said(f"a {GITHUB}"), hiding, "other").secrets
    (reseeded,) = hidden_with_seed(b"x" * 32).secrets
    assert first == again == restarted
    assert len({first, other, reseeded}) == 3


def hidden_with_seed(seed: bytes) -> Hidden:
    body = json.dumps(said(f"a {GITHUB}")).encode()
    return Hiding(Rules(BUILT_IN), seed).hide(body, "anthropic", "k")


def test_our_own_placeholder_is_not_hidden_again_and_is_put_back():
    hiding = new()
    (placeholder,) = hidden(said(f"a {GITHUB}"), hiding).secrets
    result = hidden(said(f"API_TOKEN={placeholder} and password: '{placeholder}'"), hiding)
    assert placeholder in result.body.decode()
    assert dict(result.secrets) == {placeholder: GITHUB}
    assert not result.found
    glued = hidden(said(f"API_TOKEN={placeholder}:hunter22-x"), hiding)
    assert b"hunter22" not in glued.body


def test_a_placeholder_of_another_key_stands_for_nothing():
    hiding = new()
    (placeholder,) = hidden(said(f"a {GITHUB}"), hiding).secrets
    assert GITHUB not in hidden(said(f"say {placeholder}"), hiding, "other").secrets.values()


def test_a_forged_placeholder_protects_no_secret():
    forged = "SECRET_github_a2b3c4d5e6f7a2b3c4d5e6"
    result = hidden(said(f"API_TOKEN={forged}"))
    assert forged.encode() not in result.body


def test_a_secret_that_only_its_surroundings_told_is_hidden_wherever_it_comes_back():
    hiding = new()
    hidden(said("DB_PASSWORD=tr0ub4dor3"), hiding)
    bare = {
        "messages": [
            *said("DB_PASSWORD=tr0ub4dor3")["messages"],
            {"role": "user", "content": "the tool printed tr0ub4dor3"},
        ]
    }
    assert b"tr0ub4dor3" not in hidden(bare, hiding).body


def test_a_secret_that_is_learnt_late_is_hidden_in_what_was_said_and_remembered_before():
    hiding = new()
    early = {"role": "user", "content": "what is tr0ub4dor3 about"}
    pem = {"role": "user", "content": f"{PEM.split(chr(10))[2]} is a line, {PEM[40:90]!r}"}
    assert hidden({"messages": [early, pem]}, hiding).secrets == {}
    late = {"role": "user", "content": f"DB_PASSWORD=tr0ub4dor3 and\n{PEM}"}
    result = hidden({"messages": [early, pem, late]}, hiding)
    assert b"tr0ub4dor3" not in result.body
    assert len(set(result.secrets)) == 2


def test_within_one_request_too():
    body = {"messages": [{"content": "tr0ub4dor3!"}, {"content": "password: 'tr0ub4dor3!'"}]}
    assert b"tr0ub4dor3!" not in hidden(body).body


def test_new_text_is_counted_once():
    hiding = new()
    first = {"role": "user", "content": f"a {GITHUB}"}
    assert dict(hidden({"messages": [first]}, hiding).found) == {"github": 1}
    second = {"role": "user", "content": f"b {OPENAI} {OPENAI}", "cache_control": {}}
    result = hidden({"messages": [first, second]}, hiding)
    assert dict(result.found) == {"openai": 2}
    assert set(result.secrets.values()) == {GITHUB, OPENAI}
    del second["cache_control"]
    assert not hidden({"messages": [first, second]}, hiding).found


def test_a_request_without_history_gets_back_what_its_key_hid_before():
    hiding = new()
    hidden({"input": f"a {GITHUB}"}, hiding, dialect="openai-responses")
    body = {"input": "go on", "previous_response_id": "resp_1"}
    result = hidden(body, hiding, dialect="openai-responses")
    assert list(result.secrets.values()) == [GITHUB]
    assert not hidden({"input": "go on"}, hiding, dialect="openai-responses").secrets
    assert not hidden(body, hiding, "other", dialect="openai-responses").secrets


def test_what_is_remembered_of_a_key_is_bounded():
    hiding = new()
    for _ in range(11):
        hidden(said(" ".join(f"ghp_{letters(36)}" for _ in range(100))), hiding)
    body = {"input": "go on", "previous_response_id": "resp_1"}
    assert len(hidden(body, hiding, dialect="openai-responses").secrets) == 1000


def test_a_rule_may_block_or_only_report():
    rules = Rules(
        (
            Rule(id="b", regex="bbb[0-9]{3}", mode="block"),
            Rule(id="r", regex="rrr[0-9]{3}", mode="report"),
        )
    )
    hiding = new(rules)
    blocked = hidden(said("x bbb123"), hiding)
    assert (blocked.blocked, dict(blocked.found)) == ("b", {"b": 1})
    assert hidden(said("x bbb123"), hiding).blocked == "b", "also when it is sent again"
    reported = hidden(said("x rrr123"), hiding)
    assert (reported.blocked, dict(reported.found)) == ("", {"r": 1})
    assert b"rrr123" in reported.body
    assert not reported.secrets


def test_other_rules_hold_from_the_next_request_on():
    hiding = new(Rules())
    assert not hidden(said(GITHUB), hiding).secrets
    hiding.use(Rules(BUILT_IN))
    assert hidden(said(GITHUB), hiding).secrets
    hiding.use(Rules())
    assert not hidden(said(GITHUB), hiding).secrets


def test_exact_values_are_hidden_in_every_writing_of_json():
    rules = Rules((), (Value(id="v", text="grüße/aus\nnah"),))
    text = "xgrüße/aus\nnahx"
    for body in (
        json.dumps(said(text)),
        json.dumps(said(text), ensure_ascii=False),
        json.dumps(said(text)).replace("/", "\\/"),
        json.dumps(said(text)).replace("a", "\\u0061"),
    ):
        result = new(rules).hide(body.encode(), "anthropic", "k")
        assert list(result.secrets.values()) == ["grüße/aus\nnah"]
        ((placeholder, _),) = result.secrets.items()
        assert json.loads(result.body)["messages"][0]["content"] == f"x{placeholder}x"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"a":1,"a":2}',
        b'{"a":"x","b":1,"a":"x"}',
        b'{"a":1} x',
        b"[" * 100_000,
        b'{"a":"\\ud800"}',
        b"\xff\xfe",
    ],
)
def test_what_is_no_request_is_refused(body):
    with pytest.raises(BadRequest):
        new().hide(body, "anthropic", "k")


def test_a_sample_tells_rule_place_and_length_and_never_a_value():
    text = f"é first\nthen {GITHUB} and\nDB_PASSWORD=tr0ub4dor3"
    github, env = new().sample(text)
    assert (github.rule, github.line, github.length) == ("github", 2, 40)
    assert text[github.offset : github.offset + github.length] == GITHUB
    assert (env.rule, env.line, env.length) == ("env-value", 3, 10)
    assert GITHUB not in repr(github)
    assert github.digest == new().sample(GITHUB)[0].digest
    assert not hidden({"input": "x", "previous_response_id": "r"}).secrets


def test_two_threads_hide_at_once():
    hiding = new()
    bodies = [
        [said(f"n {i} {j} DB_PASSWORD=tr0ub{i}dor{j} ghp_{letters(36)}") for j in range(60)]
        for i in range(4)
    ]
    wrong: list[Any] = []

    def work(mine: list[Any]) -> None:
        for body in mine:
            result = hidden(body, hiding)
            if put_back(json.loads(result.body), result.secrets) != body or not result.secrets:
                wrong.append(body)

    threads = [threading.Thread(target=work, args=(one,)) for one in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


SHARED = new()
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
    result = SHARED.hide(raw, "anthropic", f"k{next(KEYS)}")
    after = json.loads(result.body)
    plain = json.dumps(after, ensure_ascii=False)
    for secret in SECRETS:
        assert secret not in plain
        assert json.dumps(secret)[1:-1] not in plain
    assert put_back(after, result.secrets) == put_back(body, {})


def test_a_growing_conversation_costs_only_its_new_part():
    words = " ".join(letters(6) for _ in range(60_000))
    messages = [
        {"role": "user", "content": words[at : at + 4000]} for at in range(0, 400_000, 4000)
    ]
    hiding = new()
    hidden({"messages": messages}, hiding)

    def cost(body: bytes, key: str = "k") -> float:
        began = time.perf_counter()
        hiding.hide(body, "anthropic", key)
        return time.perf_counter() - began

    times = []
    for turn in range(5):
        messages.append({"role": "user", "content": f"turn {turn}: {GITHUB}"})
        times.append(cost(json.dumps({"messages": messages}).encode()))
    body = json.dumps({"messages": messages}).encode()
    fresh = min(cost(body, key) for key in ("a", "b", "c"))
    assert min(times) < fresh / 2
