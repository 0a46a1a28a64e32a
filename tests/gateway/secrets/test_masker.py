"""A supplier never sees a secret; what was said before is not looked through again."""

import json
import threading
import time
from typing import Any

import pytest

from agentd.core.errors import BadRequest
from agentd.gateway.secrets import prefix_cache
from agentd.gateway.secrets.builtin import BUILT_IN
from agentd.gateway.secrets.masker import MaskedRequest, SecretMasker
from agentd.gateway.secrets.rules import Allow, ExactSecret, SecretPattern, SecretRules
from tests.gateway.secrets.bodies import (
    PLACEHOLDER,
    build_body,
    create_masker,
    mask_body,
    unmask_body,
)
from tests.gateway.secrets.samples import PEM, TOKENS, make_letters


@pytest.fixture(autouse=True, params=["large", "any"])
def _requests_of_this_size_are_known_by_their_beginning(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if request.param == "any":
        monkeypatch.setattr(prefix_cache, "LEAST", 0)
        monkeypatch.setattr(prefix_cache, "_HEAD", 2)


GITHUB, OPENAI = TOKENS["github"], TOKENS["openai"]


def test_a_clean_request_is_passed_on_as_it_is():
    body = json.dumps(build_body("hello")).encode()
    result = create_masker().mask(body, "anthropic", "k")
    assert result.body is body
    assert result == MaskedRequest(body)


def test_a_secret_becomes_a_placeholder_and_nothing_else_changes():
    body = b'{ "model":"m" ,\n"messages" : [ {"content": "\\u00e9 %b \\/", "n": 1.0} ] }'
    result = create_masker().mask(body % GITHUB.encode(), "anthropic", "k")
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
    hiding = create_masker()
    (first,) = mask_body(build_body(f"a {GITHUB}"), hiding).secrets
    (again,) = mask_body(build_body(f"b {GITHUB}"), hiding).secrets
    (restarted,) = mask_body(build_body(f"c {GITHUB}"), create_masker()).secrets
    (other,) = mask_body(build_body(f"a {GITHUB}"), hiding, "other").secrets
    (reseeded,) = mask_with_seed(b"x" * 32).secrets
    assert first == again == restarted
    assert len({first, other, reseeded}) == 3


def mask_with_seed(seed: bytes) -> MaskedRequest:
    body = json.dumps(build_body(f"a {GITHUB}")).encode()
    return SecretMasker(SecretRules(BUILT_IN), seed).mask(body, "anthropic", "k")


def test_our_own_placeholder_is_not_hidden_again_and_is_put_back():
    hiding = create_masker()
    (placeholder,) = mask_body(build_body(f"a {GITHUB}"), hiding).secrets
    result = mask_body(build_body(f"API_TOKEN={placeholder} and password: '{placeholder}'"), hiding)
    assert placeholder in result.body.decode()
    assert dict(result.secrets) == {placeholder: GITHUB}
    assert not result.found
    glued = mask_body(build_body(f"API_TOKEN={placeholder}:hunter22-x"), hiding)
    assert b"hunter22" not in glued.body


def test_a_placeholder_of_another_key_stands_for_nothing():
    hiding = create_masker()
    (placeholder,) = mask_body(build_body(f"a {GITHUB}"), hiding).secrets
    assert (
        GITHUB not in mask_body(build_body(f"say {placeholder}"), hiding, "other").secrets.values()
    )


def test_a_forged_placeholder_protects_no_secret():
    forged = "SECRET_github_a2b3c4d5e6f7a2b3c4d5e6"
    result = mask_body(build_body(f"API_TOKEN={forged}"))
    assert forged.encode() not in result.body


def test_a_secret_that_only_its_surroundings_reported_is_hidden_wherever_it_comes_back():
    hiding = create_masker()
    mask_body(build_body("DB_PASSWORD=tr0ub4dor3"), hiding)
    bare = {
        "messages": [
            *build_body("DB_PASSWORD=tr0ub4dor3")["messages"],
            {"role": "user", "content": "the tool printed tr0ub4dor3"},
        ]
    }
    assert b"tr0ub4dor3" not in mask_body(bare, hiding).body


def test_a_secret_that_is_learnt_late_is_hidden_in_what_was_said_and_remembered_before():
    hiding = create_masker()
    early = {"role": "user", "content": "what is tr0ub4dor3 about"}
    pem = {"role": "user", "content": f"{PEM.split(chr(10))[2]} is a line, {PEM[40:90]!r}"}
    assert mask_body({"messages": [early, pem]}, hiding).secrets == {}
    late = {"role": "user", "content": f"DB_PASSWORD=tr0ub4dor3 and\n{PEM}"}
    result = mask_body({"messages": [early, pem, late]}, hiding)
    assert b"tr0ub4dor3" not in result.body
    assert len(set(result.secrets)) == 2


def test_within_one_request_too():
    body = {"messages": [{"content": "tr0ub4dor3!"}, {"content": "password: 'tr0ub4dor3!'"}]}
    assert b"tr0ub4dor3!" not in mask_body(body).body


def test_new_text_is_counted_once():
    hiding = create_masker()
    first = {"role": "user", "content": f"a {GITHUB}"}
    assert dict(mask_body({"messages": [first]}, hiding).found) == {"github": 1}
    second = {"role": "user", "content": f"b {OPENAI} {OPENAI}", "cache_control": {}}
    result = mask_body({"messages": [first, second]}, hiding)
    assert dict(result.found) == {"openai": 2}
    assert set(result.secrets.values()) == {GITHUB, OPENAI}
    del second["cache_control"]
    assert not mask_body({"messages": [first, second]}, hiding).found


def test_a_request_without_history_gets_back_what_its_key_hid_before():
    hiding = create_masker()
    mask_body({"input": f"a {GITHUB}"}, hiding, dialect="openai-responses")
    body = {"input": "go on", "previous_response_id": "resp_1"}
    result = mask_body(body, hiding, dialect="openai-responses")
    assert list(result.secrets.values()) == [GITHUB]
    assert not mask_body({"input": "go on"}, hiding, dialect="openai-responses").secrets
    assert not mask_body(body, hiding, "other", dialect="openai-responses").secrets


def test_what_is_remembered_of_a_key_is_bounded():
    hiding = create_masker()
    for _ in range(11):
        mask_body(build_body(" ".join(f"ghp_{make_letters(36)}" for _ in range(100))), hiding)
    body = {"input": "go on", "previous_response_id": "resp_1"}
    assert len(mask_body(body, hiding, dialect="openai-responses").secrets) == 1000


def test_a_rule_may_block_or_only_report():
    rules = SecretRules(
        (
            SecretPattern(id="b", regex="bbb[0-9]{3}", mode="block"),
            SecretPattern(id="r", regex="rrr[0-9]{3}", mode="report"),
        )
    )
    hiding = create_masker(rules)
    blocked = mask_body(build_body("x bbb123"), hiding)
    assert (blocked.blocked, dict(blocked.found)) == ("b", {"b": 1})
    assert mask_body(build_body("x bbb123"), hiding).blocked == "b", "also when it is sent again"
    reported = mask_body(build_body("x rrr123"), hiding)
    assert (reported.blocked, dict(reported.found)) == ("", {"r": 1})
    assert b"rrr123" in reported.body
    assert not reported.secrets


def test_other_rules_hold_from_the_next_request_on():
    hiding = create_masker(SecretRules())
    assert not mask_body(build_body(GITHUB), hiding).secrets
    hiding.rules = SecretRules(BUILT_IN)
    assert mask_body(build_body(GITHUB), hiding).secrets
    hiding.rules = SecretRules()
    assert not mask_body(build_body(GITHUB), hiding).secrets


@pytest.mark.parametrize(
    "make",
    [
        lambda mode: SecretRules((SecretPattern(id="p", regex="tr0ub4dor-.", mode=mode),)),
        lambda mode: SecretRules((), (ExactSecret(id="v", text="tr0ub4dor-3", mode=mode),)),
    ],
    ids=["pattern", "value"],
)
def test_what_was_masked_is_restored_as_long_as_its_rule_masks(make):
    masks, reports = make("hide"), make("report")
    hiding = create_masker(SecretRules((*masks.rules, *BUILT_IN), masks.values))
    (placeholder,) = mask_body(build_body("tr0ub4dor-3"), hiding).secrets
    asked = build_body(f"what is {placeholder}?")
    hiding.rules = masks
    assert mask_body(asked, hiding).secrets == {placeholder: "tr0ub4dor-3"}
    hiding.rules = reports
    assert mask_body(asked, hiding).secrets == {}


@pytest.mark.parametrize(
    "change",
    [
        {"allow": Allow(stopwords=("DOR-33",))},
        {"allow": Allow(regexes=("dor-[0-9]",))},
        {"entropy": 3.0},
    ],
)
def test_what_its_rule_allows_since_is_not_masked_any_more(change):
    asked = build_body("ooooodor-33 and tr0ub4dor-x")
    masks = SecretRules((SecretPattern(id="p", regex=r"\w+dor-\w+"),))
    allows = SecretRules((SecretPattern(id="p", regex=r"\w+dor-\w+", **change),))
    hiding = create_masker(masks)
    learnt = hiding.mask(json.dumps(asked).encode(), "anthropic", "k").learnt
    assert len(learnt) == 2
    hiding.rules = allows
    assert set(mask_body(asked, hiding).secrets.values()) == {"tr0ub4dor-x"}
    restarted = create_masker(allows)
    restarted.remember(learnt)
    assert set(mask_body(asked, restarted).secrets.values()) == {"tr0ub4dor-x"}


def test_exact_values_are_hidden_in_every_writing_of_json():
    rules = SecretRules((), (ExactSecret(id="v", text="grüße/aus\nnah"),))
    text = "xgrüße/aus\nnahx"
    for body in (
        json.dumps(build_body(text)),
        json.dumps(build_body(text), ensure_ascii=False),
        json.dumps(build_body(text)).replace("/", "\\/"),
        json.dumps(build_body(text)).replace("a", "\\u0061"),
    ):
        result = create_masker(rules).mask(body.encode(), "anthropic", "k")
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
        create_masker().mask(body, "anthropic", "k")


def test_a_sample_shows_rule_place_and_length_and_never_a_value():
    text = f"é first\nthen {GITHUB} and\nDB_PASSWORD=tr0ub4dor3"
    github, env = create_masker().find_in_sample(text)
    assert (github.rule, github.line, github.length) == ("github", 2, 40)
    assert text[github.offset : github.offset + github.length] == GITHUB
    assert (env.rule, env.line, env.length) == ("env-value", 3, 10)
    assert GITHUB not in repr(github)
    assert github.digest == create_masker().find_in_sample(GITHUB)[0].digest
    assert not mask_body({"input": "x", "previous_response_id": "r"}).secrets


def test_two_threads_hide_at_once():
    hiding = create_masker()
    bodies = [
        [
            build_body(f"n {i} {j} DB_PASSWORD=tr0ub{i}dor{j} ghp_{make_letters(36)}")
            for j in range(60)
        ]
        for i in range(4)
    ]
    wrong: list[Any] = []

    def work(mine: list[Any]) -> None:
        for body in mine:
            result = mask_body(body, hiding)
            if unmask_body(json.loads(result.body), result.secrets) != body or not result.secrets:
                wrong.append(body)

    threads = [threading.Thread(target=work, args=(one,)) for one in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_growing_conversation_costs_only_its_new_part():
    words = " ".join(make_letters(6) for _ in range(60_000))
    messages = [
        {"role": "user", "content": words[at : at + 4000]} for at in range(0, 400_000, 4000)
    ]
    hiding = create_masker()
    mask_body({"messages": messages}, hiding)

    def cost(body: bytes, key: str = "k") -> float:
        began = time.process_time()
        hiding.mask(body, "anthropic", key)
        return time.process_time() - began

    times = []
    for turn in range(5):
        messages.append({"role": "user", "content": f"turn {turn}: {GITHUB}"})
        times.append(cost(json.dumps({"messages": messages}).encode()))
    body = json.dumps({"messages": messages}).encode()
    fresh = min(cost(body, key) for key in ("a", "b", "c"))
    assert min(times) < fresh / 2
