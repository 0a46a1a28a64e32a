"""The scripted supplier's embeddings: a text's vector says how long it is, and its place.

They are refused, as by the real suppliers, where a request has fields that are not theirs.
"""

import base64
import re
import struct
from typing import Any

OPENAI_PATH = "/v1/embeddings"
GEMINI_PATH = r"/v1beta/models/.+:(?:embedContent|batchEmbedContents)"

_OPENAI_FIELDS = {"model", "input", "dimensions", "encoding_format", "user"}
_GEMINI_FIELDS = {"model", "content", "taskType", "title", "outputDimensionality"}


def embed(text: str, place: int, dimensions: int = 4) -> list[float]:
    """Return the vector of a text: its length, its place, and halves."""
    return [float(len(text)), float(place), *[0.5] * dimensions][:dimensions]


def answer_openai(body: dict[str, Any], *, is_counted: bool) -> dict[str, Any]:
    """Return the reply to ``POST /v1/embeddings``, its data in no order. Raises ``ValueError``."""
    if unknown := set(body) - _OPENAI_FIELDS:
        raise ValueError(f"Unknown fields: {sorted(unknown)}")
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    data = []
    for index, text in enumerate(texts):
        vector: Any = embed(str(text), index, body.get("dimensions", 4))
        if body.get("encoding_format") == "base64":
            vector = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
        data.append({"object": "embedding", "index": index, "embedding": vector})
    count = sum(len(str(text)) for text in texts)
    used = {"usage": {"prompt_tokens": count, "total_tokens": count}} if is_counted else {}
    return {"object": "list", "data": data[::-1], "model": body["model"], **used}


def answer_gemini(path: str, body: dict[str, Any], *, is_counted: bool) -> dict[str, Any]:
    """Return the reply to one of Gemini's methods. Raises ``ValueError``."""
    named = re.fullmatch(r"/v1beta/(models/.+):(\w+)", path)
    assert named
    is_batch = named[2] == "batchEmbedContents"
    requests = body["requests"] if is_batch else [{"model": named[1], **body}]
    vectors = []
    for place, request in enumerate(requests):
        if unknown := set(request) - _GEMINI_FIELDS:
            raise ValueError(f"Unknown fields: {sorted(unknown)}")
        if request["model"] != named[1]:
            raise ValueError(f"The model must be {named[1]}, not {request['model']}")
        (part,) = request["content"]["parts"]
        dimensions = request.get("outputDimensionality", 4)
        vectors.append({"values": embed(part["text"], place, dimensions)})
    count = sum(len(request["content"]["parts"][0]["text"]) for request in requests)
    used = {"usageMetadata": {"promptTokenCount": count}} if is_counted else {}
    return {**({"embeddings": vectors} if is_batch else {"embedding": vectors[0]}), **used}
