"""Requests to ``/v1/embeddings``, which are passed on only."""

from typing import TypeAlias

from agentd.errors import BadRequest
from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers import estimate
from agentd.proxy.dialects.callers.asked import Named, for_model, glanced

_Piece: TypeAlias = str | int | list[int]


class _Glanced(Named):
    input: str | list[_Piece]


def glance(body: bytes) -> Glance:
    """The model; there is nothing to stream, and nothing is written.

    Raises ``BadRequest`` for what is no request, and for an ``input`` that holds nothing.
    """
    seen = glanced(body, _Glanced)
    if not seen.input:
        raise BadRequest('"input" is empty')
    return Glance(seen.model)


def passed_on(body: bytes, model: str) -> bytes:
    """The request with its model named; all else stays as it was written."""
    return for_model(body, model)


def tokens(body: bytes) -> int:
    """The most tokens of all inputs; ``BadRequest`` as ``glance``.

    A number is a token that the caller has counted, of a text see ``estimate``.
    """
    given = glanced(body, _Glanced).input
    return sum(map(_tokens, [given] if isinstance(given, str) else given))


def _tokens(piece: _Piece) -> int:
    if isinstance(piece, str):
        return estimate.tokens(piece.encode())
    return 1 if isinstance(piece, int) else len(piece)
