"""How the agent stands to a chat: at work, held, waiting, asking; and what it may spend.

A part of the chat's fold (``chats.fold``), with the same life: only records change it.
"""

from decimal import Decimal
from typing import Literal

from msgspec import Struct

from agentd.chats.approval import Approval, Hold, Mode, Wait
from agentd.chats.chat import FREE, Prompt
from agentd.chats.records import (
    ApprovalAnswered,
    ApprovalAsked,
    ChatChanged,
    ChatCreated,
    EngineKept,
    Entry,
    Outcome,
    QueueAppended,
    QueueHeld,
    QueueReleased,
    TurnDeferred,
    TurnEnded,
    TurnStarted,
)
from agentd.clock import Timestamp


class Turn(Struct, frozen=True):
    """A prompt that is being carried out; ``id`` is the seq of its ``turn.started``."""

    id: int
    given: Prompt
    """With ``message``, the id of its message in the history."""
    engine: str
    at: Timestamp
    again: bool = False
    """A limit ended an earlier try of the same engine at this prompt."""


class Standing(Struct):
    """What the dispatcher needs to know of a chat, beside its queue."""

    turn: Turn | None = None
    outcome: Outcome | None = None
    """How the last turn ended; None before the first."""
    ended_at: Timestamp = ""
    hold: Hold | None = None
    wait: Wait | None = None
    deferrals: int = 0
    """How many turns in a row, up to the last one, were put off."""
    asked: tuple[Approval, ...] = ()
    """The open questions."""
    granted: tuple[Approval, ...] = ()
    """What was allowed for the whole chat."""
    approvals: Mode | Literal[""] = ""
    """What becomes of a question that no rule decides; empty: as the settings say."""
    memory: dict[str, str] = {}
    """What each engine asked to keep, by its name."""
    seen: dict[str, int] = {}
    """The id of the latest message at the end of each engine's last turn, by its name."""
    allowance: Decimal = FREE
    """USD that the chat may cost in all, where a person allowed more than the settings."""
    day: str = ""
    """The day (UTC) on which money was spent last, such as ``2026-01-31`` ..."""
    spent: Decimal = FREE
    """... and how much on that day, in USD."""

    def apply(self, entry: Entry, latest_message: int) -> None:
        """Take in one record; what says nothing of the agent is passed over.

        ``latest_message`` is the id of the chat's latest message, those of the record included.
        """
        match entry.body:
            case TurnEnded(outcome=outcome, cost=cost, hold=hold):
                self._ended(entry.at, outcome, latest_message)
                self.deferrals = 0
                self.hold = hold or self.hold
                self.spend(entry.at, cost)
            case TurnDeferred(wait=wait, cost=cost):
                self._ended(entry.at, self.outcome, latest_message)
                self.wait = wait
                self.deferrals += 1
                self.spend(entry.at, cost)
            case ApprovalAsked(approval=approval):
                self.asked += (approval,)
            case ApprovalAnswered(approval=approval):
                self._answered(approval)
            case EngineKept(engine=engine, memory=memory):
                self.memory = self.memory | {engine: memory}
            case QueueAppended():
                if self.hold and self.hold.kind == "stopped":
                    self.hold = None
            case QueueHeld(hold=hold, asked=asked):
                self.hold = hold
                self.asked += (asked,) if asked else ()
            case QueueReleased(allowance=allowance):
                self.hold = self.wait = None
                self.allowance = allowance or self.allowance
                self.asked = tuple(one for one in self.asked if one.kind != "budget")
            case ChatCreated(approvals=mode):
                self.approvals = mode
            case ChatChanged(approvals=mode):
                self.approvals = self.approvals if mode is None else mode

    def start(self, entry: Entry, body: TurnStarted, given: Prompt) -> None:
        """A prompt left the queue for the agent."""
        tried = body.message is None and given.message <= self.seen.get(body.engine, 0)
        self.turn = Turn(entry.seq, given, body.engine, entry.at, again=tried)
        self.wait = None

    def spend(self, at: Timestamp, cost: Decimal) -> None:
        """Money was spent at that moment."""
        if not cost:
            return
        today = at[:10]
        self.spent = self.spent + cost if self.day == today else cost
        self.day = today

    def _ended(self, at: Timestamp, outcome: Outcome | None, latest_message: int) -> None:
        if self.turn:
            self.seen = self.seen | {self.turn.engine: latest_message}
        self.turn = None
        self.outcome = outcome
        self.ended_at = at
        self.asked = ()

    def _answered(self, approval: Approval) -> None:
        self.asked = tuple(one for one in self.asked if one.id != approval.id)
        if approval.session and approval.state == "allowed":
            self.granted += (approval,)
