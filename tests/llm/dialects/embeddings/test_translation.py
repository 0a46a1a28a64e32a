"""Requests for embeddings, and the vectors of replies, translated between dialects."""

import base64
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.errors import BadRequest
from agentd.llm.conversation import SupplierError
from agentd.llm.dialects.embeddings.translation import EMBEDDING_DIALECTS, EmbeddingTranslator
from agentd.llm.dialects.value_count import MAX_PARTS
from agentd.llm.price import Usage
from tests.llm.dialects.clients import capture_openai_body
from tests.supplier import embeddings as supplier

TEXTS = st.lists(st.text(min_size=1), min_size=1, max_size=5)
LENGTHS = st.integers(1, 9) | st.none()


def build_openai_request(texts, length=None, **more):
    dimensions = {} if length is None else {"dimensions": length}
    return json.dumps({"model": "m", "input": texts, **dimensions, **more}).encode()


def build_gemini_request(texts, length=None):
    more = {} if length is None else {"outputDimensionality": length}
    requests = [{"model": "models/m", "content": {"parts": [{"text": one}]}} for one in texts]
    return json.dumps({"requests": [{**one, **more} for one in requests]}).encode()


def serve_gemini(translator, *, is_counted=True):
    """Answer as Gemini does."""
    path = translator.get_path("gemini", "large")
    body = json.loads(translator.encode_request("gemini", "large"))
    return json.dumps(supplier.answer_gemini(path, body, is_counted=is_counted)).encode()


def serve_openai(translator, *, is_counted=True):
    """Answer as OpenAI does."""
    assert translator.get_path("openai-chat", "large") == supplier.OPENAI_PATH
    body = json.loads(translator.encode_request("openai-chat", "large"))
    assert body["model"] == "large"
    return json.dumps(supplier.answer_openai(body, is_counted=is_counted)).encode()


@given(texts=TEXTS, length=LENGTHS, is_base64=st.booleans())
def test_openais_clients_get_the_vectors_of_gemini(texts, length, is_base64):
    encoding = {"encoding_format": "base64"} if is_base64 else {}
    body = build_openai_request(texts, length, **encoding)
    translator = EmbeddingTranslator("openai-chat", body, is_batch=False)
    rendered, usage = translator.translate_reply("gemini", serve_gemini(translator), "m")
    expected = [supplier.embed(text, place, length or 4) for place, text in enumerate(texts)]
    reply = json.loads(rendered)
    found = [one["embedding"] for one in reply["data"]]
    if is_base64:
        found = [list(struct.unpack(f"<{length or 4}f", base64.b64decode(one))) for one in found]
    assert found == expected
    assert [one["index"] for one in reply["data"]] == list(range(len(texts)))
    count = sum(map(len, texts))
    assert usage == Usage(input=count)
    assert reply["usage"] == {"prompt_tokens": count, "total_tokens": count}
    assert (reply["object"], reply["model"]) == ("list", "m")


@given(texts=TEXTS, length=LENGTHS)
def test_geminis_clients_get_the_vectors_of_openai(texts, length):
    body = build_gemini_request(texts, length)
    translator = EmbeddingTranslator("gemini", body, is_batch=True)
    rendered, usage = translator.translate_reply("openai-chat", serve_openai(translator), "m")
    expected = [supplier.embed(text, place, length or 4) for place, text in enumerate(texts)]
    count = sum(map(len, texts))
    assert json.loads(rendered) == {
        "embeddings": [{"values": vector} for vector in expected],
        "usageMetadata": {"promptTokenCount": count},
    }
    assert usage == Usage(input=count)


def test_geminis_method_for_one_text_gets_one_vector():
    body = b'{"content": {"parts": [{"text": "Hello"}]}}'
    translator = EmbeddingTranslator("gemini", body, is_batch=False)
    assert translator.get_path("gemini", "large").endswith(":embedContent")
    rendered, _ = translator.translate_reply("openai-chat", serve_openai(translator), "m")
    assert json.loads(rendered)["embedding"] == {"values": supplier.embed("Hello", 0)}


def test_a_supplier_without_a_usage_is_counted_by_an_estimate_that_the_caller_sees():
    body = build_openai_request(["Hello", "you"])
    translator = EmbeddingTranslator("openai-chat", body, is_batch=False)
    reply = serve_gemini(translator, is_counted=False)
    rendered, usage = translator.translate_reply("gemini", reply, "m")
    assert usage is None
    estimate = EMBEDDING_DIALECTS["openai-chat"].estimate_tokens(body)
    assert json.loads(rendered)["usage"]["prompt_tokens"] == estimate > 1


def test_numbers_are_copied_as_the_supplier_wrote_them():
    translator = EmbeddingTranslator("gemini", build_gemini_request(["a"]), is_batch=True)
    reply = b'{"data": [{"index": 0, "embedding": [1e-7, 0.10000000000000000555, -0]}]}'
    rendered, _ = translator.translate_reply("openai-chat", reply, "m")
    assert b"[1e-7, 0.10000000000000000555, -0]" in rendered


def test_vectors_without_numbers_stay_in_their_order():
    translator = EmbeddingTranslator("gemini", build_gemini_request(["a", "b"]), is_batch=True)
    reply = b'{"data": [{"embedding": [1]}, {"embedding": [2]}]}'
    rendered, _ = translator.translate_reply("openai-chat", reply, "m")
    assert [one["values"] for one in json.loads(rendered)["embeddings"]] == [[1], [2]]


def test_openais_client_asks_for_base64_unless_told_otherwise():
    sent = capture_openai_body(lambda client: client.embeddings.create(model="m", input="Hello"))
    assert json.loads(sent)["encoding_format"] == "base64"
    translator = EmbeddingTranslator("openai-chat", sent, is_batch=False)
    rendered, _ = translator.translate_reply("gemini", serve_gemini(translator), "m")
    assert isinstance(json.loads(rendered)["data"][0]["embedding"], str)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"input": [1, 2]}, "takes texts only"),
        ({"input": ["Hello", [1, 2]]}, "takes texts only"),
        ({"dimensions": 0}, "dimensions"),
        ({"encoding_format": "int8"}, "encoding_format"),
        ({"truncate": True}, '"truncate" has no equivalent'),
    ],
)
def test_a_request_of_openais_that_has_no_counterpart_is_refused(fields, words):
    body = json.dumps({"model": "m", "input": "Hello", **fields}).encode()
    translator = EmbeddingTranslator("openai-chat", body, is_batch=False)
    with pytest.raises(BadRequest, match=words):
        translator.encode_request("gemini", "large")
    assert json.loads(translator.encode_request("openai-chat", "large"))["model"] == "large"


def test_the_name_of_a_user_and_empty_fields_are_no_reason_to_refuse_a_request():
    body = build_openai_request("Hello", user="ann", dimensions=None, encoding_format="float")
    translator = EmbeddingTranslator("openai-chat", body, is_batch=False)
    assert b"ann" not in translator.encode_request("gemini", "large")


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"embeddings": [{"values": [1]}]}',
        b'{"embeddings": [{"values": [1]}, {"values": [2]}, {"values": [3]}]}',
        b'{"embeddings": [{"values": [1]}, {}]}',
        b'{"embeddings": [{"values": [1]}, {"values": "AAAA"}]}',
        b'{"embeddings": [{"values": [1]}, {"values": [1e39]}]}',
        b'{"embeddings": [%b{}]}' % (b"{}," * MAX_PARTS),
    ],
)
def test_a_reply_that_is_no_list_of_vectors_is_told_as_garbled(reply):
    body = build_openai_request(["a", "b"], encoding_format="base64")
    translator = EmbeddingTranslator("openai-chat", body, is_batch=False)
    result = translator.translate_reply("gemini", reply, "m")
    assert isinstance(result, SupplierError)
    assert result.kind == "garbled"
    assert len(result.message) < 300
