"""What a turn has come to: its conversation, what it cost, and whether it may go on.

Pure: told what the model replied and what the tools brought, it says what to ask next.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from msgspec import Struct, structs

from agentd.agent.engine import Assignment
from agentd.agent.native.opening import opening
from agentd.agent.native.showing import Misuse, is_reading
from agentd.agent.native.trimming import size, trimmed
from agentd.agent.tools import ToolUse
from agentd.proxy.dialects.conversation import (
    Conversation,
    Draft,
    Finished,
    Message,
    Text,
    Tool,
    ToolResult,
)
from agentd.proxy.price import NOTHING, Prices, Usage, cost, total

LARGEST_RESERVE = 16_000
"""Tokens that are kept free for the reply; of a small context a quarter."""

MOST_AT_ONCE = 8
"""Tools that are used beside each other."""

_BYTES_PER_TOKEN = 4.0
_SANE_BYTES = (1.0, 8.0)
"""What a supplier's count may make of the former; beyond, it did not count what was sent."""

_GO_ON = (
    "[Your reply was cut off at its length limit. Go on where it ended, in smaller pieces: a long"
    " file can be written in part and then edited.]"
)


class Limits(Struct, frozen=True):
    """How far one turn may go."""

    steps: int = 60
    """Replies of the model."""
    seconds: float = 1800.0
    """Without the time that a person takes to answer a question."""
    cost: Decimal | None = None
    """USD; None: no limit."""
    missteps: int = 6
    """Useless replies in a row: calls of tools that are none, or replies that are cut off."""


class Turn:
    """One prompt being carried out. ``done`` once the model has no more to say or to do."""

    def __init__(
        self,
        assignment: Assignment,
        system: str,
        tools: tuple[Tool, ...],
        limits: Limits,
        prices: Prices | None,
    ) -> None:
        self.done = False
        self.replied = False
        self._assignment = assignment
        self._system = system
        self._tools = tools
        self._limits = limits
        self._prices = prices
        self._transcript = opening(assignment)
        self._fixed = len(system.encode()) + sum(len(repr(tool)) for tool in tools)
        self._bytes_per_token = _BYTES_PER_TOKEN
        self._asked = 0
        self._steps = 0
        self._missteps = 0
        self._spent = Decimal(0)
        context = assignment.context
        reserve = min(LARGEST_RESERVE, context // 4)
        self._budget = context - reserve if context else None

    def conversation(self) -> Conversation:
        """What to ask the model next, as long as its context allows."""
        if self._budget is not None:
            room = int(self._budget * self._bytes_per_token) - self._fixed
            self._transcript = trimmed(self._transcript, room)
        self._asked = size(self._transcript.messages) + self._fixed
        return Conversation(
            messages=self._transcript.messages,
            system=self._system,
            tools=self._tools,
            effort=self._assignment.effort,
            cache_key=f"agentd-{self._assignment.chat_id}",
        )

    def halve(self) -> None:
        """What was asked last was too long for the model: ask half as much from now on."""
        self._budget = int(self._asked / self._bytes_per_token) // 2

    def spend(self, usage: Usage) -> Decimal | None:
        """Book what one request used; its cost in USD, None where the prices are not known."""
        if self._prices is None or usage == NOTHING:
            return None
        price = cost(usage, self._prices)
        self._spent = total((self._spent, price))
        return price

    def used(self, draft: Draft) -> Usage:
        """Return what a request used whose answer was cut off.

        Suppliers that tell it at the end have not told it: then it is estimated by the measure of
        earlier requests. Nothing was used while no answer had begun.
        """
        if draft.usage.output or not (draft.text or draft.calls or draft.usage != NOTHING):
            return draft.usage
        said = len(draft.text.encode()) + sum(len(call.arguments) for call in draft.calls)
        output = round(said / self._bytes_per_token)
        if draft.usage != NOTHING:
            return structs.replace(draft.usage, output=output)
        return Usage(input=round(self._asked / self._bytes_per_token), output=output)

    def take(self, draft: Draft) -> None:
        """The model's reply is whole."""
        self._steps += 1
        self._learn(draft.usage)
        said = draft.message()
        self.replied = self.replied or bool(draft.text.strip())
        if draft.calls:
            self._transcript = self._transcript.with_more(said)
        elif isinstance(draft.end, Finished) and draft.end.reason == "length":
            self._missteps += 1
            self._transcript = self._transcript.with_more(said, Message("user", (Text(_GO_ON),)))
        else:
            self.done = True

    def give(self, uses: Sequence[ToolUse | Misuse], results: Sequence[ToolResult]) -> None:
        """What came of all calls of the latest reply, in their order."""
        self._transcript = self._transcript.with_more(Message("user", tuple(results)))
        useless = all(isinstance(use, Misuse) for use in uses)
        self._missteps = self._missteps + 1 if useless else 0

    def end(self, seconds: float) -> str:
        """Why the turn must end before the next request, ``seconds`` after it began; or nothing."""
        limits, go_on = self._limits, "Send another prompt to have it go on."
        if self._missteps >= limits.missteps:
            return (
                f"The model gave {self._missteps} useless replies in a row (calls of tools that"
                " are none, or replies that were cut off), so the turn was ended."
            )
        if self._steps >= limits.steps:
            return f"The turn reached its limit of {limits.steps} steps. {go_on}"
        if seconds >= limits.seconds:
            return f"The turn reached its limit of {limits.seconds:.0f} seconds. {go_on}"
        if limits.cost is not None and self._prices is None:
            return (
                f"The price of {self._assignment.model} is not known, so the limit of"
                f" {limits.cost} USD a turn cannot be kept. Set its prices in config/models.yml."
            )
        if limits.cost is not None and self._spent >= limits.cost:
            return f"The turn reached its limit of {limits.cost} USD ({self._spent} USD). {go_on}"
        return ""

    def _learn(self, usage: Usage) -> None:
        """Take the supplier's own count of what was asked for a measure of what is asked next."""
        if usage.total_input:
            told = self._asked / usage.total_input
            self._bytes_per_token = min(max(told, _SANE_BYTES[0]), _SANE_BYTES[1])


def batches(
    uses: Sequence[ToolUse | Misuse],
) -> Iterator[tuple[ToolUse | Misuse, ...]]:
    """Calls in their order, together what may be done at once: neighbours that only read."""
    together: list[ToolUse | Misuse] = []
    for use in uses:
        if together and not (is_reading(use) and len(together) < MOST_AT_ONCE):
            yield tuple(together)
            together = []
        if is_reading(use):
            together.append(use)
        else:
            yield (use,)
    if together:
        yield tuple(together)
