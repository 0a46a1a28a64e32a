"""The usage of model calls, each token counted once."""

from collections.abc import Callable
from decimal import Decimal

from msgspec import structs

from agentd.agent.engines.external.common import parse_usd
from agentd.agent.engines.external.json_rpc import get_path
from agentd.llm.price import NO_USAGE, Usage, parse_anthropic_usage


class CallUsage:
    """The usage of all calls; Claude Code repeats a call's growing usage with each block."""

    def __init__(self) -> None:
        self._calls: dict[str, Usage] = {}
        self._booked = NO_USAGE

    def add_report(self, call: str, report: object) -> None:
        """Add a report of what a call (by its message's id) used so far."""
        usage = parse_anthropic_usage(report)
        if call and usage != NO_USAGE:
            known = self._calls.get(call, NO_USAGE)
            self._calls[call] = _combine_each(max, known, usage)

    def take_new(self) -> Usage:
        """Return the usage not yet recorded, and count it as recorded."""
        total = sum(self._calls.values(), NO_USAGE)
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


def _combine_each(combine: Callable[[int, int], int], one: Usage, other: Usage) -> Usage:
    pairs = zip(structs.astuple(one), structs.astuple(other), strict=True)
    return Usage(*(combine(a, b) for a, b in pairs))
