"""Requests for embeddings are looked at, and passed on."""

import json

import pytest

from agentd.errors import BadRequest
from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers.embeddings import glance, passed_on, tokens
from tests.proxy.dialects.callers.clients import openai_body


def body(**fields):
    return json.dumps({"model": "m", **fields}).encode()


@pytest.mark.parametrize("given", ["Hello", ["Hello", "you"], [1, 2, 3], [[1, 2], [3]]])
def test_openais_client(given):
    sent = openai_body(lambda client: client.embeddings.create(model="m", input=given))
    assert glance(sent) == Glance("m")
    assert tokens(sent) > 1
    assert json.loads(passed_on(sent, "n")) == {**json.loads(sent), "model": "n"}


def test_tokens_that_the_caller_counted_are_counted():
    assert tokens(body(input=[1, 2, 3])) == 3
    assert tokens(body(input=[[1, 2], [3]])) == 3
    assert tokens(body(input=["image", "abc"])) == tokens(body(input="abc")) + 2


@pytest.mark.parametrize("given", [None, "", [], 7, {"a": 1}, [None], [1.5], [[["x"]]]])
def test_an_input_that_is_none_is_refused(given):
    with pytest.raises(BadRequest, match="input"):
        glance(body(input=given))
