"""Gemini's requests for embeddings are looked at, passed on and parsed."""

import json

import pytest

from agentd.core.errors import BadRequest
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.embeddings.gemini import (
    estimate_tokens,
    get_path,
    parse_request,
    peek,
    rewrite_for_passthrough,
)
from agentd.llm.dialects.embeddings.model import EmbeddingRequest

HELLO = {"parts": [{"text": "Hello"}]}


def build_batch(*requests):
    return json.dumps({"requests": [{"model": "models/m", **one} for one in requests]}).encode()


def test_one_text():
    body = json.dumps({"content": HELLO}).encode()
    assert peek(body, "m", is_batch=False) == RequestSummary("m")
    assert parse_request(body) == EmbeddingRequest(texts=("Hello",), is_batch=False)
    assert rewrite_for_passthrough(body, "n") == body


def test_a_batch():
    body = build_batch({"content": HELLO}, {"content": {"role": "user", "parts": [{"text": "x"}]}})
    assert peek(body, "models/m", is_batch=True) == RequestSummary("m")
    assert parse_request(body) == EmbeddingRequest(texts=("Hello", "x"))


@pytest.mark.parametrize("name", ["n", "models/n"])
def test_each_request_of_a_batch_gets_the_suppliers_name_of_the_model(name):
    first = {"content": HELLO, "taskType": "CLUSTERING", "other": [1, {"a": None}]}
    sent = json.loads(rewrite_for_passthrough(build_batch(first, {"content": HELLO}), name))
    assert sent == {
        "requests": [{**first, "model": "models/n"}, {"content": HELLO, "model": "models/n"}]
    }
    one = json.dumps({"model": "models/m", "content": HELLO}).encode()
    assert json.loads(rewrite_for_passthrough(one, name)) == {
        "model": "models/n",
        "content": HELLO,
    }


def test_fields_in_snake_case_mean_the_same():
    body = build_batch({"content": HELLO, "task_type": "CLUSTERING", "output_dimensionality": 8})
    request = parse_request(body)
    assert (request.dimensions, request.dropped_fields) == (8, ("taskType",))


@pytest.mark.parametrize(
    ("body", "is_batch", "words"),
    [
        ({}, False, '"content" is missing'),
        ({"content": None}, False, '"content" is missing'),
        ({"requests": [{"content": HELLO}]}, False, '"content" is missing'),
        ({"content": HELLO, "requests": []}, False, "batchEmbedContents"),
        ({"content": HELLO}, True, '"requests" is empty'),
        ({"requests": []}, True, '"requests" is empty'),
        ({"requests": [7]}, True, "Expected `object`"),
        ({"requests": "all"}, True, "Expected `array"),
        ({"requests": [{"model": "models/other", "content": HELLO}]}, True, "'models/other'"),
    ],
)
def test_a_request_without_texts_or_for_another_model_is_refused(body, is_batch, words):
    with pytest.raises(BadRequest, match=words):
        peek(json.dumps(body).encode(), "m", is_batch=is_batch)


def test_a_path_without_a_model_is_refused():
    with pytest.raises(BadRequest, match="names no model"):
        peek(b'{"content": {}}', "", is_batch=False)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"title": "A novel"}, '"title": put it into the text'),
        ({"embedContentConfig": {"title": "x"}}, "embedContentConfig"),
        ({"autoTruncate": True}, "autoTruncate"),
        ({"outputDimensionality": 0}, "outputDimensionality"),
        ({"content": {"parts": []}}, "parts"),
        ({"content": {"parts": [{"text": "a"}, {"text": "b"}]}}, "parts"),
        ({"content": {"parts": [{"inlineData": {"mimeType": "image/png"}}]}}, "inlineData"),
        ({"content": 7}, "content"),
    ],
)
def test_a_request_that_has_no_counterpart_is_refused(more, words):
    body = build_batch({"content": HELLO, **more})
    assert peek(body, "m", is_batch=True) == RequestSummary("m")
    with pytest.raises(BadRequest, match=words):
        parse_request(body)


def test_a_batch_with_other_fields_or_without_requests_is_refused():
    for body, words in (
        ({"requests": [{"content": HELLO}], "content": HELLO}, '"content" has no equivalent'),
        ({"requests": []}, '"requests" is empty'),
    ):
        with pytest.raises(BadRequest, match=words):
            parse_request(json.dumps(body).encode())


def test_texts_of_one_request_have_vectors_of_one_length():
    body = build_batch({"content": HELLO, "outputDimensionality": 8}, {"content": HELLO})
    with pytest.raises(BadRequest, match="same outputDimensionality"):
        parse_request(body)


def test_an_image_counts_as_one():
    image = {"inlineData": {"mimeType": "image/png", "data": "A" * 40_000}}
    body = build_batch({"content": {"parts": [image]}})
    assert 5000 < estimate_tokens(body) < 6000


def test_a_models_name_cannot_change_the_path():
    path = get_path("models/a/../b?c", is_batch=False)
    assert path == "/v1beta/models/a%2F..%2Fb%3Fc:embedContent"
    assert get_path("m", is_batch=True) == "/v1beta/models/m:batchEmbedContents"
