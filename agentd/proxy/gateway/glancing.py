"""What must be known of every request before anything is done with it."""

from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.callers import CALLERS, asked_gemini, embeddings, estimate
from agentd.proxy.gateway.asking import Asked


def glanced(asked: Asked) -> Glance:
    """The model, whether it streams, and how much is asked for. Raises ``BadRequest``."""
    endpoint = asked.endpoint
    if endpoint.kind == "embeddings":
        return embeddings.glance(asked.body)
    if endpoint.dialect == "gemini":
        return asked_gemini.glance(asked.body, asked.model, asked.stream)
    return CALLERS[endpoint.dialect].glance(asked.body)


def counted_here(asked: Asked) -> bytes:
    """The answer to who asks for a count that no supplier makes: the most that it can be."""
    count = estimate.tokens(asked.body)
    gemini_asks = asked.endpoint.dialect == "gemini"
    return estimate.as_gemini(count) if gemini_asks else estimate.as_anthropic(count)


def tokens_in(asked: Asked) -> int:
    """The most tokens that a supplier can count of the request, before any does."""
    kind = asked.endpoint.kind
    return embeddings.tokens(asked.body) if kind == "embeddings" else estimate.tokens(asked.body)
