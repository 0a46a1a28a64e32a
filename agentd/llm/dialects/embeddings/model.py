"""Requests for embeddings and their replies, in no particular dialect."""

from msgspec import Raw, Struct

from agentd.llm.price import Usage


class EmbeddingRequest(Struct, frozen=True, kw_only=True):
    """The texts to embed."""

    texts: tuple[str, ...]
    dimensions: int = 0
    """The wanted length of the vectors; 0: the model's own."""
    is_base64: bool = False
    """True for vectors as base64 of 32-bit floats, as OpenAI's own clients request them."""
    is_batch: bool = True
    """False for the method of Gemini that embeds a single text."""
    dropped_fields: tuple[str, ...] = ()
    """The request's fields that no other dialect has a place for."""


class EmbeddingReply(Struct, frozen=True):
    """The vectors, in the order of the texts."""

    vectors: tuple[Raw, ...]
    """JSON arrays as the supplier wrote them: there may be hundreds of thousands of numbers."""
    usage: Usage | None
    """None if the supplier reports none."""
