"""One turn as a machine: what the engine tells goes in, what is to be recorded comes out.

Pure: it neither waits nor writes. The dispatcher carries out its instructions in order.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct

from agentd.agent.engine import (
    Alive,
    Failed,
    Kept,
    Limited,
    Progress,
    Replied,
    Spent,
    ToolStarted,
    ToolUsed,
    Wrote,
)
from agentd.chats.chat import FREE, NO_TOKENS, Role, Tokens
from agentd.chats.records import Outcome
from agentd.clock import Timestamp
from agentd.proxy.price import NOTHING, Prices, Usage, cost, total

SILENT = "The engine ended without a reply."

CUT_OFF = "Interrupted."
"""The outcome of a tool that was at work when its turn ended."""

LONGEST_REPLY = 1_000_000
"""Characters: who writes more in one piece does not write for a reader."""
ENDLESS = f"The engine wrote a reply of more than {LONGEST_REPLY:,} characters, so it was ended."


class Say(Struct, frozen=True):
    """Put this message into the history."""

    role: Role
    text: str
    tool: str = ""
    tokens: Tokens = NO_TOKENS
    cost: Decimal = FREE


class Show(Struct, frozen=True):
    """Tell those who listen how the reply grows."""

    text: str


class Keep(Struct, frozen=True):
    """Keep this for the engine's next turn in this chat."""

    memory: str


class Defer(Struct, frozen=True):
    """A limit ended the turn: try again at ``until``, after ``seconds``, or else after a while."""

    reason: str
    until: Timestamp
    seconds: float = 0.0
    tokens: Tokens = NO_TOKENS
    cost: Decimal = FREE


class End(Struct, frozen=True):
    """The turn is over; a ``reason`` becomes an error message."""

    outcome: Outcome
    reason: str = ""
    tokens: Tokens = NO_TOKENS
    cost: Decimal = FREE


Instruction: TypeAlias = Say | Show | Keep | Defer | End


class Turn:
    """From the first sign of the engine to the end of the turn, which comes exactly once.

    Every token and every cent that the engine tells is booked exactly once: with a reply, or
    with the end. A reply that was cut off is kept as far as it was told.
    """

    def __init__(self, prices: Prices | None = None) -> None:
        self._prices = prices
        self._replied = False
        self._over = False
        self._written: list[str] = []
        self._tools: list[ToolStarted] = []
        """Those at work."""
        self._length = 0
        self._usage = NOTHING
        self._cost = FREE

    @property
    def over(self) -> bool:
        """True once the end was told."""
        return self._over

    def handle(self, progress: Progress) -> Iterator[Instruction]:
        """What to do about something that the engine told; nothing once the turn is over."""
        if self._over:
            return
        match progress:
            case Wrote(text=text):
                yield from self._wrote(text)
            case ToolStarted():
                self._tools.append(progress)
            case ToolUsed(name=name, input=given, outcome=outcome):
                self._tool_ended(name, given)
                yield Say("tool", f"{given}\n\n{outcome}".strip(), tool=name)
            case Replied(text=text, usage=usage, cost=known):
                self._book(usage, known)
                self._forget()
                self._replied = True
                yield Say("assistant", text, "", *self._booked())
            case Spent(usage=usage, cost=known):
                self._book(usage, known)
            case Kept(memory=memory):
                yield Keep(memory)
            case Limited(reason=reason, until=until, seconds=seconds):
                yield from self._rest()
                self._over = True
                yield Defer(reason, until, seconds, *self._booked())
            case Failed(reason=reason):
                yield from self._end("failed", reason)
            case Alive():
                pass

    def finished(self) -> Iterator[Instruction]:
        """The engine has nothing more to tell."""
        if self._replied or self._length:
            return self._end("completed", "")
        return self._end("failed", SILENT)

    def failed(self, reason: str) -> Iterator[Instruction]:
        """The engine broke down."""
        return self._end("failed", reason)

    def interrupted(self, reason: str) -> Iterator[Instruction]:
        """The daemon ended the turn before the engine was done."""
        return self._end("interrupted", reason)

    def stopped(self) -> Iterator[Instruction]:
        """A person ended the turn before the engine was done."""
        return self._end("stopped", "")

    def _end(self, outcome: Outcome, reason: str) -> Iterator[Instruction]:
        if self._over:
            return
        yield from self._rest()
        self._over = True
        yield End(outcome, reason, *self._booked())

    def _wrote(self, text: str) -> Iterator[Instruction]:
        self._written.append(text)
        self._length += len(text)
        if self._length > LONGEST_REPLY:
            yield from self._end("failed", ENDLESS)
        else:
            yield Show(text)

    def _tool_ended(self, name: str, given: str) -> None:
        same = [one for one in self._tools if one.name == name]
        found = next((one for one in same if one.input == given), same[0] if same else None)
        if found:
            self._tools.remove(found)

    def _rest(self) -> Iterator[Instruction]:
        """Tell the tools that were cut off, and what was written of a reply that was."""
        for tool in self._tools:
            yield Say("tool", f"{tool.input}\n\n{CUT_OFF}".strip(), tool=tool.name)
        self._tools.clear()
        written = "".join(self._written)
        self._forget()
        if written.strip():
            yield Say("assistant", written, "", *self._booked())

    def _forget(self) -> None:
        self._written.clear()
        self._length = 0

    def _book(self, usage: Usage, known: Decimal | None) -> None:
        """The engine's own figure counts before the price table."""
        if known is None:
            known = cost(usage, self._prices) if self._prices else FREE
        self._usage += usage
        self._cost = total((self._cost, known))

    def _booked(self) -> tuple[Tokens, Decimal]:
        """All that no message carries yet; it is booked with this."""
        tokens = Tokens(self._usage.total_input, self._usage.total_output)
        spent, self._usage, self._cost = self._cost, NOTHING, FREE
        return tokens, spent
