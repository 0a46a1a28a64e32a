"""Embeddings in Gemini's dialect: ``embedContent`` for one text, ``batchEmbedContents`` for many.

The path names the model, and each request of a batch names it again.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from agentd.core.errors import BadRequest
from agentd.llm.dialects import token_estimate
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.embeddings.model import EmbeddingReply, EmbeddingRequest
from agentd.llm.dialects.gemini.model_names import build_path, qualify_name
from agentd.llm.dialects.gemini.request import normalize_names
from agentd.llm.dialects.request_parsing import (
    FieldRules,
    Ignored,
    ModelName,
    StrictPart,
    decode_as,
    decode_raw_fields,
    decode_strict,
    decode_subset,
    encode_with,
)
from agentd.llm.price import parse_gemini_usage

RULES = FieldRules(
    ignored={"model": "the address names it"},
    refused={
        "title": "put it into the text",
        "embedContentConfig": "give outputDimensionality beside the content",
    },
)

_HINT = "taskType"
"""The use of the vectors; models of other suppliers have one kind of vector for all of them."""


class _Part(StrictPart, frozen=True):
    text: str


class _Content(StrictPart, frozen=True):
    parts: Annotated[list[_Part], Meta(min_length=1, max_length=1)]
    role: Ignored = None
    """Google reads none here either."""


class _Request(Struct, kw_only=True, rename="camel"):
    content: _Content
    task_type: str | None = None
    output_dimensionality: Annotated[int, Meta(ge=1)] | None = None


class _Batch(Struct):
    requests: list[Raw]


class _Named(Struct):
    model: ModelName | None = None


class _Envelope(Struct):
    content: Any = None
    requests: list[_Named] | None = None


class _Vector(Struct):
    values: Raw


class _Reply(Struct, rename="camel"):
    embeddings: list[_Vector] = []
    embedding: _Vector | None = None
    usage_metadata: Any = None


def peek(body: bytes, model: str, *, is_batch: bool) -> RequestSummary:
    """Return the summary, given the model and the method from the URL.

    Raises ``BadRequest`` for an invalid request, for an empty batch, and for one that names another
    model than the URL, which Google does not serve either.
    """
    if not model:
        raise BadRequest("The URL names no model")
    seen = decode_as(normalize_names(body), _Envelope)
    requests = seen.requests or ()
    if is_batch and not requests:
        raise BadRequest('"requests" is empty')
    if not is_batch and seen.content is None:
        raise BadRequest('"content" is missing')
    if not is_batch and seen.requests is not None:
        raise BadRequest('"requests" belongs to the method batchEmbedContents')
    for one in requests:
        if one.model and qualify_name(one.model) != qualify_name(model):
            raise BadRequest(f"A request is for {one.model[:100]!r}, but the URL names {model!r}")
    return RequestSummary(model.removeprefix("models/"))


def get_path(model: str, *, is_batch: bool) -> str:
    """Return the path of the method."""
    return build_path(model, "batchEmbedContents" if is_batch else "embedContent")


def rewrite_for_passthrough(body: bytes, model: str) -> bytes:
    """Return the request with the model name replaced; all else stays unchanged."""
    fields = decode_raw_fields(body)
    named = qualify_name(model)
    changes: dict[str, object] = {"model": named} if "model" in fields else {}
    if "requests" in fields:
        requests = map(decode_raw_fields, decode_subset(fields, _Batch).requests)
        changes["requests"] = [{**one, "model": named} for one in requests]
    return encode_with(body, fields, changes)


def estimate_tokens(body: bytes) -> int:
    """Return an upper estimate of the input tokens; never raises."""
    return token_estimate.estimate_tokens(body)


def parse_request(body: bytes) -> EmbeddingRequest:
    """Parse a request that is to be translated. Raises ``BadRequest`` for what cannot be."""
    normalized = normalize_names(body)
    is_batch = "requests" in decode_raw_fields(normalized)
    pieces = decode_strict(normalized, _Batch, RULES).requests if is_batch else [normalized]
    requests = [decode_strict(bytes(piece), _Request, RULES) for piece in pieces]
    if not requests:
        raise BadRequest('"requests" is empty')
    lengths = {request.output_dimensionality or 0 for request in requests}
    if len(lengths) > 1:
        raise BadRequest("All texts of a request must have the same outputDimensionality")
    return EmbeddingRequest(
        texts=tuple(request.content.parts[0].text for request in requests),
        dimensions=lengths.pop(),
        is_batch=is_batch,
        dropped_fields=(_HINT,) if any(request.task_type for request in requests) else (),
    )


def encode_request(request: EmbeddingRequest, model: str) -> bytes:
    """Return the request for a supplier, always as a batch."""
    wanted = {"outputDimensionality": request.dimensions} if request.dimensions else {}
    named = qualify_name(model)
    return msgspec.json.encode(
        {
            "requests": [
                {"model": named, "content": {"parts": [{"text": text}]}, **wanted}
                for text in request.texts
            ]
        }
    )


def parse_reply(body: bytes) -> EmbeddingReply:
    """Parse a supplier's reply. Raises ``msgspec.DecodeError`` for what is none."""
    reply = msgspec.json.decode(body, type=_Reply)
    vectors = reply.embeddings if reply.embedding is None else [reply.embedding]
    usage = None if reply.usage_metadata is None else parse_gemini_usage(reply.usage_metadata)
    return EmbeddingReply(tuple(vector.values for vector in vectors), usage)


def render_reply(reply: EmbeddingReply, request: EmbeddingRequest, model: str) -> bytes:
    """Render a reply; it does not name the model."""
    vectors = [{"values": vector} for vector in reply.vectors]
    tokens = reply.usage.total_input if reply.usage else 0
    return msgspec.json.encode(
        {
            **({"embeddings": vectors} if request.is_batch else {"embedding": vectors[0]}),
            "usageMetadata": {"promptTokenCount": tokens},
        }
    )
