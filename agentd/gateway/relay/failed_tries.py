"""The calls of a request that brought no reply, and what those may cost that were given up.

A call is given up when its supplier keeps us waiting for too long. The supplier may go on working,
and charge for it, while another channel is called: then the request costs both.
"""

from decimal import Decimal
from typing import NamedTuple

from msgspec import structs

from agentd.gateway.ledger.record import FailedTry
from agentd.gateway.pricing.bounds import Pricing, compute_recorded_cost, compute_worst_case_usage
from agentd.llm.price import NO_USAGE, sum_amounts


class GivenUpCost(NamedTuple):
    """USD and tokens that suppliers may charge for calls that were given up."""

    cost: Decimal
    tokens: int


class FailedTries:
    """The failed calls of a request, in order."""

    def __init__(self) -> None:
        self._tries: list[FailedTry] = []
        self._uncharged: tuple[int, FailedTry] | None = None
        """The place of the call that was given up last, and what it is if another one follows."""

    def add(self, failed: FailedTry, charged: FailedTry | None = None) -> None:
        """Add a failed call; ``charged`` is the same with its cost, if it was given up."""
        if charged:
            self._uncharged = len(self._tries), charged
        self._tries.append(failed)

    def charge_given_up(self) -> None:
        """Count the cost of the call that was given up last, as another one follows."""
        if self._uncharged:
            place, charged = self._uncharged
            self._tries[place], self._uncharged = charged, None

    @property
    def records(self) -> tuple[FailedTry, ...]:
        """The calls, as the ledger records them."""
        return tuple(self._tries)

    @property
    def cost(self) -> GivenUpCost:
        """The cost of the calls that were given up and followed by another one."""
        return _sum_tries(self._tries)

    @property
    def cost_if_another_follows(self) -> GivenUpCost:
        """The cost with that of the last call, if it was given up, as once another one follows."""
        return _sum_tries([*self._tries, *(self._uncharged or ())[1:]])


def charge_try(
    failed: FailedTry, pricing: Pricing, input_tokens: int, output_tokens: int
) -> FailedTry:
    """Return a call that was given up with all that its supplier may charge for."""
    usage = compute_worst_case_usage(pricing, NO_USAGE, input_tokens, output_tokens)
    cost = compute_recorded_cost(usage, pricing, reported=False).cost
    return structs.replace(failed, usage=usage, cost=cost)


def _sum_tries(tries: list[FailedTry]) -> GivenUpCost:
    tokens = (one.usage.total_input + one.usage.total_output for one in tries)
    return GivenUpCost(sum_amounts(one.cost for one in tries), sum(tokens))
