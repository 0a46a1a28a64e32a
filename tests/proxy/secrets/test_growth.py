"""What both requests begin with is not looked at again, and nothing else comes of it."""

import json
from itertools import takewhile
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.proxy.secrets import growth
from agentd.proxy.secrets.growth import Growth, same
from agentd.proxy.secrets.hiding import Hidden
from agentd.proxy.secrets.request import Apart
from tests.proxy.secrets.bodies import PLACEHOLDER, hidden, new, said
from tests.proxy.secrets.samples import TOKENS

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
        assert same(a, b) == same(b, a) == len(list(alike))


@given(turns=st.lists(TURN, max_size=8))
def test_a_conversation_is_hidden_as_if_each_request_were_the_first_that_is_seen(turns):
    grown, plain = new(), new()
    messages: list[Any] = []
    told = ""
    for turn in turns:
        body = _body(messages, turn, told)
        results = []
        for hiding, least in ((grown, 0), (plain, inf)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(growth, "LEAST", least)
                patch.setattr(growth, "_HEAD", 2)
                results.append(hiding.hide(body, "openai-chat", "k"))
        assert _all(results[0]) == _all(results[1])
        found = PLACEHOLDER.search(results[0].body.decode())
        told = found[0] if found else told


def _body(messages: list[Any], turn: tuple[Any, ...], told: str) -> bytes:
    """The conversation's next request; ``messages`` are changed."""
    how, message, at, more, separators = turn
    message = json.loads(json.dumps(message).replace("<the placeholder before>", told))
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


def _all(result: Hidden) -> tuple[Any, ...]:
    return (
        result.body,
        dict(result.secrets),
        dict(result.found),
        result.blocked,
        [(one.rule, one.place, one.length) for one in result.findings],
    )


def test_a_placeholder_that_was_there_before_is_still_put_back(monkeypatch):
    monkeypatch.setattr(growth, "LEAST", 0)
    monkeypatch.setattr(growth, "_HEAD", 2)
    hiding = new()
    (placeholder,) = hidden(said(f"a {TOKENS['github']}"), hiding).secrets
    messages = [{"role": "user", "content": f"what is {placeholder}?"}]
    for _ in range(3):
        assert hidden({"messages": messages}, hiding).secrets == {placeholder: TOKENS["github"]}
        messages.append({"role": "user", "content": "go on"})
    assert hidden({"messages": messages[1:]}, hiding).secrets == {}


def test_an_element_that_may_go_on_is_not_known(monkeypatch):
    monkeypatch.setattr(growth, "LEAST", 0)
    monkeypatch.setattr(growth, "_HEAD", 2)
    hiding = new()
    hidden({"messages": [12]}, hiding)
    messages = [123, {"content": TOKENS["github"]}]
    assert len(hidden({"messages": messages}, hiding).secrets) == 1


def test_only_so_many_conversations_and_no_giant_are_kept():
    kept: Growth[int] = Growth()
    bodies = [b"%d" % number + b"x" * growth.LEAST for number in range(growth.CONVERSATIONS + 1)]
    for body in bodies:
        kept.keep("k", body, Apart([], [], []), [], -1)
    sizes = [kept.shared("k", body).size for body in bodies]
    assert sizes == [0, *map(len, bodies[1:])]
    assert kept.shared("other", bodies[1]).size == 0
    for body in (b"small", b"x" * (growth.MOST + 1)):
        kept.keep("k", body, Apart([], [], []), [], -1)
        assert kept.shared("k", body).size == 0
