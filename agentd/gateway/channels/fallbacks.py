"""The models that are tried for a request after the one that was asked for failed."""

from collections.abc import Collection, Sequence

from agentd.gateway.channels.failures import FALLBACK_FAILURES, Failure
from agentd.models.gateway_model import GatewayModel

MAX_MODELS = 10
"""The most models that are tried for one request, the one that was asked for included."""


def list_next(
    failed: GatewayModel, why: Failure, waiting: Sequence[str], tried: Collection[str]
) -> list[str]:
    """Return the names of the models to try next, in order, now that a model failed.

    Its own fallbacks for this failure come before those that are ``waiting``. None is tried twice,
    and after a failure that every model would meet, none is tried at all.
    """
    named = _select_fallbacks(failed, why)
    if named is None:
        return []
    left = dict.fromkeys(name for name in (*named, *waiting) if name not in tried)
    return list(left)[: max(MAX_MODELS - len(tried), 0)]


def _select_fallbacks(model: GatewayModel, why: Failure) -> tuple[str, ...] | None:
    """Return the model's list for a failure; None: the request itself is wrong."""
    if why == "context_too_long":
        return model.context_fallbacks
    if why == "content_refused":
        return model.content_fallbacks
    return model.fallbacks if why in FALLBACK_FAILURES else None
