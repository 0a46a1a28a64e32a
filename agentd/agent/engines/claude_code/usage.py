"""The usage of model calls, each token counted once, and the usage windows of the sign-in."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from itertools import islice

from msgspec import structs

from agentd.agent.engines.external.common import parse_usd
from agentd.agent.engines.external.json_rpc import get_path, get_text, iter_list
from agentd.agent.engines.external.usage_windows import make_window
from agentd.llm.price import NO_USAGE, Usage, parse_anthropic_usage
from agentd.models.program_state import MOST_WINDOWS, UsageWindow

_WINDOWS: Mapping[str, str] = {
    "five_hour": "5 hours",
    "seven_day": "7 days",
    "seven_day_opus": "7 days, Opus",
    "seven_day_sonnet": "7 days, Sonnet",
    "seven_day_oauth_apps": "7 days, apps",
    "seven_day_overage_included": "7 days, models of their own",
    "overage": "extra usage",
}
"""The names of usage windows by those of Claude Code."""


_RESULT_NAMES: Mapping[str, str] = {
    "input_tokens": "inputTokens",
    "cache_read_input_tokens": "cacheReadInputTokens",
    "cache_creation_input_tokens": "cacheCreationInputTokens",
    "output_tokens": "outputTokens",
}
"""The names of counts in a result by those of a message."""


class CallUsage:
    """The usage of all calls; Claude Code repeats a call's growing usage with each block.

    Of the calls of subagents it only says how they began: the whole is in the next result.
    """

    def __init__(self) -> None:
        self._calls: dict[str, Usage] = {}
        self._told = NO_USAGE
        """The usage by the results, which do not split up output and writes to the cache."""
        self._booked = NO_USAGE
        self._before = NO_USAGE
        """The usage of the session before the turn."""

    def add_report(self, call: str, report: object) -> None:
        """Add a report of what a call (by its message's id) used so far."""
        usage = parse_anthropic_usage(report)
        if call and usage != NO_USAGE:
            known = self._calls.get(call, NO_USAGE)
            self._calls[call] = _combine_each(max, known, usage)

    def set_baseline(self, report: object) -> None:
        """Note what the session had used before the turn, by the answer to ``get_usage``."""
        self._before = _sum_models(get_path(report, "session", "model_usage"))

    def add_result(self, result: object) -> None:
        """Add what a result tells of all calls since the result before it."""
        self._told += _sum_models(get_path(result, "model_usage_since_last_result"))

    def add_total(self, report: object) -> None:
        """Count what the session has used by now, by the answer to ``get_usage``."""
        total = _sum_models(get_path(report, "session", "model_usage"))
        turn = _combine_each(lambda one, other: max(one - other, 0), total, self._before)
        self._told = _combine_each(max, self._told, turn)

    def take_new(self) -> Usage:
        """Return the usage not yet recorded, and count it as recorded."""
        reported = sum(self._calls.values(), NO_USAGE)
        told = structs.replace(
            self._told,
            cache_write=self._told.cache_write - reported.cache_write_1h,
            output=self._told.output - reported.reasoning,
        )
        total = _combine_each(max, _combine_each(max, reported, told), self._booked)
        new, self._booked = _combine_each(int.__sub__, total, self._booked), total
        return new


def read_spent_before(report: object) -> Decimal:
    """Return the USD that a resumed session had cost, by the answer to ``get_usage``."""
    return parse_usd(get_path(report, "session", "total_cost_usd")) or Decimal(0)


def read_turn_cost(result: object, before: Decimal = Decimal(0)) -> Decimal | None:
    """Return the cost of a turn in USD; None if its result has no valid one.

    The result has the cost of the whole session, including what was spent ``before``.
    """
    total = parse_usd(get_path(result, "total_cost_usd"))
    if total is None or total < before:
        return total
    return total - before


def read_event_windows(info: object) -> tuple[UsageWindow, ...]:
    """Return the usage windows of a ``rate_limit_event``.

    It names the one that decides, newer versions all of them, as fractions: what is beyond 1 is
    used beyond a limit.
    """
    kind, deciding = get_text(info, "rateLimitType"), get_path(info, "utilization")
    if get_text(info, "status") == "rejected":
        deciding = 1
    elif deciding is None:
        deciding = get_path(info, "surpassedThreshold")
    found = {kind: _make_fraction(kind, deciding, get_path(info, "resetsAt"))}
    for kind in _WINDOWS:
        window = get_path(info, "unifiedWindows", kind)
        used, resets_at = get_path(window, "utilization"), get_path(window, "resetsAt")
        if made := _make_fraction(kind, used, resets_at):
            found[kind] = made
    return tuple(one for one in found.values() if one)


def read_report_windows(report: object) -> tuple[UsageWindow, ...]:
    """Return the usage windows by the answer to ``get_usage``, as percentages."""
    limits = get_path(report, "rate_limits")
    named = [(name, get_path(limits, kind)) for kind, name in _WINDOWS.items()]
    for model in islice(iter_list(limits, "model_scoped"), MOST_WINDOWS):
        if label := get_text(model, "display_name"):
            named.append((f"7 days, {label}", model))
    windows = [
        make_window(name, get_path(window, "utilization"), get_path(window, "resets_at"))
        for name, window in named
    ]
    return tuple(one for one in windows if one)


def _make_fraction(kind: str, used: object, resets_at: object) -> UsageWindow | None:
    if kind not in _WINDOWS or not isinstance(used, int | float) or isinstance(used, bool):
        return None
    return make_window(_WINDOWS[kind], used * 100, resets_at)


def _sum_models(models: object) -> Usage:
    """Return what all models have used, as results and ``get_usage`` tell it."""
    used = NO_USAGE
    for one in models.values() if isinstance(models, dict) else ():
        names = {name: get_path(one, theirs) for name, theirs in _RESULT_NAMES.items()}
        used += parse_anthropic_usage(names)
    return used


def _combine_each(combine: Callable[[int, int], int], one: Usage, other: Usage) -> Usage:
    pairs = zip(structs.astuple(one), structs.astuple(other), strict=True)
    return Usage(*(combine(a, b) for a, b in pairs))
