"""The usage and cost of a turn with an ACP agent, counted exactly once."""

from collections.abc import Iterator
from decimal import Decimal

from agentd.agent.engine import UsageReported
from agentd.agent.engines.external.common import parse_usd
from agentd.agent.engines.external.json_rpc import get_path, get_text, iter_list
from agentd.llm.price import MAX_TOKENS, NO_USAGE, Usage


class CostMeter:
    """The cost of a turn, from reports that are cumulative for a session.

    ``seen`` is what the session had cost when the last turn ended. A first report below it comes
    from an agent that counts from zero in each process; later ones only rise. Claude Code saves
    the cost of a session and continues from there when it is resumed, so after a kill its count
    may restart at an earlier sum.
    """

    def __init__(self, seen: Decimal) -> None:
        self.seen = seen
        self.known = False
        """True if the agent reported any cost in this turn."""
        self._base = seen
        self._has_report = False

    def reset(self) -> None:
        """Reset for a new session, which has cost nothing so far."""
        self.seen = self._base = Decimal(0)

    def add_report(self, update: object, *, before: bool = False) -> None:
        """Add a ``usage_update``; one ``before`` the prompt reports the cost of earlier turns."""
        amount = _parse_usd(get_path(update, "cost"))
        if amount is None:
            return
        if before:
            self.seen = self._base = amount
        else:
            if not self._has_report and amount < self.seen:
                self._base = Decimal(0)
                self.seen = amount
            self.seen = max(self.seen, amount)
            self.known = True
        self._has_report = True

    def add_to_earlier(self, own: Decimal) -> Decimal:
        """Return what the session has cost when this turn's calls, so far as told, cost ``own``."""
        return max(self.seen, self._base + own)

    def take_spent(self) -> Decimal | None:
        """Return the spend since the last call; None when the agent reports no cost.

        An agent without prices reports a cost of zero: then the model's prices apply.
        """
        if not self.known:
            return None
        spent, self._base = self.seen - self._base, self.seen
        return spent if self.seen else None


class CallMeter:
    """The calls to models of a turn, as the plugin for opencode tells each (``opencode_usage.js``).

    The calls of sub-agents are in sessions of their own, whose cost is in no ``usage_update``.
    """

    def __init__(self) -> None:
        self.own = Decimal(0)
        """USD of the calls in the turn's own session, which its next report includes."""
        self._known: set[str] = set()
        self._elsewhere = Decimal(0)
        """USD of the calls in other sessions than the turn's own."""
        self._reported = Decimal(0)
        """USD of all calls."""

    def add_call(self, params: object, session: str) -> Iterator[UsageReported]:
        """Report what a call used, the first time it is told; ``session`` is the turn's own.

        That is at once, so that a budget is noticed in the middle of a turn.
        """
        call = get_text(params, "id")
        if call in self._known:
            return
        self._known.add(call)
        cost = parse_usd(get_path(params, "cost")) or Decimal(0)
        self._reported += cost
        if get_text(params, "sessionId") == session:
            self.own += cost
        else:
            self._elsewhere += cost
        tokens = get_path(params, "tokens")
        used = Usage(
            input=_count(tokens, "input"),
            cache_read=_count(get_path(tokens, "cache"), "read"),
            cache_write=_count(get_path(tokens, "cache"), "write"),
            output=_count(tokens, "output"),
            reasoning=_count(tokens, "reasoning"),
        )
        yield UsageReported(used, cost or None)

    def complete(self, used: Usage, cost: Decimal | None) -> tuple[Usage, Decimal | None]:
        """Return what of a turn's usage and cost, as the program told them, is not reported yet."""
        if not self._known:
            return used, cost
        if cost is not None:
            cost = max(cost + self._elsewhere - self._reported, Decimal(0))
        return NO_USAGE, cost


def _parse_usd(cost: object) -> Decimal | None:
    return parse_usd(get_path(cost, "amount")) if get_text(cost, "currency") == "USD" else None


def read_usage(answer: object) -> Usage:
    """Return the token counts in the response to a prompt.

    They are in ``usage``, or as a quota in ``_meta``: the only place for Gemini, and for Claude
    after a cancelled turn, by model, beside an empty ``usage``.
    """
    quota = get_path(answer, "_meta", "quota")
    by_model = [
        _parse_usage(get_path(one, "token_count")) for one in iter_list(quota, "model_usage")
    ]
    value = (
        _parse_usage(get_path(answer, "usage")),
        _parse_usage(get_path(quota, "token_count")),
        sum(by_model, NO_USAGE),
    )
    return next((one for one in value if one != NO_USAGE), NO_USAGE)


_SPELLINGS = (
    ("inputTokens", "input_tokens"),
    ("outputTokens", "output_tokens"),
    ("thoughtTokens", "reasoningOutputTokens"),
    ("cachedReadTokens", "cachedInputTokens"),
    ("cachedWriteTokens", "cacheWriteInputTokens"),
    ("totalTokens",),
)
"""The protocol's name of each count, and the names that agents use in a quota."""


def _parse_usage(usage: object) -> Usage:
    into, out_of, thought, read, written, total = (
        next(filter(None, (_count(usage, name) for name in names)), 0) for names in _SPELLINGS
    )
    # Agents disagree whether cached and reasoning tokens are included in the others; their own
    # total shows which.
    if total == into + out_of and read + written <= into and thought <= out_of:
        into, out_of = into - read - written, out_of - thought
    elif total == into + out_of + thought and read + written <= into:
        into -= read + written
    elif total == into + out_of + read + written and thought <= out_of:
        out_of -= thought
    return Usage(input=into, cache_read=read, cache_write=written, output=out_of, reasoning=thought)


def _count(counts: object, name: str) -> int:
    found = get_path(counts, name)
    whole = isinstance(found, int) and not isinstance(found, bool)
    return found if whole and 0 < found <= MAX_TOKENS else 0  # type: ignore[operator,return-value]
