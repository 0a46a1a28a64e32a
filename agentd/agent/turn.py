"""One turn as a machine: what the engine tells goes in, what is to be recorded comes out.

Pure: it neither waits nor writes. The dispatcher carries out its instructions in order.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct

from agentd.agent.engine import Failed, Progress, Replied, ToolUsed
from agentd.chats.chat import FREE, NO_TOKENS, Role, Tokens
from agentd.chats.records import Outcome

SILENT = "The engine ended without a reply."


class Say(Struct, frozen=True):
    """Put this message into the history."""

    role: Role
    text: str
    tool: str = ""
    tokens: Tokens = NO_TOKENS
    cost: Decimal = FREE


class End(Struct, frozen=True):
    """The turn is over; a ``reason`` becomes an error message."""

    outcome: Outcome
    reason: str = ""


Instruction: TypeAlias = Say | End


class Turn:
    """From the first sign of the engine to the end of the turn, which comes exactly once."""

    def __init__(self) -> None:
        self._replied = False
        self._over = False

    @property
    def over(self) -> bool:
        """True once the end was told."""
        return self._over

    def handle(self, progress: Progress) -> Iterator[Instruction]:
        """What to do about something that the engine told; nothing once the turn is over."""
        if self._over:
            return
        match progress:
            case ToolUsed(name=name, input=given, outcome=outcome):
                yield Say("tool", f"{given}\n\n{outcome}".strip(), tool=name)
            case Replied(text=text, tokens=tokens, cost=cost):
                self._replied = True
                yield Say("assistant", text, tokens=tokens, cost=cost)
            case Failed(reason=reason):
                yield self._end(End("failed", reason))

    def finished(self) -> Iterator[Instruction]:
        """The engine has nothing more to tell."""
        if not self._over:
            yield self._end(End("completed") if self._replied else End("failed", SILENT))

    def failed(self, reason: str) -> Iterator[Instruction]:
        """The engine broke down."""
        if not self._over:
            yield self._end(End("failed", reason))

    def stopped(self, reason: str) -> Iterator[Instruction]:
        """The turn was ended from outside, before the engine was done."""
        if not self._over:
            yield self._end(End("interrupted", reason))

    def _end(self, end: End) -> End:
        self._over = True
        return end
