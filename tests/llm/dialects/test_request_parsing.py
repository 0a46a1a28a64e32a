"""Requests of callers, in every dialect: what holds for whatever they send."""

import json
from functools import partial

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.core.errors import BadRequest
from agentd.llm.dialects.anthropic import request as anthropic_request
from agentd.llm.dialects.dialect import DIALECTS
from agentd.llm.dialects.embeddings import openai as openai_embeddings
from agentd.llm.dialects.openai_chat import request as openai_chat_request
from agentd.llm.dialects.openai_responses import request as openai_responses_request
from agentd.llm.dialects.request_parsing import MAX_DEPTH, decode_fields
from tests.llm.dialects.asking import JSON, draw_conversation, normalize
from tests.support.examples import limit_examples
from tests.support.processor import measure_seconds, measure_slowness

ASKED = {
    "openai-chat": openai_chat_request,
    "openai-responses": openai_responses_request,
    "anthropic": anthropic_request,
}
GLANCES = [
    *(module.peek for module in ASKED.values()),
    openai_embeddings.peek,
    openai_embeddings.estimate_tokens,
]
PASSING = [*ASKED.values(), openai_embeddings]
FIELDS = sorted(
    {"model", "stream", "stream_options", "models", "input", "background", "n"}
    | {name for module in ASKED.values() for name in module._Request.__struct_fields__}
    | {name for module in ASKED.values() for name in module.RULES.refused}
)
BODIES = st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=9), JSON, max_size=6).map(
    lambda fields: json.dumps({"model": "m", "input": "x", "messages": [], **fields}).encode()
)


ROUNDS = settings(max_examples=limit_examples(60), deadline=None)
"""For what is slow to make up."""


def build_body(**fields):
    return json.dumps({"model": "m", "input": "x", "messages": [], **fields}).encode()


def build_minimal_body(module, **fields):
    said = {"input": "x"} if module is openai_responses_request else {"messages": []}
    return json.dumps({"model": "m", **said, **fields}).encode()


@pytest.mark.parametrize("dialect", ASKED)
@ROUNDS
@given(data=st.data())
def test_what_a_dialect_says_is_understood_again(dialect, data):
    conversation = data.draw(draw_conversation(dialect))
    said = DIALECTS[dialect].encode_request(conversation, "m", stream=data.draw(st.booleans()))
    assert ASKED[dialect].parse_request(said) == normalize(conversation)


@pytest.mark.parametrize("ours", DIALECTS)
@pytest.mark.parametrize("theirs", ASKED)
@settings(max_examples=limit_examples(15), deadline=None)
@given(data=st.data())
def test_what_is_understood_is_said_in_any_dialect_or_refused(theirs, ours, data):
    sent = DIALECTS[theirs].encode_request(data.draw(draw_conversation(theirs)), "m")
    try:
        said = DIALECTS[ours].encode_request(ASKED[theirs].parse_request(sent), "n")
    except BadRequest as error:
        assert error.message
    else:
        assert isinstance(json.loads(said), dict)


@ROUNDS
@given(st.binary() | BODIES | JSON.map(lambda value: json.dumps(value).encode()))
def test_whatever_is_sent_nothing_but_a_bad_request_comes_of_it(sent):
    for reads in (*GLANCES, *(module.parse_request for module in ASKED.values())):
        try:
            reads(sent)
        except BadRequest as error:
            assert error.message.isprintable() or error.message
    for module in PASSING:
        try:
            module.rewrite_for_passthrough(sent, "other")
        except BadRequest:
            continue


@ROUNDS
@given(st.data())
def test_a_body_cut_or_changed_anywhere_is_read_or_refused(data):
    whole = DIALECTS["anthropic"].encode_request(data.draw(draw_conversation("anthropic")), "m")
    at = data.draw(st.integers(0, len(whole) - 1))
    until = at + data.draw(st.integers(0, 2))
    sent = whole[:at] + data.draw(st.binary(max_size=2)) + whole[until:]
    for module in ASKED.values():
        for reads in (module.peek, module.parse_request):
            try:
                reads(sent)
            except BadRequest:
                continue


@pytest.mark.parametrize("module", PASSING)
@ROUNDS
@given(sent=BODIES, model=st.text(min_size=1, max_size=200))
def test_nothing_is_changed_in_passing_but_the_model_and_that_usage_is_reported(
    module, sent, model
):
    try:
        module.peek(sent)
    except BadRequest:
        return
    passed = module.rewrite_for_passthrough(sent, model)
    before, after = json.loads(sent), json.loads(passed)
    assert after.pop("model") == model
    if module is openai_chat_request and before.get("stream"):
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
    assert module.rewrite_for_passthrough(sent, "m") == sent
    renamed = module.rewrite_for_passthrough(sent, "n")
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
        build_body(model=None),
        build_body(model=1),
        build_body(model=["m"]),
        build_body(model=""),
        build_body(model="m" * 201),
        b'\xef\xbb\xbf{"model":"m","input":"x"}',
        '{"model":"m","input":"x"}'.encode("utf-16"),
        b'{"model":"m","input":"\xff"}',
        b'{"model":"m","input":"\\ud800"}',
        b'{"model":"m","input":"x","y":NaN}',
        b'{"model":"m","input":"x","y":1e999}',
        b'{"model":"m","input":"x"} {}',
    ],
)
def test_what_is_no_request_is_refused_in_short(module, sent):
    with pytest.raises(BadRequest):
        module.peek(sent)


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
    for reads in (module.peek, lambda sent: module.rewrite_for_passthrough(sent, "m")):
        with pytest.raises(BadRequest, match="repeated"):
            reads(twice)


@pytest.mark.parametrize("module", PASSING)
@pytest.mark.parametrize(("open_", "close"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")])
@pytest.mark.parametrize("times", [MAX_DEPTH, 900, 100_000])
def test_what_is_nested_too_deep_is_refused(module, open_, close, times):
    deep = open_ * times + b"1" + close * times
    with pytest.raises(BadRequest, match="nested deeper"):
        module.peek(b'{"model":"m","input":"x","y":' + deep + b"}")


def test_the_deepest_that_is_allowed():
    for times, fits in ((MAX_DEPTH - 1, True), (MAX_DEPTH, False)):
        sent = b'{"y":' + b"[" * times + b"1" + b"]" * times + b"}"
        if fits:
            assert "y" in decode_fields(sent)
        else:
            with pytest.raises(BadRequest):
                decode_fields(sent)


def test_a_long_conversation_is_glanced_at_and_passed_on_in_a_blink():
    said = [{"role": "user", "content": "def f(x):\n    return 'a' + x\n" * 120}] * 110
    sent = build_body(messages=said, input=said, stream=True)
    assert len(sent) > 400_000
    for module in ASKED.values():
        best = min(measure_seconds(module.peek, sent) for _ in range(5))
        best += min(
            measure_seconds(partial(module.rewrite_for_passthrough, model="n"), sent)
            for _ in range(5)
        )
        assert best < 0.05 or best < 0.05 * measure_slowness()  # some milliseconds here


@pytest.mark.parametrize("module", ASKED.values(), ids=ASKED)
def test_a_field_that_nobody_knows_is_refused_by_its_name(module):
    with pytest.raises(BadRequest, match='"frobnicate"'):
        module.parse_request(build_minimal_body(module, frobnicate=1))
    module.parse_request(build_minimal_body(module, frobnicate=None))


@pytest.mark.parametrize(
    ("dialect", "field", "result"),
    [
        ("openai-responses", "messages", "/v1/chat/completions and /v1/messages"),
        ("anthropic", "input", "/v1/responses"),
        ("openai-chat", "contents", "/v1beta/models/NAME:generateContent"),
    ],
)
def test_a_client_that_speaks_another_dialect_is_shown_where_it_is_taken(dialect, field, result):
    module = ASKED[dialect]
    with pytest.raises(BadRequest, match=f'"{field}" is not a field of this endpoint.*{result}'):
        module.parse_request(build_minimal_body(module, **{field: []}))


@pytest.mark.parametrize("module", PASSING)
@pytest.mark.parametrize(
    ("sent", "result"), [(b"", "is empty"), (b'{"model":"m","input":"\xff"}', "not UTF-8")]
)
def test_what_cannot_be_read_is_reported_without_the_words_of_a_library(module, sent, result):
    with pytest.raises(BadRequest, match=result):
        module.peek(sent)


@pytest.mark.parametrize("module", ASKED.values(), ids=ASKED)
def test_every_rule_is_for_a_field_that_is_not_read_and_has_its_reason(module):
    rules, read = module.RULES, set(module._Request.__struct_fields__)
    named = set(rules.ignored) | set(rules.neutral) | set(rules.refused)
    assert not named & read
    assert not set(rules.ignored) & (set(rules.neutral) | set(rules.refused))
    assert all(reason.strip() for reason in (*rules.ignored.values(), *rules.refused.values()))
    for name, values in rules.neutral.items():
        for value in values:
            module.parse_request(build_minimal_body(module, **{name: value}))


@given(st.text())
def test_a_model_is_found_whatever_its_letters(model):
    if 0 < len(model) <= 200:
        assert openai_chat_request.peek(msgspec.json.encode({"model": model})).model == model


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic"])
@pytest.mark.parametrize("stream", [None, False, True])
@pytest.mark.parametrize("usage", [None, False, True])
def test_what_the_glance_shows_to_be_right_is_passed_on_as_it_is(dialect, stream, usage):
    more = {} if stream is None else {"stream": stream}
    if usage is not None and dialect == "openai-chat":
        more["stream_options"] = {"include_usage": usage}
    said = [{"role": "user", "content": "hi"}]
    sent = build_body(messages=said, input=said, **more)
    module = ASKED[dialect]
    seen = module.peek(sent)
    if seen.wants_usage or not seen.stream:
        assert module.rewrite_for_passthrough(sent, seen.model) is sent
    else:
        assert b'"include_usage":true' in module.rewrite_for_passthrough(sent, seen.model)
