"""Caps the output tokens of a request that is passed through in its own dialect.

What is reserved for a request must be all that it can use, so the supplier gets the same limit.
Nothing else of the request changes.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec import Raw

from agentd.core.errors import BadRequest
from agentd.llm.dialects.request_parsing import decode_raw_fields, encode_with
from agentd.llm.endpoint import ChannelDialect

MIN_THINKING_BUDGET = 1024
"""The smallest budget for thinking that Anthropic takes."""


def apply_output_limit(body: bytes, dialect: ChannelDialect, limit: int) -> bytes:
    """Return the request with its output token limit set to at most ``limit``.

    Returns the same bytes if the limit is low enough already. Raises ``BadRequest`` where the
    thinking budget alone needs more.
    """
    fields = decode_raw_fields(body)
    return encode_with(body, fields, _LIMITERS[dialect](fields, limit))


def _limit_chat(fields: Mapping[str, Raw], limit: int) -> dict[str, object]:
    # OpenAI refuses max_completion_tokens beside a prediction.
    usual = "max_tokens" if _is_given(fields, "prediction") else "max_completion_tokens"
    return cap_fields(fields, ("max_completion_tokens", "max_tokens"), limit, usual)


def _limit_responses(fields: Mapping[str, Raw], limit: int) -> dict[str, object]:
    return cap_fields(fields, ("max_output_tokens",), limit, "max_output_tokens")


def _limit_anthropic(fields: Mapping[str, Raw], limit: int) -> dict[str, object]:
    changes = cap_fields(fields, ("max_tokens",), limit, "max_tokens")
    if not changes or not _is_given(fields, "thinking"):
        return changes
    thinking = decode_raw_fields(fields["thinking"])
    budget = _read_number(thinking, "budget_tokens")
    if budget is None or budget < limit:  # the supplier wants it to be below max_tokens
        return changes
    if limit <= MIN_THINKING_BUDGET:
        raise BadRequest(
            f"thinking.budget_tokens is {budget}, but this model can write {limit} tokens at most,"
            " thinking included",
            "Disable thinking.",
        )
    return {**changes, "thinking": {**thinking, "budget_tokens": limit - 1}}


def _limit_gemini(fields: Mapping[str, Raw], limit: int) -> dict[str, object]:
    found = [name for name in ("generationConfig", "generation_config") if _is_given(fields, name)]
    if not found:
        return {"generationConfig": {"maxOutputTokens": limit}}
    config = decode_raw_fields(fields[found[0]])
    names = ("maxOutputTokens", "max_output_tokens")
    changes = cap_fields(config, names, limit, "maxOutputTokens")
    return {found[0]: {**config, **changes}} if changes else {}


def cap_fields(
    fields: Mapping[str, Raw], names: Iterable[str], limit: int, usual: str
) -> dict[str, object]:
    """Return changes after which none of these is above the limit, and at least one is set."""
    given = {name: number for name in names if (number := _read_number(fields, name)) is not None}
    if not given:
        return {usual: limit}
    return {name: limit for name, number in given.items() if number > limit}


def _is_given(fields: Mapping[str, Raw], name: str) -> bool:
    return name in fields and bytes(fields[name]) != b"null"


def _read_number(fields: Mapping[str, Raw], name: str) -> int | None:
    if not _is_given(fields, name):
        return None
    try:
        return msgspec.json.decode(fields[name], type=int)
    except (msgspec.DecodeError, RecursionError):
        raise BadRequest(f'"{name}" is not a whole number') from None


_LIMITERS: Mapping[ChannelDialect, Callable[[Mapping[str, Raw], int], dict[str, object]]] = {
    "openai-chat": _limit_chat,
    "openai-responses": _limit_responses,
    "anthropic": _limit_anthropic,
    "gemini": _limit_gemini,
}
