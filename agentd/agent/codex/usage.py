"""What Codex used, booked exactly once, and when its limits are over."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from agentd.agent.json_rpc import pick
from agentd.clock import Timestamp, iso
from agentd.proxy.price import MOST_TOKENS, NOTHING, Usage, from_openai_responses

_COUNTS = (
    "totalTokens",
    "inputTokens",
    "cachedInputTokens",
    "cacheWriteInputTokens",
    "outputTokens",
    "reasoningOutputTokens",
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAR = 32_503_680_000
"""Seconds until the year 3000; what lies beyond is no time."""


class Ledger:
    """Books what each thread used, once, from totals that only rise.

    Codex tells a thread's total after each call of the model, and once more when it is resumed.
    The same total twice is booked once; a total that was lost is in the next one.
    """

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, int]] = {}

    def begun(self, thread: str) -> None:
        """A new thread: it has used nothing so far."""
        self._seen[thread] = {}

    def used(self, thread: str, told: object, *, before: bool) -> Usage:
        """What was used since the last report; ``before``: in an earlier turn, all of it."""
        total = {name: _count(told, "total", name) for name in _COUNTS}
        if not total["totalTokens"]:
            return NOTHING
        seen = self._seen.get(thread)
        if seen is None:
            last = {name: 0 if before else _count(told, "last", name) for name in _COUNTS}
            seen = {name: total[name] - last[name] for name in _COUNTS}
        new = {name: max(total[name] - seen.get(name, 0), 0) for name in _COUNTS}
        self._seen[thread] = {name: max(total[name], seen.get(name, 0)) for name in _COUNTS}
        return NOTHING if before else _usage(new)


def _count(told: object, *path: str) -> int:
    found = pick(told, *path)
    whole = isinstance(found, int) and not isinstance(found, bool)
    return found if whole and 0 <= found <= MOST_TOKENS else 0  # type: ignore[operator,return-value]


def _usage(counts: Mapping[str, int]) -> Usage:
    return from_openai_responses(
        {
            "total_tokens": counts["totalTokens"],
            "input_tokens": counts["inputTokens"],
            "output_tokens": counts["outputTokens"],
            "input_tokens_details": {
                "cached_tokens": counts["cachedInputTokens"],
                "cache_write_tokens": counts["cacheWriteInputTokens"],
            },
            "output_tokens_details": {"reasoning_tokens": counts["reasoningOutputTokens"]},
        }
    )


def reset_time(limits: object) -> Timestamp:
    """When the used-up limits are over, by ``account/rateLimits/updated``; empty: not told."""
    used_up = [
        pick(limits, window, "resetsAt")
        for window in ("primary", "secondary")
        if _percent(pick(limits, window, "usedPercent")) >= 100
    ]
    moments = [one for one in used_up if isinstance(one, int | float) and 0 < one < _FAR]
    return iso(_EPOCH + timedelta(seconds=max(moments))) if moments else ""


def _percent(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
