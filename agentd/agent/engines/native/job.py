"""A running turn of the native engine, with what it needs and what is kept of it."""

import asyncio
from collections.abc import Iterator, Mapping
from decimal import Decimal

from msgspec import Struct, field

from agentd.agent.engine import ApprovalAnswer, Approver, EngineEvent, Question, TurnRequest
from agentd.agent.engines.native.model_client import Attempt
from agentd.agent.engines.native.opening import has_prompt, name_model
from agentd.agent.engines.native.project_knowledge import ProjectKnowledge
from agentd.agent.engines.native.transcript_file import (
    KeptEnd,
    KeptTranscript,
    KeptTurn,
    TranscriptStore,
    keep_messages,
)
from agentd.agent.engines.native.turn import NativeTurn
from agentd.agent.hooks.turn_hooks import TurnHooks
from agentd.agent.mcp_servers.turn_tools import McpTools, NoMcpTools
from agentd.agent.tools.model import TOOLS, ToolUse
from agentd.core.clock import Clock
from agentd.llm.conversation import Conversation, ModelMessage
from agentd.llm.endpoint import SupplierAccess
from agentd.llm.price import Usage


class TimedApprover:
    """An approver that measures the turn's time without the waits for answers."""

    def __init__(self, approver: Approver, clock: Clock) -> None:
        self._approver = approver
        self._clock = clock
        self._began = clock.monotonic()
        self._waited = 0.0
        self._open = 0
        """The open questions: tools that run in parallel may ask at the same time."""
        self._asked_at = 0.0

    async def ask(self, question: Question) -> ApprovalAnswer:
        """Return the decision."""
        if not self._open:
            self._asked_at = self._clock.monotonic()
        self._open += 1
        try:
            return await self._approver.ask(question)
        finally:
            self._open -= 1
            if not self._open:
                self._waited += self._clock.monotonic() - self._asked_at

    @property
    def seconds(self) -> float:
        """The duration of the turn so far, in seconds."""
        now = self._clock.monotonic()
        waiting = now - self._asked_at if self._open else 0.0
        return now - self._began - self._waited - waiting


class TranscriptKeeper:
    """Keeps the messages of one turn, in the order in which they come.

    ``kept`` is what the file had before. What was shortened is replaced as a whole; so is what the
    disk did not take once.
    """

    def __init__(
        self, store: TranscriptStore, assignment: TurnRequest, kept: KeptTranscript
    ) -> None:
        self._store = store
        self._chat_id = assignment.chat_id
        self._turn = KeptTurn(assignment.message, name_model(assignment))
        self._begun = has_prompt(assignment, kept)
        self._on_disk: tuple[ModelMessage, ...] | None = kept.messages

    async def save(self, turn: NativeTurn, *, ended: bool = False) -> None:
        """Keep what the turn's conversation has by now; ``ended``: it is over."""
        messages, prompt = turn.transcript.messages, turn.transcript.prompt
        known = self._on_disk
        whole = known is None or messages[: len(known)] != known
        at = 0 if known is None or whole else len(known)
        lines = keep_messages(messages[at : max(at, prompt)])
        if whole or not self._begun:
            lines.append(self._turn)
        lines += keep_messages(messages[max(at, prompt) :])
        lines += [KeptEnd()] if ended else []
        write = self._store.replace if whole else self._store.append
        try:
            done = not lines or await write(self._chat_id, lines)
        except asyncio.CancelledError:  # it may be stored or not: write all of it next time
            self._on_disk = None
            raise
        self._begun = True
        self._on_disk = messages if done else None


class NativeJob(Struct, frozen=True):
    """A turn with everything that it needs."""

    assignment: TurnRequest
    access: SupplierAccess
    turn: NativeTurn
    watch: TimedApprover
    keeper: TranscriptKeeper
    knowledge: ProjectKnowledge
    longest: float
    """Seconds."""
    asking: list[Attempt] = []
    """The requests in progress, with those of sub-tasks."""
    events: "asyncio.Queue[EngineEvent] | None" = None
    """Events of sub-tasks that the turn has not reported yet."""
    tools: Mapping[str, type[ToolUse]] = field(default_factory=lambda: TOOLS)
    mcp: McpTools = field(default_factory=NoMcpTools)
    """The tools of MCP servers."""
    hooks: TurnHooks = field(default_factory=TurnHooks)
    parent: NativeTurn | None = None
    """The turn that this is a sub-task of."""

    @property
    def cache_key(self) -> str:
        """The name under which the supplier remembers the conversation's beginning."""
        return f"agentd-{self.assignment.chat_id}"

    def add_cost(self, usage: Usage, searches: int = 0) -> Decimal | None:
        """Add the usage of a request to the turn, also of a sub-task; return its cost in USD."""
        if self.parent:
            self.parent.add_cost(usage, searches)
        return self.turn.add_cost(usage, searches)

    def explain_limit(self) -> str:
        """Explain why the turn must end; empty if it may continue."""
        why = self.hooks.ended or self.turn.explain_limit(self.seconds)
        return why or (self.parent.explain_cost_limit() if self.parent else "")

    def take_events(self) -> Iterator[EngineEvent]:
        """Yield the events of sub-tasks and hooks that the turn has not reported yet."""
        while self.events and not self.events.empty():
            yield self.events.get_nowait()
        yield from self.hooks.take_events()

    @property
    def seconds(self) -> float:
        """The duration of the turn so far, in seconds."""
        return self.watch.seconds

    @property
    def left(self) -> float:
        """Seconds until the turn's limit."""
        return max(self.longest - self.seconds, 0.0)

    def build_conversation(self) -> Conversation:
        """Return the next request; instructions that it had to leave out can be told again."""
        before = self.turn.transcript
        conversation = self.turn.build_conversation()
        if self.turn.transcript is not before:
            self.knowledge.forget_left_out(self.turn.transcript.messages)
        return conversation

    def sum_up(self, summary: str) -> None:
        """Put a summary in the place of the conversation; empty: none could be had."""
        self.turn.sum_up(summary)
        self.knowledge.forget_left_out(self.turn.transcript.messages)

    async def save(self, *, ended: bool = False) -> None:
        """Keep the conversation as it is."""
        await self.keeper.save(self.turn, ended=ended)
