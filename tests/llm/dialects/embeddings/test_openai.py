"""Requests for embeddings are looked at, and passed on."""

import json

import pytest

from agentd.core.errors import BadRequest
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.embeddings.openai import estimate_tokens, peek, rewrite_for_passthrough
from tests.llm.dialects.clients import capture_openai_body


def build_body(**fields):
    return json.dumps({"model": "m", **fields}).encode()


@pytest.mark.parametrize("given", ["Hello", ["Hello", "you"], [1, 2, 3], [[1, 2], [3]]])
def test_openais_client(given):
    sent = capture_openai_body(lambda client: client.embeddings.create(model="m", input=given))
    assert peek(sent) == RequestSummary("m")
    assert estimate_tokens(sent) > 1
    assert json.loads(rewrite_for_passthrough(sent, "n")) == {**json.loads(sent), "model": "n"}


def test_tokens_that_the_caller_counted_are_counted():
    assert estimate_tokens(build_body(input=[1, 2, 3])) == 3
    assert estimate_tokens(build_body(input=[[1, 2], [3]])) == 3
    assert (
        estimate_tokens(build_body(input=["image", "abc"]))
        == estimate_tokens(build_body(input="abc")) + 2
    )


@pytest.mark.parametrize("given", [None, "", [], 7, {"a": 1}, [None], [1.5], [[["x"]]]])
def test_an_input_that_is_none_is_refused(given):
    with pytest.raises(BadRequest, match="input"):
        peek(build_body(input=given))
