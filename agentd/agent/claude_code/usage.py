"""What the calls of the model used, each token once."""

from collections.abc import Callable
from decimal import Decimal

from msgspec import structs

from agentd.agent.foreign import exact_usd
from agentd.agent.json_rpc import pick
from agentd.proxy.price import NOTHING, Usage, from_anthropic


class Ledger:
    """Claude Code repeats a call's usage with each block of its answer, growing."""

    def __init__(self) -> None:
        self._calls: dict[str, Usage] = {}
        self._booked = NOTHING

    def heard(self, call: str, report: object) -> None:
        """What a call (by its message's id) used so far."""
        usage = from_anthropic(report)
        if call and usage != NOTHING:
            known = self._calls.get(call, NOTHING)
            self._calls[call] = _each(max, known, usage)

    def take(self) -> Usage:
        """What is not booked yet; it counts as booked now."""
        total = sum(self._calls.values(), NOTHING)
        new, self._booked = _each(int.__sub__, total, self._booked), total
        return new


def total_cost(result: object) -> Decimal | None:
    """USD that the process says it cost; None when it does not, or says nonsense."""
    return exact_usd(pick(result, "total_cost_usd"))


def _each(combine: Callable[[int, int], int], one: Usage, other: Usage) -> Usage:
    pairs = zip(structs.astuple(one), structs.astuple(other), strict=True)
    return Usage(*(combine(a, b) for a, b in pairs))
