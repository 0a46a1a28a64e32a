"""The agent's state in a chat: running, held, waiting or asking; and its budget.

A part of the chat's fold (``chats.state``), with the same life: only records change it.
"""

from decimal import Decimal
from typing import Literal

from msgspec import Struct, structs

from agentd.chats.approval import Approval, ApprovalMode, Hold, QueueWait
from agentd.chats.model import AUTOFIX, ZERO_COST, Prompt
from agentd.chats.records import (
    ApprovalAnswered,
    ApprovalAsked,
    ChatChanged,
    ChatCreated,
    EngineMemorySaved,
    JournalEntry,
    MessageAdded,
    Outcome,
    QueueAppended,
    QueueHeld,
    QueueReleased,
    RecordBody,
    ToolUse,
    ToolUseStarted,
    TurnDeferred,
    TurnEnded,
    TurnStarted,
)
from agentd.core.clock import Timestamp


class RunningTurn(Struct, frozen=True):
    """A prompt that is being carried out; ``id`` is the seq of its ``turn.started``."""

    id: int
    given: Prompt
    """The prompt; ``message`` is the id of its message in the history."""
    engine: str
    at: Timestamp
    again: bool = False
    """An earlier try was ended by agentd, or by a limit and was of the same engine."""
    tools: tuple[ToolUse, ...] = ()
    """The running tools, in the order in which they were started."""
    cost_before: Decimal = ZERO_COST
    """What the chat had cost when it began, in USD."""


class AgentState(Struct):
    """The state of a chat, beside its queue, that the dispatcher needs."""

    turn: RunningTurn | None = None
    outcome: Outcome | None = None
    """The outcome of the last turn; None before the first."""
    ended_at: Timestamp = ""
    hold: Hold | None = None
    wait: QueueWait | None = None
    deferrals: int = 0
    """The number of consecutive turns, up to the last one, that a limit ended."""
    failures: int = 0
    """The number of consecutive turns, up to the last one, that failed."""
    asked: tuple[Approval, ...] = ()
    """The open questions."""
    standing: tuple[Approval, ...] = ()
    """Decisions that hold for the whole chat; the last one about the same question counts."""
    approvals: ApprovalMode | Literal[""] = ""
    """The treatment of a question that no rule decides; empty: as the settings say."""
    memory: dict[str, str] = {}
    """The state that each engine asked to keep, by its name."""
    seen: dict[str, int] = {}
    """The id of the latest message at the end of each engine's last turn, by its name."""
    allowance: Decimal = ZERO_COST
    """USD that the chat may cost in all, where a person allowed more than the settings."""
    day: str = ""
    """The day (UTC) on which money was spent last, such as ``2026-01-31`` ..."""
    spent: Decimal = ZERO_COST
    """... and how much on that day, in USD."""

    def apply(self, entry: JournalEntry, latest_message: int) -> None:
        """Take in one record; what says nothing of the agent is passed over.

        ``latest_message`` is the id of the chat's latest message, those of the record included.
        """
        self._apply_memory(entry.body)
        match entry.body:
            case TurnEnded(outcome=outcome, cost=cost, hold=hold, wait=wait):
                self._finish_turn(entry.at, outcome, latest_message)
                self.deferrals = 0
                self.failures = self.failures + 1 if outcome == "failed" else 0
                self.hold, self.wait = hold or self.hold, wait
                self.add_cost(entry.at, cost)
            case TurnDeferred():
                self._defer_turn(entry.at, entry.body, latest_message)
            case ToolUseStarted() | MessageAdded():
                self._apply_tool_use(entry.body)
            case ApprovalAsked(approval=approval):
                self.asked += (approval,)
            case ApprovalAnswered(approval=approval):
                self._close_approval(approval)
            case QueueAppended(prompt=prompt) if not prompt.paused and entry.by != AUTOFIX:
                if self.hold and self.hold.kind == "stopped":
                    self.hold = None
                if self.failures:  # it does not wait for a limit: who sends a prompt wants it tried
                    self.wait = None
            case QueueHeld(hold=hold, asked=asked):
                self.hold = hold
                self.asked += (asked,) if asked else ()
            case QueueReleased(allowance=allowance, hold=hold):
                self.hold, self.wait = hold, None
                self.allowance = allowance or self.allowance
                self.asked = tuple(one for one in self.asked if one.kind != "budget")
            case ChatCreated(approvals=mode):
                self.approvals = mode
            case ChatChanged(approvals=mode):
                self.approvals = self.approvals if mode is None else mode

    def start_turn(
        self, entry: JournalEntry, body: TurnStarted, given: Prompt, cost: Decimal
    ) -> None:
        """Start the turn of a prompt that left the queue of a chat that had cost that much."""
        again = body.message is None and self._was_tried(given, body.engine)
        self.turn = RunningTurn(entry.seq, given, body.engine, entry.at, again, (), cost)
        self.hold = self.wait = None  # in older journals, any prompt released what was stopped

    def _was_tried(self, given: Prompt, engine: str) -> bool:
        if given.delivered == "yes":
            return given.message <= self.seen.get(engine, 0)
        return given.delivered == "perhaps"

    def add_cost(self, at: Timestamp, cost: Decimal) -> None:
        """Add money that was spent at that moment."""
        if not cost:
            return
        today = at[:10]
        self.spent = self.spent + cost if self.day == today else cost
        self.day = today

    def _apply_memory(self, body: RecordBody) -> None:
        """Take in what an engine wants back in its next turn."""
        match body:
            case EngineMemorySaved(engine=engine, memory=memory):
                self.memory = self.memory | {engine: memory}
            case (
                MessageAdded(memory=memory) | TurnEnded(memory=memory) | TurnDeferred(memory=memory)
            ):
                if memory and self.turn:
                    self.memory = self.memory | {self.turn.engine: memory}

    def _defer_turn(self, at: Timestamp, deferred: TurnDeferred, latest_message: int) -> None:
        by_limit = deferred.delivered == "yes"
        self._finish_turn(at, self.outcome, latest_message if by_limit else 0)
        if by_limit:
            self.deferrals += 1
            self.failures = 0
        self.wait = deferred.wait
        self.add_cost(at, deferred.cost)

    def _finish_turn(self, at: Timestamp, outcome: Outcome | None, read: int) -> None:
        """End the turn, whose engine knows of all up to the message ``read`` (0: perhaps not)."""
        if self.turn and read:
            self.seen = self.seen | {self.turn.engine: read}
        self.turn = None
        self.outcome = outcome
        self.ended_at = at
        self.asked = ()

    def _apply_tool_use(self, body: ToolUseStarted | MessageAdded) -> None:
        if self.turn is None:
            return
        tools = self.turn.tools
        if isinstance(body, ToolUseStarted):
            self.turn = structs.replace(self.turn, tools=(*tools, body.use))
        elif body.tool_use:
            left = tuple(use for use in tools if use.number != body.tool_use)
            self.turn = structs.replace(self.turn, tools=left)

    def _close_approval(self, approval: Approval) -> None:
        self.asked = tuple(one for one in self.asked if one.id != approval.id)
        self.standing = tuple(one for one in self.standing if one.id != approval.id)
        if approval.session and approval.state in ("allowed", "denied"):
            self.standing += (approval,)
