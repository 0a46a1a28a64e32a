"""Why calls of suppliers fail, and what each kind of failure says about a channel."""

from typing import Literal, TypeAlias

from agentd.llm.conversation import ErrorKind

Failure: TypeAlias = ErrorKind | Literal["unreachable"]
"""``unreachable``: no answer came at all."""

CHANNEL_FAILURES: frozenset[Failure] = frozenset(
    {
        "authentication",
        "rate_limit",
        "quota",
        "overloaded",
        "server",
        "garbled",
        "broken",
        "unreachable",
    }
)
"""The failures that start a channel's cooldown. Callers could cause any other for everybody:
``permission`` is also how suppliers refuse certain prompts."""

MODEL_FAILURES: frozenset[Failure] = frozenset({"rate_limit", "overloaded"})
"""... or only of the supplier's model, if it is known: suppliers limit each model separately."""

KEY_FAILURES: frozenset[Failure] = frozenset({"authentication", "rate_limit", "quota"})
"""... or only of the key that was used, if the channel has another: they are about the account."""

FALLBACK_FAILURES: frozenset[Failure] = CHANNEL_FAILURES | {
    "permission",
    "not_found",
    "unusable_reply",
}
"""Failures after which another channel may do better; an invalid request fails everywhere."""
