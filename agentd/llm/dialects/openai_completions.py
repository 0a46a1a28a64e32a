"""Requests to ``/v1/completions``, with which editors complete code; they are only passed through.

A request continues a ``prompt``, or several, each ``n`` times; ``suffix`` is what follows the gap.
"""

from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from agentd.llm.dialects import service_tier as extras
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.openai_chat.request import StreamedRequest, list_passthrough_changes
from agentd.llm.dialects.output_limit import cap_fields
from agentd.llm.dialects.request_parsing import (
    MAX_TOKENS,
    decode_as,
    decode_raw_fields,
    decode_subset,
    encode_with,
)

PATH = "/v1/completions"

_Copies: TypeAlias = Annotated[int, Meta(ge=1, le=128)]
_Prompt: TypeAlias = str | int | list[int]
"""A text, a token of the only prompt, or a prompt of tokens."""


class _Envelope(StreamedRequest):
    prompt: str | list[_Prompt] | None = None
    max_tokens: Annotated[int, Meta(ge=0, le=MAX_TOKENS)] | None = None
    n: _Copies | None = None
    best_of: _Copies | None = None
    service_tier: Any = None


def peek(body: bytes) -> RequestSummary:
    """Return the summary. Raises ``BadRequest`` for an invalid request."""
    seen = decode_as(body, _Envelope)
    return RequestSummary(
        model=seen.model,
        stream=bool(seen.stream),
        max_output=seen.max_tokens or 0,
        replies=_count_prompts(seen.prompt) * max(seen.n or 1, seen.best_of or 1),
        wants_usage=seen.wants_usage,
        service_tier=extras.name_service("openai-chat", seen),
    )


def rewrite_for_passthrough(body: bytes, model: str) -> bytes:
    """Return the request with the model name replaced; always requests usage in a stream."""
    fields = decode_raw_fields(body)
    seen = decode_subset(fields, _Envelope)
    return encode_with(body, fields, list_passthrough_changes(fields, seen, model))


def apply_output_limit(body: bytes, limit: int) -> bytes:
    """Return the request with at most ``limit`` tokens for each completion."""
    fields = decode_raw_fields(body)
    return encode_with(body, fields, cap_fields(fields, ("max_tokens",), limit, "max_tokens"))


def _count_prompts(prompt: str | list[_Prompt] | None) -> int:
    """Return how many prompts there are: a list of integers is one, of tokens."""
    if not isinstance(prompt, list):
        return 1
    return max(sum(not isinstance(one, int) for one in prompt), 1)
