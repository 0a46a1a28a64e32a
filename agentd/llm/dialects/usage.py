"""Usage rendered in each dialect; the inverse of ``price``'s ``parse_…_usage``."""

from agentd.llm.price import Usage


def render_chat_usage(usage: Usage) -> dict[str, object]:
    """Render the ``usage`` of a chat completion: ``prompt_tokens`` includes cached tokens."""
    return {
        "prompt_tokens": usage.total_input,
        "completion_tokens": usage.total_output,
        "total_tokens": usage.total_input + usage.total_output,
        "prompt_tokens_details": _make_cached_details(usage),
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def render_responses_usage(usage: Usage) -> dict[str, object]:
    """Render the ``usage`` of a response: the same counts under other names."""
    return {
        "input_tokens": usage.total_input,
        "input_tokens_details": _make_cached_details(usage),
        "output_tokens": usage.total_output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total_input + usage.total_output,
    }


def render_anthropic_usage(usage: Usage) -> dict[str, object]:
    """Render the ``usage`` of a message: ``input_tokens`` excludes cached tokens.

    The cache fields are always present, because Claude Code refuses a message without them; the
    share of thinking only if it is known.
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
        **(
            {"output_tokens_details": {"thinking_tokens": usage.reasoning}}
            if usage.reasoning
            else {}
        ),
    }


def render_gemini_usage(usage: Usage) -> dict[str, object]:
    """Render ``usageMetadata``: ``promptTokenCount`` includes cached tokens.

    ``candidatesTokenCount`` excludes thinking.
    """
    return {
        "promptTokenCount": usage.total_input,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.total_input + usage.total_output,
    }


def _make_cached_details(usage: Usage) -> dict[str, object]:
    written = usage.cache_write + usage.cache_write_1h
    return {"cached_tokens": usage.cache_read, "cache_write_tokens": written}
