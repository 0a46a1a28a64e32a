"""Requests of callers, in every dialect: what holds for whatever they send."""

import json
import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.errors import BadRequest
from agentd.proxy.dialects.callers import (
    asked_anthropic,
    asked_chat,
    asked_responses,
    embeddings,
)
from agentd.proxy.dialects.callers.asked import DEPTH, opened
from agentd.proxy.dialects.dialect import DIALECTS
from tests.proxy.dialects.callers.asking import JSON, conversations, normal

ASKED = {
    "openai-chat": asked_chat,
    "openai-responses": asked_responses,
    "anthropic": asked_anthropic,
}
GLANCES = [*(module.glance for module in ASKED.values()), embeddings.glance, embeddings.tokens]
PASSING = [*ASKED.values(), embeddings]
FIELDS = sorted(
    {"model", "stream", "stream_options", "models", "input", "background", "n"}
    | {name for module in ASKED.values() for name in module._Request.__struct_fields__}
    | {name for module in ASKED.values() for name in module.RULES.refused}
)
BODIES = st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=9), JSON, max_size=6).map(
    lambda fields: json.dumps({"model": "m", "input": "x", "messages": [], **fields}).encode()
)


ROUNDS = settings(max_examples=60, deadline=None)
"""For what is slow to make up."""


def body(**fields):
    return json.dumps({"model": "m", "input": "x", "messages": [], **fields}).encode()


def least(module, **fields):
    said = {"input": "x"} if module is asked_responses else {"messages": []}
    return json.dumps({"model": "m", **said, **fields}).encode()


@pytest.mark.parametrize("dialect", ASKED)
@ROUNDS
@given(data=st.data())
def test_what_a_dialect_says_is_understood_again(dialect, data):
    conversation = data.draw(conversations(dialect))
    said = DIALECTS[dialect].request(conversation, "m", stream=data.draw(st.booleans()))
    assert ASKED[dialect].understood(said) == normal(conversation)


@pytest.mark.parametrize("ours", DIALECTS)
@pytest.mark.parametrize("theirs", ASKED)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_what_is_understood_is_said_in_any_dialect_or_refused(theirs, ours, data):
    sent = DIALECTS[theirs].request(data.draw(conversations(theirs)), "m")
    try:
        said = DIALECTS[ours].request(ASKED[theirs].understood(sent), "n")
    except BadRequest as error:
        assert error.message
    else:
        assert isinstance(json.loads(said), dict)


@ROUNDS
@given(st.binary() | BODIES | JSON.map(lambda value: json.dumps(value).encode()))
def test_whatever_is_sent_nothing_but_a_bad_request_comes_of_it(sent):
    for reads in (*GLANCES, *(module.understood for module in ASKED.values())):
        try:
            reads(sent)
        except BadRequest as error:
            assert error.message.isprintable() or error.message
    for module in PASSING:
        try:
            module.passed_on(sent, "other")
        except BadRequest:
            continue


@ROUNDS
@given(st.data())
def test_a_body_cut_or_changed_anywhere_is_read_or_refused(data):
    whole = DIALECTS["anthropic"].request(data.draw(conversations("anthropic")), "m")
    at = data.draw(st.integers(0, len(whole) - 1))
    until = at + data.draw(st.integers(0, 2))
    sent = whole[:at] + data.draw(st.binary(max_size=2)) + whole[until:]
    for module in ASKED.values():
        for reads in (module.glance, module.understood):
            try:
                reads(sent)
            except BadRequest:
                continue


@pytest.mark.parametrize("module", PASSING)
@ROUNDS
@given(sent=BODIES, model=st.text(min_size=1, max_size=200))
def test_nothing_is_changed_in_passing_but_the_model_and_that_usage_is_told(module, sent, model):
    try:
        module.glance(sent)
    except BadRequest:
        return
    passed = module.passed_on(sent, model)
    before, after = json.loads(sent), json.loads(passed)
    assert after.pop("model") == model
    if module is asked_chat and before.get("stream"):
        options = after.pop("stream_options")
        assert options.pop("include_usage") is True
        given_options = before.pop("stream_options", None) or {}
        given_options.pop("include_usage", None)
        assert options == given_options
    del before["model"]
    assert after == before
    assert list(after) == list(before)


@pytest.mark.parametrize("module", PASSING)
def test_a_body_in_which_nothing_has_to_change_keeps_every_byte(module):
    sent = b'{ "model" : "m",\t"messages":[ ],"input":"\\u00e4/\\/", "x": 1.0e2,\n "stream":false}'
    assert module.passed_on(sent, "m") == sent
    renamed = module.passed_on(sent, "n")
    assert b'"input":"\\u00e4/\\/"' in renamed
    assert b"1.0e2" in renamed
    assert b'"model":"n"' in renamed


@pytest.mark.parametrize("module", PASSING)
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"[]",
        b'"model"',
        b'{"input":"x"}',
        body(model=None),
        body(model=1),
        body(model=["m"]),
        body(model=""),
        body(model="m" * 201),
        b'\xef\xbb\xbf{"model":"m","input":"x"}',
        '{"model":"m","input":"x"}'.encode("utf-16"),
        b'{"model":"m","input":"\xff"}',
        b'{"model":"m","input":"\\ud800"}',
        b'{"model":"m","input":"x","y":NaN}',
        b'{"model":"m","input":"x","y":1e999}',
        b'{"model":"m","input":"x"} {}',
    ],
)
def test_what_is_no_request_is_refused_at_a_glance(module, sent):
    with pytest.raises(BadRequest):
        module.glance(sent)


@pytest.mark.parametrize("module", PASSING)
@pytest.mark.parametrize(
    "twice",
    [
        b'{"model":"m","input":"x","model":"secret-model"}',
        b'{"model":"m","input":"x","mod\\u0065l":"secret-model"}',
        b'{"model":"m","stream":true,"input":"x","stream":false}',
        b'{"model":"m","input":"x","model":"m"}',
    ],
)
def test_no_field_may_stand_twice_so_what_is_checked_is_what_is_sent(module, twice):
    for reads in (module.glance, lambda sent: module.passed_on(sent, "m")):
        with pytest.raises(BadRequest, match="twice"):
            reads(twice)


@pytest.mark.parametrize("module", PASSING)
@pytest.mark.parametrize(("open_", "close"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")])
@pytest.mark.parametrize("times", [DEPTH, 900, 100_000])
def test_what_is_nested_too_deep_is_refused(module, open_, close, times):
    deep = open_ * times + b"1" + close * times
    with pytest.raises(BadRequest, match="nested deeper"):
        module.glance(b'{"model":"m","input":"x","y":' + deep + b"}")


def test_the_deepest_that_is_allowed():
    for times, fits in ((DEPTH - 1, True), (DEPTH, False)):
        sent = b'{"y":' + b"[" * times + b"1" + b"]" * times + b"}"
        if fits:
            assert "y" in opened(sent)
        else:
            with pytest.raises(BadRequest):
                opened(sent)


def test_a_long_conversation_is_glanced_at_and_passed_on_in_a_blink():
    said = [{"role": "user", "content": "def f(x):\n    return 'a' + x\n" * 120}] * 110
    sent = body(messages=said, input=said, stream=True)
    assert len(sent) > 400_000
    for module in ASKED.values():
        best = min(_seconds(module.glance, sent) for _ in range(5))
        best += min(_seconds(module.passed_on, sent, "n") for _ in range(5))
        assert best < 0.05  # some milliseconds here


def _seconds(function, *arguments):
    begun = time.process_time()
    function(*arguments)
    return time.process_time() - begun


@pytest.mark.parametrize("module", ASKED.values(), ids=ASKED)
def test_a_field_that_nobody_knows_is_refused_by_its_name(module):
    with pytest.raises(BadRequest, match='"frobnicate"'):
        module.understood(least(module, frobnicate=1))
    module.understood(least(module, frobnicate=None))


@pytest.mark.parametrize(
    ("dialect", "field", "told"),
    [
        ("openai-responses", "messages", "/v1/chat/completions and /v1/messages"),
        ("anthropic", "input", "/v1/responses"),
        ("openai-chat", "contents", "/v1beta/models/NAME:generateContent"),
    ],
)
def test_who_speaks_another_dialect_is_told_where_it_is_taken(dialect, field, told):
    module = ASKED[dialect]
    with pytest.raises(BadRequest, match=f'"{field}" is not of this address.*{told}'):
        module.understood(least(module, **{field: []}))


@pytest.mark.parametrize("module", PASSING)
@pytest.mark.parametrize(
    ("sent", "told"), [(b"", "is empty"), (b'{"model":"m","input":"\xff"}', "not in UTF-8")]
)
def test_what_cannot_be_read_is_told_without_the_words_of_a_library(module, sent, told):
    with pytest.raises(BadRequest, match=told):
        module.glance(sent)


@pytest.mark.parametrize("module", ASKED.values(), ids=ASKED)
def test_every_rule_is_for_a_field_that_is_not_read_and_has_its_reason(module):
    rules, read = module.RULES, set(module._Request.__struct_fields__)
    named = set(rules.ignored) | set(rules.neutral) | set(rules.refused)
    assert not named & read
    assert not set(rules.ignored) & (set(rules.neutral) | set(rules.refused))
    assert all(reason.strip() for reason in (*rules.ignored.values(), *rules.refused.values()))
    for name, values in rules.neutral.items():
        for value in values:
            module.understood(least(module, **{name: value}))


@given(st.text())
def test_a_model_is_found_whatever_its_letters(model):
    if 0 < len(model) <= 200:
        assert asked_chat.glance(msgspec.json.encode({"model": model})).model == model


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic"])
@pytest.mark.parametrize("stream", [None, False, True])
@pytest.mark.parametrize("usage", [None, False, True])
def test_what_the_glance_tells_to_be_right_is_passed_on_as_it_is(dialect, stream, usage):
    more = {} if stream is None else {"stream": stream}
    if usage is not None and dialect == "openai-chat":
        more["stream_options"] = {"include_usage": usage}
    said = [{"role": "user", "content": "hi"}]
    sent = body(messages=said, input=said, **more)
    module = ASKED[dialect]
    seen = module.glance(sent)
    if seen.wants_usage or not seen.stream:
        assert module.passed_on(sent, seen.model) is sent
    else:
        assert b'"include_usage":true' in module.passed_on(sent, seen.model)
