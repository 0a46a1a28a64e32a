"""A chat's totals by day: a fold over its journal that keeps no text.

Each row is one day (UTC) and one account: the model, engine and skill of the turn, and who asked
for it. What happens outside a turn is attributed to its author. A turn, with its duration
and outcome, belongs to the day on which it ended; messages, tokens and money to their own.
Rows only ever add up, so they may be merged in any order.
"""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Literal, TypeAlias, TypeVar

from msgspec import Struct, field

from agentd.chats.model import NO_TOKENS, ZERO_COST, Message, Tokens
from agentd.chats.records import (
    ChatChanged,
    ChatCreated,
    JournalEntry,
    MessageAdded,
    QueueAppended,
    QueueRemoved,
    QueueReplaced,
    TurnDeferred,
    TurnEnded,
    TurnStarted,
    get_message,
)
from agentd.core.clock import Timestamp, parse_iso
from agentd.core.quantile import Histogram, add_duration

Ending: TypeAlias = Literal["completed", "failed", "stopped", "interrupted", "deferred"]
"""The outcome of a turn; ``deferred``: a limit or agentd's end ended it, to be tried again."""

TIMED = frozenset(("completed", "failed", "stopped"))
"""The endings with a known duration: an interrupted turn ends when agentd is back."""

_MILLISECOND = timedelta(milliseconds=1)

Name = TypeVar("Name", int, str, Ending)


class UsageTotals(Struct, omit_defaults=True):
    """Totals of messages, usage, cost, turns and tools."""

    user: int = 0
    """Messages of this role, and of the other three."""
    assistant: int = 0
    tool: int = 0
    error: int = 0
    input: int = 0
    """Tokens."""
    output: int = 0
    cost: Decimal = ZERO_COST
    """USD, exact."""
    endings: dict[Ending, int] = field(default_factory=dict)
    """Turns by how they ended."""
    took: Histogram = field(default_factory=dict)
    """The durations of turns, in ms (``core.quantile``)."""
    tools: dict[str, int] = field(default_factory=dict)
    """Uses by the tool's name; a question to the person does not count."""

    def add(self, other: "UsageTotals") -> None:
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

    def add_message(self, message: Message, *, is_tool_use: bool = False) -> None:
        """Count a message; ``is_tool_use``: one of a tool tells of its use, not of a question."""
        role = message.role
        setattr(self, role, getattr(self, role) + 1)
        if role == "tool" and is_tool_use and message.decision is None:
            self.tools[message.tool] = self.tools.get(message.tool, 0) + 1
        self.add_usage(message.tokens, message.cost)

    def add_usage(self, tokens: Tokens, cost: Decimal) -> None:
        """Count tokens and money."""
        self.input += tokens.input
        self.output += tokens.output
        if cost:
            self.cost += cost

    @property
    def turns(self) -> int:
        """Turns that ended, in whichever way."""
        return sum(self.endings.values())


class UsageAccount(Struct, frozen=True, array_like=True):
    """The account that usage is attributed to."""

    model: str
    """The model as the chat names it; empty if none was named, or it was outside a turn."""
    engine: str
    """Empty outside a turn."""
    skill: str
    by: str
    """The author: ``key:laptop``, ``user:admin``, ``bot:…``, ``agent``."""


class DayRow(Struct, frozen=True):
    """The totals of one day and account."""

    day: str
    """The day, such as ``2026-01-31``."""
    account: UsageAccount
    totals: UsageTotals


class OpenTurn(Struct, frozen=True):
    """The turn at work, with the prompt that it carries out."""

    account: UsageAccount
    at: Timestamp
    prompt: int


class ChatDailyTotals(Struct):
    """The fold of one chat's journal up to the byte ``size``, which is after ``lines`` lines."""

    lines: int = 0
    size: int = 0
    seq: int = 0
    day: str = ""
    """The day of the last line."""
    skill: str = "none"
    waiting: dict[int, str] = field(default_factory=dict)
    """The author of each prompt of the queue."""
    turn: OpenTurn | None = None
    rows: list[DayRow] = field(default_factory=list)
    """The rows in the order of their days."""

    def apply(self, entry: JournalEntry, size: int) -> None:
        """Take in one record whose line has ``size`` bytes."""
        self.lines, self.seq = entry.n, entry.seq
        self.size += size
        self.day = max(self.day, entry.at[:10])
        body = entry.body
        if isinstance(body, MessageAdded):  # most records: they are counted without further ado
            self._get_totals(entry).add_message(body.message, is_tool_use=True)
            return
        self._track_context(entry)
        if message := get_message(body):
            self._get_totals(entry).add_message(message)
        match body:
            case TurnEnded(outcome=outcome, tokens=tokens, cost=cost):
                self._end(entry, outcome, tokens, cost)
            case TurnDeferred(tokens=tokens, cost=cost):
                if self.turn:
                    self.waiting[self.turn.prompt] = self.turn.account.by
                self._end(entry, "deferred", tokens, cost)

    def _track_context(self, entry: JournalEntry) -> None:
        """Track who asked for each prompt, before the record's message is counted."""
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
                self.turn = OpenTurn(
                    UsageAccount(model, engine, self.skill, by), entry.at, prompt_id
                )

    def _end(self, entry: JournalEntry, ending: Ending, tokens: Tokens, cost: Decimal) -> None:
        if self.turn is None and not cost and tokens == NO_TOKENS:
            return
        totals = self._get_totals(entry)
        totals.add_usage(tokens, cost)
        if self.turn is None:
            return
        totals.endings[ending] = totals.endings.get(ending, 0) + 1
        if ending in TIMED:
            took = parse_iso(entry.at) - parse_iso(self.turn.at)
            add_duration(totals.took, took // _MILLISECOND)
        self.turn = None

    def _get_totals(self, entry: JournalEntry) -> UsageTotals:
        """Return the totals of the current day and account, which are among the last rows."""
        account = self.turn.account if self.turn else UsageAccount("", "", self.skill, entry.by)
        day = self.day
        for row in reversed(self.rows):
            if row.day != day:
                break
            if row.account == account:
                return row.totals
        row = DayRow(self.day, account, UsageTotals())
        self.rows.append(row)
        return row.totals


def _add(counts: dict[Name, int], more: Mapping[Name, int]) -> None:
    for name, count in more.items():
        counts[name] = counts.get(name, 0) + count
