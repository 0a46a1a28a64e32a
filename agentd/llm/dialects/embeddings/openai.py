"""Embeddings in OpenAI's dialect: ``POST /v1/embeddings``."""

import base64
import struct
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from agentd.core.errors import BadRequest
from agentd.llm.dialects import token_estimate
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.embeddings.model import EmbeddingReply, EmbeddingRequest
from agentd.llm.dialects.request_parsing import (
    FieldRules,
    ModelField,
    decode_as,
    decode_strict,
    replace_model,
)
from agentd.llm.price import parse_chat_usage

RULES = FieldRules(ignored={"user": "it tells OpenAI's users apart, and nothing about the texts"})

_Piece: TypeAlias = str | int | list[int]


class _Envelope(ModelField):
    input: str | list[_Piece]


class _Request(ModelField):
    input: str | list[str]
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    encoding_format: Literal["float", "base64"] | None = None


class _Vector(Struct):
    embedding: Raw
    index: int = -1


class _Reply(Struct):
    data: list[_Vector]
    usage: Any = None


def peek(body: bytes) -> RequestSummary:
    """Return the summary; embeddings are never streamed and have no output tokens.

    Raises ``BadRequest`` for an invalid request, and for an empty ``input``.
    """
    seen = decode_as(body, _Envelope)
    if not seen.input:
        raise BadRequest('"input" is empty')
    return RequestSummary(seen.model)


def get_path(model: str, *, is_batch: bool) -> str:
    """Return the path; it is the same for all models, and for one text or many."""
    return "/v1/embeddings"


def rewrite_for_passthrough(body: bytes, model: str) -> bytes:
    """Return the request with the model name replaced; all else stays unchanged."""
    return replace_model(body, model)


def estimate_tokens(body: bytes) -> int:
    """Return an upper estimate of the input tokens; raises ``BadRequest`` as ``peek``.

    An integer is a token counted by the caller; for text see ``token_estimate``.
    """
    given = decode_as(body, _Envelope).input
    return sum(map(_estimate_piece, [given] if isinstance(given, str) else given))


def parse_request(body: bytes) -> EmbeddingRequest:
    """Parse a request that is to be translated. Raises ``BadRequest`` for what cannot be."""
    given = decode_as(body, _Envelope).input
    if not isinstance(given, str) and not all(isinstance(piece, str) for piece in given):
        raise BadRequest(
            'The model\'s supplier takes texts only: "input" must be a text or a list of texts,'
            " not tokens"
        )
    request = decode_strict(body, _Request, RULES)
    texts = request.input
    return EmbeddingRequest(
        texts=(texts,) if isinstance(texts, str) else tuple(texts),
        dimensions=request.dimensions or 0,
        is_base64=request.encoding_format == "base64",
    )


def encode_request(request: EmbeddingRequest, model: str) -> bytes:
    """Return the request for a supplier; vectors of numbers are what it sends if not asked."""
    wanted = {"dimensions": request.dimensions} if request.dimensions else {}
    return msgspec.json.encode({"model": model, "input": request.texts, **wanted})


def parse_reply(body: bytes) -> EmbeddingReply:
    """Parse a supplier's reply. Raises ``msgspec.DecodeError`` for what is none."""
    reply = msgspec.json.decode(body, type=_Reply)
    vectors = reply.data
    if all(vector.index >= 0 for vector in vectors):  # some suppliers count nothing
        vectors = sorted(vectors, key=lambda vector: vector.index)
    usage = None if reply.usage is None else parse_chat_usage(reply.usage)
    return EmbeddingReply(tuple(vector.embedding for vector in vectors), usage)


def render_reply(reply: EmbeddingReply, request: EmbeddingRequest, model: str) -> bytes:
    """Render a reply. Raises ``msgspec.DecodeError`` if a vector is not one of numbers."""
    tokens = reply.usage.total_input if reply.usage else 0
    return msgspec.json.encode(
        {
            "object": "list",
            "data": [
                {
                    "object": "embedding",
                    "index": index,
                    "embedding": _pack_vector(vector) if request.is_base64 else vector,
                }
                for index, vector in enumerate(reply.vectors)
            ],
            "model": model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
    )


def _estimate_piece(piece: _Piece) -> int:
    if isinstance(piece, str):
        return token_estimate.estimate_tokens(piece.encode())
    return 1 if isinstance(piece, int) else len(piece)


def _pack_vector(vector: Raw) -> str:
    numbers = msgspec.json.decode(vector, type=list[float])
    try:
        packed = struct.pack(f"<{len(numbers)}f", *numbers)
    except OverflowError:
        raise msgspec.DecodeError("a number is too large for 32 bits") from None
    return base64.b64encode(packed).decode()
