"""A turn as a pure state machine: engine events in, instructions out.

It neither waits nor writes. The turn runner applies its instructions in order.
"""

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from agentd.agent.engine import (
    ApprovalRequested,
    EngineEvent,
    EngineStarted,
    EngineStateSaved,
    ModesListed,
    RateLimited,
    ReplyCompleted,
    ReplyDelta,
    ThinkingProgress,
    ToolStarted,
    ToolUsed,
    TurnFailed,
    UsageReported,
    UsageWindowsReported,
)
from agentd.chats.model import NO_TOKENS, ZERO_COST, Role, Tokens, ToolReport
from agentd.chats.records import Outcome, ToolUse
from agentd.chats.turns import (
    CUT_OFF,
    INTERRUPTED,
    TOOL_INTERRUPTED,
    format_tool_message,
    report_tool_use,
)
from agentd.core.clock import Timestamp
from agentd.llm.price import NO_USAGE, Prices, Usage, compute_cost, sum_amounts

SILENT = "The engine ended without a reply."

MOST_TOOLS_NOTED = 100
"""Running tools whose start is recorded; no sane engine runs more at once."""
LONGEST_INPUT_NOTED = 4_000
"""Characters of a tool's input that the record of its start keeps."""

LONGEST_REPLY = 1_000_000
"""Characters; no reader wants a longer reply."""
LONGEST_THINKING = 200_000
"""Characters of thinking that are shown between two messages; what is beyond is not."""
ENDLESS = f"The engine wrote a reply of more than {LONGEST_REPLY:,} characters, so it was stopped."


class AddMessage(Struct, frozen=True):
    """Add this message to the history."""

    role: Role
    text: str
    tool: str = ""
    tokens: Tokens = NO_TOKENS
    cost: Decimal = ZERO_COST
    engine_state: str = ""
    """The engine state to save in the same record; empty: unchanged."""
    tool_use: int = 0
    """The number of the tool use whose outcome this is; 0 if none was started."""
    report: ToolReport | None = None


class RecordToolStart(Struct, frozen=True):
    """Record that a tool is running, without waiting for the disk."""

    use: ToolUse


class StreamDelta(Struct, frozen=True):
    """Publish a piece of the growing reply."""

    text: str


class StreamThinking(Struct, frozen=True):
    """Publish a piece of the model's thinking."""

    text: str


class SaveEngineState(Struct, frozen=True):
    """Save this for the engine's next turn in this chat."""

    engine_state: str


class DeferTurn(Struct, frozen=True):
    """A limit ended the turn: retry at ``until``, after ``seconds``, or after a default wait."""

    reason: str
    until: Timestamp
    seconds: float = 0.0
    tokens: Tokens = NO_TOKENS
    cost: Decimal = ZERO_COST
    engine_state: str = ""


class ResendPrompt(Struct, frozen=True):
    """The daemon ends: the prompt is sent again at its next start."""

    tokens: Tokens = NO_TOKENS
    cost: Decimal = ZERO_COST
    engine_state: str = ""


class EndTurn(Struct, frozen=True):
    """The turn is over; a ``reason`` becomes an error message."""

    outcome: Outcome
    reason: str = ""
    tokens: Tokens = NO_TOKENS
    cost: Decimal = ZERO_COST
    engine_state: str = ""


Instruction: TypeAlias = (
    AddMessage
    | RecordToolStart
    | StreamDelta
    | StreamThinking
    | SaveEngineState
    | DeferTurn
    | ResendPrompt
    | EndTurn
)


class TurnMachine:
    """A turn, from the engine's first event to its end, which comes exactly once.

    All usage that the engine reports is recorded exactly once: with the next message, a tool's
    too, so that a kill loses that of one model call at most, or with the end.
    An interrupted reply is kept as far as it was written.
    """

    def __init__(
        self,
        prices: Prices | None = None,
        now: Callable[[], float] = lambda: 0.0,
        budget: Decimal | None = None,
    ) -> None:
        self._prices = prices
        self._budget = budget
        """USD after which the engine may do nothing more; None: no limit."""
        self._spent = ZERO_COST
        self._now = now
        """Seconds of a clock that only rises."""
        self._replied = False
        self._over = False
        self._written: list[str] = []
        self._tools: list[ToolUse] = []
        """The running ones."""
        self._started_at: dict[int, float] = {}
        """The start of each running tool by its number."""
        self._numbers: dict[str, int] = {}
        """The numbers of the uses that start sub-agents, by the engine's ids."""
        self._tools_begun = 0
        self._length = 0
        self._thought = 0
        """Characters of thinking since the last message."""
        self._usage = NO_USAGE
        self._cost = ZERO_COST
        self._memory = ""
        """Saved in the same record as ``_usage``: never one without the other on disk."""

    @property
    def over(self) -> bool:
        """True once the turn has ended."""
        return self._over

    def ends_at(self, progress: EngineEvent) -> bool:
        """Return whether this event ends the turn although the engine would go on."""
        if isinstance(progress, ReplyDelta) and self._length + len(progress.text) > LONGEST_REPLY:
            return not self._over
        return self._exceeds_budget(progress) and not self._over

    def handle(self, progress: EngineEvent) -> Iterator[Instruction]:
        """Return the instructions for an engine event; none once the turn is over."""
        if self._over:
            return
        if self._exceeds_budget(progress):
            yield from self._end_turn("failed", self._explain_budget())
            return
        match progress:
            case ReplyDelta(text=text):
                yield from self._add_delta(text)
            case ThinkingProgress(text=text):
                yield from self._add_thinking(text)
            case ToolStarted():
                yield from self._begin_tool(progress)
            case ToolUsed():
                self._thought = 0
                yield self._report_tool(progress)
            case ReplyCompleted(text=text, usage=usage, cost=known, engine_state=memory):
                self._add_usage(usage, known, memory)
                self._clear_draft()
                self._thought = 0
                self._replied = True
                yield AddMessage("assistant", text, "", *self._take_usage())
            case UsageReported(usage=usage, cost=known, engine_state=memory):
                self._add_usage(usage, known, memory)
            case EngineStateSaved(engine_state=memory):
                self._memory = ""  # an earlier one is not to replace it
                yield SaveEngineState(memory)
            case RateLimited(reason=reason, until=until, seconds=seconds):
                yield from self._flush_unfinished()
                self._over = True
                yield DeferTurn(reason, until, seconds, *self._take_usage())
            case TurnFailed(reason=reason):
                yield from self._end_turn("failed", reason)
            case EngineStarted() | ApprovalRequested() | UsageWindowsReported() | ModesListed():
                pass

    def _exceeds_budget(self, progress: EngineEvent) -> bool:
        """Return whether the engine goes on although the turn's budget is spent."""
        is_work = isinstance(progress, ReplyDelta | ToolStarted | ApprovalRequested)
        return is_work and self._budget is not None and self._spent >= self._budget

    def _explain_budget(self) -> str:
        return f"The turn was ended: it cost {self._spent} USD, its limit is {self._budget} USD."

    def finish(self) -> Iterator[Instruction]:
        """End the turn: the engine is done."""
        if self._replied or self._length:
            return self._end_turn("completed", "")
        return self._end_turn("failed", SILENT)

    def fail(self, reason: str) -> Iterator[Instruction]:
        """End the turn as failed."""
        return self._end_turn("failed", reason)

    def interrupt(self, reason: str) -> Iterator[Instruction]:
        """End the turn as interrupted by the daemon."""
        return self._end_turn("interrupted", reason)

    def resend(self) -> Iterator[Instruction]:
        """End the turn, and send its prompt again when the daemon runs again."""
        if self._over:
            return
        yield from self._flush_unfinished()
        self._over = True
        yield ResendPrompt(*self._take_usage())

    def stop(self) -> Iterator[Instruction]:
        """End the turn as stopped by a person."""
        return self._end_turn("stopped", "")

    def _end_turn(self, outcome: Outcome, reason: str) -> Iterator[Instruction]:
        if self._over:
            return
        yield from self._flush_unfinished()
        self._over = True
        yield EndTurn(outcome, reason, *self._take_usage())

    def _add_delta(self, text: str) -> Iterator[Instruction]:
        self._written.append(text)
        self._length += len(text)
        if self._length > LONGEST_REPLY:
            yield from self._end_turn("failed", ENDLESS)
        else:
            yield StreamDelta(text)

    def _add_thinking(self, text: str) -> Iterator[Instruction]:
        left = LONGEST_THINKING - self._thought
        self._thought += len(text)
        if text and left > 0:
            yield StreamThinking(text[:left])

    def _begin_tool(self, started: ToolStarted) -> Iterator[Instruction]:
        self._tools_begun += 1
        parent = self._numbers.get(started.parent, 0)
        use = ToolUse(self._tools_begun, started.name, started.input, parent)
        if started.id:
            self._numbers[started.id] = use.number
        self._tools.append(use)
        self._started_at[use.number] = self._now()
        if len(self._tools) <= MOST_TOOLS_NOTED:
            yield RecordToolStart(_shorten_input(use))

    def _report_tool(self, used: ToolUsed) -> AddMessage:
        number = self._end_tool(used)
        started = self._started_at.pop(number, None)
        seconds = 0.0 if started is None else self._now() - started
        return AddMessage(
            "tool",
            format_tool_message(used.input, used.outcome),
            used.name,
            *self._take_usage(),
            tool_use=number,
            report=report_tool_use(
                used.input,
                ok=used.ok,
                seconds=seconds,
                diff=used.diff,
                number=self._numbers.get(used.id, 0),
                parent=self._numbers.get(used.parent, 0),
            ),
        )

    def _end_tool(self, used: ToolUsed) -> int:
        """Remove the tool that this must be; return its number, or 0 if none such started."""
        number = self._numbers.get(used.id)
        same = [
            one
            for one in self._tools
            if (one.number == number if number else one.name == used.name)
        ]
        found = next((one for one in same if one.input == used.input), same[0] if same else None)
        if found is None:
            return 0
        self._tools.remove(found)
        return found.number

    def _flush_unfinished(self) -> Iterator[Instruction]:
        """Report interrupted tools, and an unfinished reply as far as it was written."""
        starters = self._numbers.values()
        for tool in self._tools:
            yield _report_interrupted_tool(tool, CUT_OFF, is_starter=tool.number in starters)
        self._tools.clear()
        written = "".join(self._written)
        self._clear_draft()
        if written.strip():
            yield AddMessage("assistant", written, "", *self._take_usage())

    def _clear_draft(self) -> None:
        self._written.clear()
        self._length = 0

    def _add_usage(self, usage: Usage, known: Decimal | None, memory: str) -> None:
        """Add usage; the engine's own cost takes precedence over the price table."""
        if known is None:
            known = compute_cost(usage, self._prices) if self._prices else ZERO_COST
        self._usage += usage
        self._cost = sum_amounts((self._cost, known))
        self._spent = sum_amounts((self._spent, known))
        self._memory = memory or self._memory

    def _take_usage(self) -> tuple[Tokens, Decimal, str]:
        """Return and clear the usage, cost and state not yet recorded."""
        tokens = Tokens(self._usage.total_input, self._usage.total_output)
        spent, self._usage, self._cost = self._cost, NO_USAGE, ZERO_COST
        memory, self._memory = self._memory, ""
        return tokens, spent, memory


def end_after_crash(tools: Iterable[ToolUse]) -> Iterator[Instruction]:
    """End a turn that a crash left open, with these tools running."""
    for use in tools:
        yield _report_interrupted_tool(use, TOOL_INTERRUPTED, is_starter=True)
    yield EndTurn("interrupted", INTERRUPTED)


def end_after_bug(tools: Iterable[ToolUse], error: BaseException) -> Iterator[Instruction]:
    """End a turn that an unexpected error left open, with these tools running."""
    for use in tools:
        yield _report_interrupted_tool(use, CUT_OFF, is_starter=True)
    yield EndTurn("failed", f"The turn failed: {type(error).__name__}: {error}")


def _report_interrupted_tool(use: ToolUse, outcome: str, *, is_starter: bool) -> AddMessage:
    number = use.number if is_starter else 0
    return AddMessage(
        "tool",
        format_tool_message(use.input, outcome),
        tool=use.name,
        tool_use=use.number,
        report=report_tool_use(use.input, ok=False, number=number, parent=use.parent),
    )


def _shorten_input(use: ToolUse) -> ToolUse:
    if len(use.input) <= LONGEST_INPUT_NOTED:
        return use
    return replace(use, input=f"{use.input[:LONGEST_INPUT_NOTED]}…")
