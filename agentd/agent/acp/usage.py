"""What a turn with an ACP agent used and cost, booked exactly once."""

from collections.abc import Mapping
from decimal import Decimal

from agentd.agent.foreign import exact_usd
from agentd.agent.json_rpc import pick, text
from agentd.proxy.price import MOST_TOKENS, Usage

_RESTARTING = ("claude",)
"""Agents whose cost begins at nothing in each process: it is that of the process."""


class Meter:
    """The cost of a turn, from reports that are cumulative for a session.

    ``seen`` is what the session had cost when the last turn ended. A first report below it is
    that of an agent that counts from nothing in each process; later ones only rise.
    """

    def __init__(self, seen: Decimal) -> None:
        self.seen = seen
        self.known = False
        """Whether the agent told of any cost in this turn."""
        self.restarts = False
        """Whether the agent counts from nothing in each process."""
        self._base = seen
        self._told = False

    def begun(self, agent: str, *, fresh: bool) -> None:
        """A session begins: a ``fresh`` one has cost nothing, and so has some agents' process."""
        self.restarts = any(name in agent.lower() for name in _RESTARTING)
        if fresh or self.restarts:
            self.seen = self._base = Decimal(0)

    def heard(self, update: object, *, before: bool = False) -> None:
        """A ``usage_update``; ``before`` the prompt it tells what earlier turns cost."""
        amount = _usd(pick(update, "cost"))
        if amount is None:
            return
        if before:
            self.seen = self._base = amount
        else:
            if not self._told and amount < self.seen:
                self._base = Decimal(0)
                self.seen = amount
            self.seen = max(self.seen, amount)
            self.known = True
        self._told = True

    def take(self) -> Decimal | None:
        """What was spent since this was last asked; None when the agent tells no costs.

        An agent that knows no prices tells a cost of nothing: then those of the model count.
        """
        if not self.known:
            return None
        spent, self._base = self.seen - self._base, self.seen
        return spent if self.seen else None


def _usd(cost: object) -> Decimal | None:
    return exact_usd(pick(cost, "amount")) if text(cost, "currency") == "USD" else None


def tokens(answer: object) -> Usage:
    """What the answer to a prompt says of the tokens; Gemini puts them elsewhere."""
    usage = pick(answer, "usage")
    if isinstance(usage, dict):
        return _told(usage)
    counts = pick(answer, "_meta", "quota", "token_count")
    into, out_of = (_count(counts, f"{side}_tokens") for side in ("input", "output"))
    return Usage(input=into, output=out_of)


def _told(usage: Mapping[str, object]) -> Usage:
    into, out_of, thought, read, written, total = (
        _count(usage, name)
        for name in (
            "inputTokens",
            "outputTokens",
            "thoughtTokens",
            "cachedReadTokens",
            "cachedWriteTokens",
            "totalTokens",
        )
    )
    # Agents disagree whether the cached and the thought tokens are beside the others or inside
    # them; their own total tells.
    if total == into + out_of and read + written <= into and thought <= out_of:
        into, out_of = into - read - written, out_of - thought
    elif total == into + out_of + thought and read + written <= into:
        into -= read + written
    elif total == into + out_of + read + written and thought <= out_of:
        out_of -= thought
    return Usage(input=into, cache_read=read, cache_write=written, output=out_of, reasoning=thought)


def _count(counts: object, name: str) -> int:
    found = pick(counts, name)
    whole = isinstance(found, int) and not isinstance(found, bool)
    return found if whole and 0 < found <= MOST_TOKENS else 0  # type: ignore[operator,return-value]
