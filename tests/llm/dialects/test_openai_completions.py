"""Requests to continue a text are looked at, and passed on."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import BadRequest
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.openai_completions import (
    apply_output_limit,
    peek,
    rewrite_for_passthrough,
)
from tests.llm.dialects.clients import capture_openai_body


def build_body(**fields):
    return json.dumps({"model": "m", "prompt": "def add(", **fields}).encode()


def test_openais_client():
    sent = capture_openai_body(
        lambda client: client.completions.create(
            model="m", prompt="def add(", suffix="return a", max_tokens=50, stream=True
        )
    )
    summary = peek(sent)
    assert summary == RequestSummary("m", stream=True, max_output=50, wants_usage=False)
    rewritten = json.loads(rewrite_for_passthrough(sent, "n"))
    assert rewritten == {
        **json.loads(sent),
        "model": "n",
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize(
    ("fields", "replies"),
    [
        ({}, 1),
        ({"prompt": None}, 1),
        ({"prompt": []}, 1),
        ({"prompt": [1, 2, 3]}, 1),
        ({"prompt": ["a", "b"]}, 2),
        ({"prompt": [[1, 2], [3], [4]]}, 3),
        ({"n": 3}, 3),
        ({"best_of": 4, "n": 2}, 4),
        ({"prompt": ["a", "b"], "best_of": 5}, 10),
    ],
)
def test_every_text_that_a_supplier_writes_is_counted(fields, replies):
    assert peek(build_body(**fields)).replies == replies


def test_a_limit_of_none_is_no_limit_that_the_caller_gave():
    """Suppliers take 0 with ``echo``: nothing is written."""
    body = build_body(max_tokens=0, echo=True)
    assert peek(body).max_output == 0
    assert apply_output_limit(body, 10) == body


@pytest.mark.parametrize(
    "fields",
    [
        {"model": ""},
        {"prompt": 7},
        {"prompt": [None]},
        {"prompt": [["a"]]},
        {"max_tokens": -1},
        {"max_tokens": "many"},
        {"n": 0},
        {"best_of": 129},
        {"models": ["other"]},
    ],
)
def test_an_invalid_request_is_refused(fields):
    with pytest.raises(BadRequest, match="Invalid request"):
        peek(build_body(**fields))


def test_a_service_tier_is_told():
    assert peek(build_body(service_tier="flex")).service_tier == "flex"
    assert peek(build_body(service_tier="auto")).service_tier == ""


@given(asked=st.none() | st.integers(0, 100), limit=st.integers(1, 100))
def test_no_completion_is_longer_than_the_limit(asked, limit):
    body = build_body(max_tokens=asked, suffix="x")
    sent = json.loads(apply_output_limit(body, limit))
    assert sent["max_tokens"] == (limit if asked is None else min(asked, limit))
    assert {**sent, "max_tokens": asked} == json.loads(body)


def test_what_a_stream_says_beside_its_usage_stays():
    body = build_body(stream=True, stream_options={"other": 1})
    assert json.loads(rewrite_for_passthrough(body, "m"))["stream_options"] == {
        "other": 1,
        "include_usage": True,
    }
    whole = build_body()
    assert rewrite_for_passthrough(whole, "m") == whole
