"""What was counted, in the words of each dialect: the way back of ``price``'s ``from_…``."""

from agentd.proxy.price import Usage


def as_chat(usage: Usage) -> dict[str, object]:
    """The ``usage`` of a chat completion: what was cached is inside ``prompt_tokens``."""
    return {
        "prompt_tokens": usage.total_input,
        "completion_tokens": usage.total_output,
        "total_tokens": usage.total_input + usage.total_output,
        "prompt_tokens_details": _cached(usage),
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def as_responses(usage: Usage) -> dict[str, object]:
    """The ``usage`` of a response: the same under other names."""
    return {
        "input_tokens": usage.total_input,
        "input_tokens_details": _cached(usage),
        "output_tokens": usage.total_output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total_input + usage.total_output,
    }


def as_anthropic(usage: Usage) -> dict[str, object]:
    """The ``usage`` of a message: what was cached is beside ``input_tokens``.

    The fields of the cache are always there, because Claude Code refuses a message without them.
    """
    written = usage.cache_write + usage.cache_write_1h
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write,
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        },
        "output_tokens": usage.total_output,
    }


def as_gemini(usage: Usage) -> dict[str, object]:
    """The ``usageMetadata`` of an answer: what was cached is inside ``promptTokenCount``.

    Thinking is beside ``candidatesTokenCount``.
    """
    return {
        "promptTokenCount": usage.total_input,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.total_input + usage.total_output,
    }


def _cached(usage: Usage) -> dict[str, object]:
    written = usage.cache_write + usage.cache_write_1h
    return {"cached_tokens": usage.cache_read, "cache_write_tokens": written}
