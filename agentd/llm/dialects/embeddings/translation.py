"""A request for embeddings as suppliers of each dialect get it, and their replies for its caller.

A request that a supplier's dialect has no form for is refused; a field without effect on other
models is dropped and told. Vectors are copied as the supplier wrote them.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec
from msgspec import Struct, structs

from agentd.llm.conversation import SupplierError
from agentd.llm.dialects.embeddings import gemini, openai
from agentd.llm.dialects.embeddings.model import EmbeddingReply, EmbeddingRequest
from agentd.llm.dialects.value_count import has_too_many_parts
from agentd.llm.endpoint import ChannelDialect
from agentd.llm.price import Usage


class PathBuilder(Protocol):
    """Builds the path of a supplier's method."""

    def __call__(self, model: str, *, is_batch: bool) -> str:
        """Return the path for a model, to embed one text or a batch of them."""
        ...


class EmbeddingDialect(Struct, frozen=True):
    """A dialect that has embeddings."""

    get_path: PathBuilder
    estimate_tokens: Callable[[bytes], int]
    """An upper estimate of a request's tokens."""
    rewrite_for_passthrough: Callable[[bytes, str], bytes]
    """The request for a supplier of the same dialect, with the model's name there."""
    parse_request: Callable[[bytes], EmbeddingRequest]
    """Raises ``BadRequest`` for what has no counterpart in other dialects."""
    encode_request: Callable[[EmbeddingRequest, str], bytes]
    parse_reply: Callable[[bytes], EmbeddingReply]
    """Raises ``msgspec.DecodeError``."""
    render_reply: Callable[[EmbeddingReply, EmbeddingRequest, str], bytes]
    """Raises ``msgspec.DecodeError`` for a vector that is not one of numbers."""


EMBEDDING_DIALECTS: Mapping[ChannelDialect, EmbeddingDialect] = {
    "openai-chat": EmbeddingDialect(
        openai.get_path,
        openai.estimate_tokens,
        openai.rewrite_for_passthrough,
        openai.parse_request,
        openai.encode_request,
        openai.parse_reply,
        openai.render_reply,
    ),
    "gemini": EmbeddingDialect(
        gemini.get_path,
        gemini.estimate_tokens,
        gemini.rewrite_for_passthrough,
        gemini.parse_request,
        gemini.encode_request,
        gemini.parse_reply,
        gemini.render_reply,
    ),
}
"""The dialects of callers and suppliers that have embeddings."""


class EmbeddingTranslator:
    """Translates one request, and the replies to it."""

    def __init__(self, dialect: ChannelDialect, body: bytes, *, is_batch: bool) -> None:
        """``dialect`` is the caller's; ``is_batch``: the caller's method takes many texts."""
        self._name = dialect
        self._dialect = EMBEDDING_DIALECTS[dialect]
        self._body = body
        self._is_batch = is_batch
        self._request: EmbeddingRequest | None = None

    @property
    def dropped_fields(self) -> tuple[str, ...]:
        """The fields that suppliers of other dialects do not get."""
        return self._parse().dropped_fields

    def get_path(self, dialect: ChannelDialect, model: str) -> str:
        """Return the path at a supplier."""
        is_batch = self._is_batch or dialect != self._name
        return EMBEDDING_DIALECTS[dialect].get_path(model, is_batch=is_batch)

    def encode_request(self, dialect: ChannelDialect, model: str) -> bytes:
        """Return the request for a supplier. Raises ``BadRequest``."""
        if dialect == self._name:
            return self._dialect.rewrite_for_passthrough(self._body, model)
        return EMBEDDING_DIALECTS[dialect].encode_request(self._parse(), model)

    def translate_reply(
        self, dialect: ChannelDialect, body: bytes, model: str
    ) -> tuple[bytes, Usage | None] | SupplierError:
        """Return the reply of a supplier of another dialect for the caller, and its usage if told.

        ``model`` is the caller's name of the model. A reply always tells a usage: an upper estimate
        where the supplier tells none.
        """
        request = self._parse()
        try:
            if has_too_many_parts(body):
                raise msgspec.DecodeError("too many parts")
            reply = EMBEDDING_DIALECTS[dialect].parse_reply(body)
            if len(reply.vectors) != len(request.texts):
                got, expected = len(reply.vectors), len(request.texts)
                raise msgspec.DecodeError(f"{got} vectors for {expected} texts")
            usage = reply.usage or Usage(input=self._dialect.estimate_tokens(self._body))
            shown = structs.replace(reply, usage=usage)
            return self._dialect.render_reply(shown, request, model), reply.usage
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            message = f"The supplier's response is not a list of embeddings: {str(error)[:200]}"
            return SupplierError("garbled", message)

    def _parse(self) -> EmbeddingRequest:
        if self._request is None:
            self._request = self._dialect.parse_request(self._body)
        return self._request
