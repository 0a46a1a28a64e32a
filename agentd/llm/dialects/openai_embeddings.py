"""Requests to ``/v1/embeddings``, which are only passed through."""

from typing import TypeAlias

from agentd.core.errors import BadRequest
from agentd.llm.dialects import token_estimate
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.request_parsing import ModelField, decode_as, replace_model

_Piece: TypeAlias = str | int | list[int]


class _Envelope(ModelField):
    input: str | list[_Piece]


def peek(body: bytes) -> RequestSummary:
    """Return the summary; embeddings are never streamed and have no output tokens.

    Raises ``BadRequest`` for an invalid request, and for an empty ``input``.
    """
    seen = decode_as(body, _Envelope)
    if not seen.input:
        raise BadRequest('"input" is empty')
    return RequestSummary(seen.model)


def rewrite_for_passthrough(body: bytes, model: str) -> bytes:
    """Return the request with the model name replaced; all else stays unchanged."""
    return replace_model(body, model)


def estimate_tokens(body: bytes) -> int:
    """Return an upper estimate of the input tokens; raises ``BadRequest`` as ``peek``.

    An integer is a token counted by the caller; for text see ``token_estimate``.
    """
    given = decode_as(body, _Envelope).input
    return sum(map(_estimate_piece, [given] if isinstance(given, str) else given))


def _estimate_piece(piece: _Piece) -> int:
    if isinstance(piece, str):
        return token_estimate.estimate_tokens(piece.encode())
    return 1 if isinstance(piece, int) else len(piece)
