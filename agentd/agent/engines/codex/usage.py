"""The usage of Codex, counted exactly once, and its limits."""

from collections.abc import Mapping

from agentd.agent.engines.external.json_rpc import get_path, get_text
from agentd.agent.engines.external.usage_windows import describe_span, make_window, parse_moment
from agentd.core.clock import Timestamp
from agentd.llm.price import MAX_TOKENS, NO_USAGE, Usage, parse_responses_usage
from agentd.models.program_state import UsageWindow

_COUNTS = (
    "totalTokens",
    "inputTokens",
    "cachedInputTokens",
    "cacheWriteInputTokens",
    "outputTokens",
    "reasoningOutputTokens",
)


class ThreadUsage:
    """Counts the usage of each thread once, from totals that only rise.

    Codex reports a thread's total after each call of the model, and again when it is resumed.
    A repeated total counts once; a lost one is part of the next, and what was used when the
    daemon was killed is in the total of the resumed thread.
    """

    def __init__(self) -> None:
        self._seen: dict[str, Mapping[str, int]] = {}
        self._reported: set[str] = set()

    def set_baseline(self, thread: str, booked: Mapping[str, int] | None = None) -> None:
        """Set how much of a thread's usage is already recorded; nothing for a new one."""
        self._seen[thread] = booked or {}

    def get_booked(self, thread: str) -> Mapping[str, int] | None:
        """Return the recorded total of a thread; None: unknown."""
        return self._seen.get(thread)

    def add_report(self, thread: str, report: object, *, before: bool) -> Usage:
        """Return the unrecorded usage; ``before``: the report is about an earlier turn."""
        total = {name: _count(report, "total", name) for name in _COUNTS}
        if not total["totalTokens"]:
            return NO_USAGE
        seen, first = self._seen.get(thread), thread not in self._reported
        self._reported.add(thread)
        if seen is None:
            last = {name: 0 if before else _count(report, "last", name) for name in _COUNTS}
            seen = {name: total[name] - last[name] for name in _COUNTS}
        new = {name: max(total[name] - seen.get(name, 0), 0) for name in _COUNTS}
        if first:  # Codex may have lost its last reports: count on from here
            seen = total
        self._seen[thread] = {name: max(total[name], seen.get(name, 0)) for name in _COUNTS}
        return _parse_counts(new)


def _count(report: object, *path: str) -> int:
    found = get_path(report, *path)
    whole = isinstance(found, int) and not isinstance(found, bool)
    return found if whole and 0 <= found <= MAX_TOKENS else 0  # type: ignore[operator,return-value]


def _parse_counts(counts: Mapping[str, int]) -> Usage:
    return parse_responses_usage(
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


def read_reset_time(limits: object) -> Timestamp:
    """Return when used-up limits end, by ``account/rateLimits/updated``; empty: unknown."""
    used_up = [
        get_path(limits, window, "resetsAt")
        for window in ("primary", "secondary")
        if _parse_percent(get_path(limits, window, "usedPercent")) >= 100
    ]
    return max(map(parse_moment, used_up), default="")


def read_windows(limits: object) -> tuple[UsageWindow, ...]:
    """Return the usage windows of a snapshot of ``account/rateLimits/updated``.

    It names only what has changed. There may be other limits beside the usual one, ``codex``, and
    one that the sign-in's organisation has set.
    """
    limit = get_text(limits, "limitName") or get_text(limits, "limitId")
    suffix = f", {limit}" if limit not in ("", "codex") else ""
    windows = []
    for place in ("primary", "secondary"):
        window = get_path(limits, place)
        span = describe_span(get_path(window, "windowDurationMins")) or f"{place} window"
        used, resets_at = get_path(window, "usedPercent"), get_path(window, "resetsAt")
        windows.append(make_window(f"{span}{suffix}", used, resets_at))
    own = get_path(limits, "individualLimit")
    left = get_path(own, "remainingPercent")
    if isinstance(left, int | float):
        windows.append(make_window("spending", max(100 - left, 0), get_path(own, "resetsAt")))
    return tuple(one for one in windows if one)


def _parse_percent(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
