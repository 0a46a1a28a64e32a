"""What happened in one chat, added up by day: a fold over its journal that keeps no text.

Each row is one day (UTC) and one account: the model, engine and skill of the turn, and who asked
for it. What happens outside a turn is put down to whoever caused it. A turn, with its duration
and outcome, belongs to the day on which it ended; messages, tokens and money to their own.
Rows only ever add up, so they may be merged in any order.
"""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Literal, TypeAlias, TypeVar

from msgspec import Struct, field

from agentd.chats.chat import FREE, NO_TOKENS, Message, Tokens
from agentd.chats.quantile import Histogram, note
from agentd.chats.records import (
    ChatChanged,
    ChatCreated,
    Entry,
    MessageAdded,
    QueueAppended,
    QueueRemoved,
    QueueReplaced,
    TurnDeferred,
    TurnEnded,
    TurnStarted,
    message_in,
)
from agentd.clock import Timestamp, parse_iso

Ending: TypeAlias = Literal["completed", "failed", "stopped", "interrupted", "deferred"]
"""How a turn ended; ``deferred``: at a supplier's limit, its prompt waits to be tried again."""

TIMED = frozenset(("completed", "failed", "stopped"))
"""The endings that tell how long a turn took: an interrupted one ends when agentd is back."""

_MILLISECOND = timedelta(milliseconds=1)

Name = TypeVar("Name", int, str, Ending)


class Totals(Struct, omit_defaults=True):
    """What was said, used, spent and done."""

    user: int = 0
    """Messages of this role, and of the other three."""
    assistant: int = 0
    tool: int = 0
    error: int = 0
    input: int = 0
    """Tokens."""
    output: int = 0
    cost: Decimal = FREE
    """USD, exact."""
    endings: dict[Ending, int] = field(default_factory=dict)
    """Turns by how they ended."""
    took: Histogram = field(default_factory=dict)
    """How long turns took, in ms (``chats.quantile``)."""
    tools: dict[str, int] = field(default_factory=dict)
    """Uses by the tool's name; a question to the person is none."""

    def add(self, other: "Totals") -> None:
        """Count the other in."""
        self.user += other.user
        self.assistant += other.assistant
        self.tool += other.tool
        self.error += other.error
        self.input += other.input
        self.output += other.output
        self.cost += other.cost
        _add(self.endings, other.endings)
        _add(self.took, other.took)
        _add(self.tools, other.tools)

    def say(self, message: Message) -> None:
        """Count a message."""
        setattr(self, message.role, getattr(self, message.role) + 1)
        self.use(message.tokens, message.cost)

    def use(self, tokens: Tokens, cost: Decimal) -> None:
        """Count tokens and money."""
        self.input += tokens.input
        self.output += tokens.output
        self.cost += cost

    @property
    def turns(self) -> int:
        """Turns that ended, in whichever way."""
        return sum(self.endings.values())


class Account(Struct, frozen=True, array_like=True):
    """What something is put down to."""

    model: str
    """As the chat names it; empty: none was named, or it was outside a turn."""
    engine: str
    """Empty outside a turn."""
    skill: str
    by: str
    """Who caused it: ``key:laptop``, ``user:admin``, ``bot:…``, ``agent``."""


class Row(Struct, frozen=True):
    """The totals of one day and account."""

    day: str
    """Such as ``2026-01-31``."""
    account: Account
    totals: Totals


class Begun(Struct, frozen=True):
    """The turn at work, with the prompt that it carries out."""

    account: Account
    at: Timestamp
    prompt: int


class Tally(Struct):
    """The fold of one chat's journal up to the byte ``size``, which is after ``lines`` lines."""

    lines: int = 0
    size: int = 0
    seq: int = 0
    day: str = ""
    """Of the last line."""
    skill: str = "none"
    waiting: dict[int, str] = field(default_factory=dict)
    """Who wrote each prompt of the queue."""
    turn: Begun | None = None
    rows: list[Row] = field(default_factory=list)
    """In the order of their days."""

    def apply(self, entry: Entry, size: int) -> None:
        """Take in one record whose line has ``size`` bytes."""
        self.day = max(self.day, entry.at[:10])
        self._prepare(entry)
        if message := message_in(entry.body):
            totals = self._totals(entry)
            totals.say(message)
            if isinstance(entry.body, MessageAdded) and message.role == "tool":
                totals.tools[message.tool] = totals.tools.get(message.tool, 0) + 1
        match entry.body:
            case TurnEnded(outcome=outcome, tokens=tokens, cost=cost):
                self._end(entry, outcome, tokens, cost)
            case TurnDeferred(tokens=tokens, cost=cost):
                if self.turn:
                    self.waiting[self.turn.prompt] = self.turn.account.by
                self._end(entry, "deferred", tokens, cost)
        self.lines, self.seq = entry.n, entry.seq
        self.size += size

    def _prepare(self, entry: Entry) -> None:
        """What must be known before the record's message can be counted."""
        match entry.body:
            case ChatCreated(skill=skill, prompt=prompt):
                self.skill = skill
                if prompt:
                    self.waiting[prompt.id] = entry.by
            case ChatChanged(skill=skill):
                self.skill = self.skill if skill is None else skill
            case QueueAppended(prompt=prompt):
                self.waiting[prompt.id] = entry.by
            case QueueRemoved(id=prompt_id):
                self.waiting.pop(prompt_id, None)
            case QueueReplaced(prompts=prompts):
                self.waiting = {one.id: self.waiting.get(one.id, entry.by) for one in prompts}
            case TurnStarted(prompt=prompt_id, engine=engine, model=model):
                by = self.waiting.pop(prompt_id, entry.by)
                self.turn = Begun(Account(model, engine, self.skill, by), entry.at, prompt_id)

    def _end(self, entry: Entry, ending: Ending, tokens: Tokens, cost: Decimal) -> None:
        if self.turn is None and not cost and tokens == NO_TOKENS:
            return
        totals = self._totals(entry)
        totals.use(tokens, cost)
        if self.turn is None:
            return
        totals.endings[ending] = totals.endings.get(ending, 0) + 1
        if ending in TIMED:
            took = parse_iso(entry.at) - parse_iso(self.turn.at)
            note(totals.took, took // _MILLISECOND)
        self.turn = None

    def _totals(self, entry: Entry) -> Totals:
        """The row of the present day and account, which is among the last ones."""
        account = self.turn.account if self.turn else Account("", "", self.skill, entry.by)
        for row in reversed(self.rows):
            if row.day != self.day:
                break
            if row.account == account:
                return row.totals
        row = Row(self.day, account, Totals())
        self.rows.append(row)
        return row.totals


def _add(counts: dict[Name, int], more: Mapping[Name, int]) -> None:
    for name, count in more.items():
        counts[name] = counts.get(name, 0) + count
