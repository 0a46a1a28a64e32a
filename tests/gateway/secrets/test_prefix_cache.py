"""The common beginning of two requests is scanned once, with the same result."""

import json
from itertools import takewhile
from math import inf
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentd.gateway.secrets import prefix_cache, split_body
from agentd.gateway.secrets.masker import MaskedRequest
from agentd.gateway.secrets.prefix_cache import PrefixCache, measure_common_prefix
from agentd.gateway.secrets.split_body import SplitBody
from tests.gateway.secrets.bodies import PLACEHOLDER, build_body, create_masker, mask_body
from tests.gateway.secrets.samples import TOKENS

WORDS = st.sampled_from(
    [
        *("hello", "", "a,b]}", 'quo"te', TOKENS["github"], TOKENS["openai"]),
        *("what is tr0ub4dor3", "DB_PASSWORD=tr0ub4dor3", "SECRET_", "SECRET_github_aaaa"),
        "<the placeholder before>",
    ]
)
MESSAGE = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": WORDS}),
    st.builds(lambda text: {"content": [{"type": "text", "text": text}]}, WORDS),
)
TURN = st.tuples(
    st.sampled_from(["more", "more", "more", "other", "fewer", "first", "again"]),
    MESSAGE,
    st.integers(0, 5),
    st.sampled_from([{}, {"system": "be brief"}, {"tools": [{"name": "x"}]}, {"user": "Kf83"}]),
    st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :")]),
)


@given(one=st.binary(max_size=12), other=st.binary(max_size=12), more=st.binary(max_size=12))
def test_it_is_known_how_many_bytes_both_begin_with(one, other, more):
    for a, b in ((one, other), (one + other, one + more), (one, one + more)):
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))
        assert measure_common_prefix(a, b) == measure_common_prefix(b, a) == len(list(alike))


def _say(text: str) -> tuple[Any, ...]:
    return "more", {"role": "user", "content": text}, 0, {}, (",", ":")


@example(turns=[_say("a"), _say("b"), _say(TOKENS["github"])], most=2)
@given(turns=st.lists(TURN, max_size=8), most=st.sampled_from([split_body.MOST_PARTS, 2]))
def test_a_conversation_is_hidden_as_if_each_request_were_the_first_that_is_seen(turns, most):
    """Also once a list of it is too long to be taken apart."""
    grown, plain = create_masker(), create_masker()
    messages: list[Any] = []
    output = ""
    for turn in turns:
        body = _build_body(messages, turn, output)
        results = []
        for hiding, least in ((grown, 0), (plain, inf)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(prefix_cache, "LEAST", least)
                patch.setattr(prefix_cache, "_HEAD", 2)
                patch.setattr(split_body, "MOST_PARTS", most)
                results.append(hiding.mask(body, "openai-chat", "k"))
        assert _get_fields(results[0]) == _get_fields(results[1])
        found = PLACEHOLDER.search(results[0].body.decode())
        output = found[0] if found else output


def _build_body(messages: list[Any], turn: tuple[Any, ...], output: str) -> bytes:
    """Build the conversation's next request; ``messages`` are changed."""
    how, message, at, more, separators = turn
    message = json.loads(json.dumps(message).replace("<the placeholder before>", output))
    if how == "more" or not messages:
        messages.append(message)
    elif how == "other":
        messages[at % len(messages)] = message
    elif how == "fewer":
        messages.pop()
    elif how == "first":
        messages.insert(0, message)
    fields = {"model": "m", "messages": messages, **more}
    if at == 5:
        fields = dict(reversed(fields.items()))
    return json.dumps(fields, separators=separators).encode()


def _get_fields(result: MaskedRequest) -> tuple[Any, ...]:
    return (
        result.body,
        dict(result.secrets),
        dict(result.found),
        result.blocked,
        [(one.rule, one.place, one.length) for one in result.findings],
    )


def test_a_placeholder_that_was_there_before_is_still_put_back(monkeypatch):
    monkeypatch.setattr(prefix_cache, "LEAST", 0)
    monkeypatch.setattr(prefix_cache, "_HEAD", 2)
    hiding = create_masker()
    (placeholder,) = mask_body(build_body(f"a {TOKENS['github']}"), hiding).secrets
    messages = [{"role": "user", "content": f"what is {placeholder}?"}]
    for _ in range(3):
        assert mask_body({"messages": messages}, hiding).secrets == {placeholder: TOKENS["github"]}
        messages.append({"role": "user", "content": "go on"})
    assert mask_body({"messages": messages[1:]}, hiding).secrets == {}


def test_an_element_that_may_go_on_is_not_known(monkeypatch):
    monkeypatch.setattr(prefix_cache, "LEAST", 0)
    monkeypatch.setattr(prefix_cache, "_HEAD", 2)
    hiding = create_masker()
    mask_body({"messages": [12]}, hiding)
    messages = [123, {"content": TOKENS["github"]}]
    assert len(mask_body({"messages": messages}, hiding).secrets) == 1


def test_only_so_many_conversations_and_no_giant_are_kept():
    kept: PrefixCache[int] = PrefixCache()
    bodies = [
        b"%d" % number + b"x" * prefix_cache.LEAST
        for number in range(prefix_cache.CONVERSATIONS + 1)
    ]
    for body in bodies:
        kept.store("k", body, SplitBody([], [], []), [], -1)
    sizes = [kept.find_shared("k", body).size for body in bodies]
    assert sizes == [0, *map(len, bodies[1:])]
    assert kept.find_shared("other", bodies[1]).size == 0
    for body in (b"small", b"x" * (prefix_cache.MOST + 1)):
        kept.store("k", body, SplitBody([], [], []), [], -1)
        assert kept.find_shared("k", body).size == 0
