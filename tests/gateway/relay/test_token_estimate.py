"""Uncounted tokens are estimated from the bytes: never too few, and not many times too many."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.gateway.relay.token_estimate import OutputTokenEstimator
from tests.supplier import chat, gemini, messages, responses
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Call, Say, Think, Tokens
from tests.support.examples import limit_examples

WORDS = "Then the file is read, line by line, and whatever is found in it is told at once. " * 4
REQUEST = {
    "model": "m",
    "stream": True,
    "instructions": "You are a coding agent. " * 800,
    "tools": [{"type": "function", "name": "shell", "parameters": {}, "description": WORDS * 20}],
    "input": "Go on",
}
STREAMS = {
    "openai-chat": chat.render_stream,
    "openai-responses": responses.render_stream,
    "anthropic": messages.render_stream,
    "gemini": gemini.render_stream,
}
REQUEST_BYTES = len(json.dumps(REQUEST))


def build_request() -> Request:
    return Request("POST", "/v1/responses", {}, REQUEST)


def build_stream(*parts):
    """Build a stream as OpenAI sends it: with the request twice at its beginning, then once."""
    answer = Answer(parts, None)
    stream = b"".join(responses.render_stream(answer, build_request(), 1))
    assert len(stream) > 3 * REQUEST_BYTES
    return stream


def estimate_tokens(*portions, dialect="openai-responses"):
    written = OutputTokenEstimator(dialect)
    for portion in portions:
        written.feed(portion)
    return written.tokens


@pytest.mark.parametrize(
    "part",
    [Say(WORDS), Say(WORDS, cut=12), Think(WORDS), Call("shell", {"text": WORDS})],
    ids=["words", "pieces", "thoughts", "a call"],
)
def test_a_response_is_judged_by_what_is_new_in_its_stream(part):
    true = len(WORDS.split())
    assert true <= estimate_tokens(build_stream(part)) <= 2 * true


def test_a_response_that_is_cut_is_judged_by_what_was_reported_until_then():
    stream = build_stream(Say(WORDS))
    events = [event + b"\n\n" for event in stream.split(b"\n\n")]
    first = next(n for n, event in enumerate(events) if b".delta" in event)
    assert estimate_tokens(*events[:first]) == 0
    assert 30 <= estimate_tokens(*events[: first + 30]) <= 60


@pytest.mark.parametrize("cut", [0, 1, 12, 80])
@pytest.mark.parametrize("dialect", STREAMS)
def test_frames_count_in_no_dialect(dialect, cut):
    part, stream = Say(WORDS, cut), STREAMS[dialect]
    events = stream(Answer((part,), None), build_request(), 1)
    least = max(len(part.split()), len(WORDS.split()))
    assert least <= estimate_tokens(*events, dialect=dialect) <= 3 * least


@settings(deadline=None, max_examples=limit_examples(50))
@given(st.lists(st.integers(0, 20_000), max_size=20))
def test_it_makes_little_difference_how_the_stream_is_cut(cuts):
    stream = build_stream(Say(WORDS))
    places = sorted({0, *(cut % len(stream) for cut in cuts), len(stream)})
    portions = [stream[a:b] for a, b in pairwise(places)]
    true = len(WORDS.split())
    assert 0.7 * true <= estimate_tokens(*portions) <= 3 * true


@settings(deadline=None)
@given(st.text(min_size=1, max_size=2000))
def test_a_whole_reply_is_at_least_what_was_said_and_not_what_was_asked(text):
    body = json.dumps(
        responses.render_reply(Answer((Say(text),), Tokens()), build_request(), 1)
    ).encode()
    written = OutputTokenEstimator("openai-responses")
    written.set_body(body)
    assert len(text.encode()) / 8 <= written.tokens < 150 + len(json.dumps(text))


@pytest.mark.parametrize("body", [b"", b"no JSON at all", b"[]", b"{}", b'{"choices": 7}'])
def test_what_is_no_reply_is_judged_by_its_bytes(body):
    written = OutputTokenEstimator("openai-chat")
    written.set_body(body)
    assert bool(body) == bool(written.tokens)
