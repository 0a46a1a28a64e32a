"""A supplier never sees a secret; what was said before is not looked through again."""

import json
import threading
import time
from typing import Any

import pytest

from agentd.errors import BadRequest
from agentd.proxy.secrets import growth
from agentd.proxy.secrets.builtin import BUILT_IN
from agentd.proxy.secrets.hiding import Hidden, Hiding
from agentd.proxy.secrets.rules import Rule, Rules, Value
from tests.proxy.secrets.bodies import PLACEHOLDER, hidden, new, put_back, said
from tests.proxy.secrets.samples import PEM, TOKENS, letters


@pytest.fixture(autouse=True, params=["large", "any"])
def _requests_of_this_size_are_known_by_their_beginning(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if request.param == "any":
        monkeypatch.setattr(growth, "LEAST", 0)
        monkeypatch.setattr(growth, "_HEAD", 2)


GITHUB, OPENAI = TOKENS["github"], TOKENS["openai"]


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
    hiding.rules = Rules(BUILT_IN)
    assert hidden(said(GITHUB), hiding).secrets
    hiding.rules = Rules()
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


def test_a_growing_conversation_costs_only_its_new_part():
    words = " ".join(letters(6) for _ in range(60_000))
    messages = [
        {"role": "user", "content": words[at : at + 4000]} for at in range(0, 400_000, 4000)
    ]
    hiding = new()
    hidden({"messages": messages}, hiding)

    def cost(body: bytes, key: str = "k") -> float:
        began = time.process_time()
        hiding.hide(body, "anthropic", key)
        return time.process_time() - began

    times = []
    for turn in range(5):
        messages.append({"role": "user", "content": f"turn {turn}: {GITHUB}"})
        times.append(cost(json.dumps({"messages": messages}).encode()))
    body = json.dumps({"messages": messages}).encode()
    fresh = min(cost(body, key) for key in ("a", "b", "c"))
    assert min(times) < fresh / 2
