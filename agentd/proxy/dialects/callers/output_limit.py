"""The most tokens of a reply, written into a request that is passed on in its own dialect.

What is reserved for a request must be all that it can use up, so the supplier is told the same
number. Nothing else of the request is touched.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec import Raw

from agentd.errors import BadRequest
from agentd.proxy.channel import ChannelDialect
from agentd.proxy.dialects.callers.asked import assembled, pieces

LEAST_THINKING = 1024
"""The smallest budget for thinking that Anthropic takes."""


def with_output_limit(body: bytes, dialect: ChannelDialect, limit: int) -> bytes:
    """The request, in which no limit of the reply's tokens is missing or above ``limit``.

    The same bytes where that is so already. Raises ``BadRequest`` where thinking alone needs more.
    """
    fields = pieces(body)
    return assembled(body, fields, _CHANGES[dialect](fields, limit))


def _for_chat(fields: Mapping[str, Raw], limit: int) -> dict[str, object]:
    # OpenAI refuses max_completion_tokens beside a prediction.
    usual = "max_tokens" if _given(fields, "prediction") else "max_completion_tokens"
    return _capped(fields, ("max_completion_tokens", "max_tokens"), limit, usual)


def _for_responses(fields: Mapping[str, Raw], limit: int) -> dict[str, object]:
    return _capped(fields, ("max_output_tokens",), limit, "max_output_tokens")


def _for_anthropic(fields: Mapping[str, Raw], limit: int) -> dict[str, object]:
    changes = _capped(fields, ("max_tokens",), limit, "max_tokens")
    if not changes or not _given(fields, "thinking"):
        return changes
    thinking = pieces(fields["thinking"])
    budget = _number(thinking, "budget_tokens")
    if budget is None or budget < limit:  # the supplier wants it to be below max_tokens
        return changes
    if limit <= LEAST_THINKING:
        raise BadRequest(
            f"thinking.budget_tokens is {budget}, but this model may write {limit} tokens in all,"
            " thinking included",
            "Ask without thinking.",
        )
    return {**changes, "thinking": {**thinking, "budget_tokens": limit - 1}}


def _for_gemini(fields: Mapping[str, Raw], limit: int) -> dict[str, object]:
    found = [name for name in ("generationConfig", "generation_config") if _given(fields, name)]
    if not found:
        return {"generationConfig": {"maxOutputTokens": limit}}
    config = pieces(fields[found[0]])
    names = ("maxOutputTokens", "max_output_tokens")
    changes = _capped(config, names, limit, "maxOutputTokens")
    return {found[0]: {**config, **changes}} if changes else {}


def _capped(
    fields: Mapping[str, Raw], names: Iterable[str], limit: int, usual: str
) -> dict[str, object]:
    """Changes after which none of these is above the limit, and one of them is there."""
    given = {name: number for name in names if (number := _number(fields, name)) is not None}
    if not given:
        return {usual: limit}
    return {name: limit for name, number in given.items() if number > limit}


def _given(fields: Mapping[str, Raw], name: str) -> bool:
    return name in fields and bytes(fields[name]) != b"null"


def _number(fields: Mapping[str, Raw], name: str) -> int | None:
    if not _given(fields, name):
        return None
    try:
        return msgspec.json.decode(fields[name], type=int)
    except msgspec.DecodeError:
        raise BadRequest(f'"{name}" is no whole number') from None


_CHANGES: Mapping[ChannelDialect, Callable[[Mapping[str, Raw], int], dict[str, object]]] = {
    "openai-chat": _for_chat,
    "openai-responses": _for_responses,
    "anthropic": _for_anthropic,
    "gemini": _for_gemini,
}
