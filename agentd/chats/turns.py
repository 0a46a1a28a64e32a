"""The agent's side of a chat: its turns, from the queue into the history, and what happens in them.

Each step is one record, so a crash leaves none of them half done.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from agentd.chats import queue as rules
from agentd.chats.approval import (
    Approval,
    ApprovalDecision,
    Hold,
    QueueWait,
    render_decision,
)
from agentd.chats.model import (
    NO_TOKENS,
    ZERO_COST,
    Delivery,
    Message,
    Prompt,
    Role,
    Tokens,
    ToolReport,
)
from agentd.chats.records import (
    ApprovalAnswered,
    ApprovalAsked,
    EngineMemorySaved,
    MessageAdded,
    Outcome,
    QueueHeld,
    QueueReleased,
    ToolUse,
    ToolUseStarted,
    TurnDeferred,
    TurnEnded,
    TurnStarted,
)
from agentd.chats.repository import AGENT, ChatRepository
from agentd.chats.state import Chat, ChatSummary
from agentd.core.clock import Timestamp, format_iso, parse_iso
from agentd.core.errors import Unavailable

log = logging.getLogger(__name__)

INTERRUPTED = (
    "Interrupted: agentd ended while this prompt was being carried out. It is not sent again by"
    " itself, since part of it may have been done; send it once more if you want it repeated."
)
STOPPED = "The turn was stopped by a person."
FIRST_WAIT_SECONDS = 60.0
"""First wait of a queue for what ends at an unknown time; each further try doubles it ..."""
LONGEST_WAIT_SECONDS = 15 * 60.0
"""... up to this."""
RETRYING = "agentd ended while this prompt was being carried out; it is sent again."

CUT_OFF = "Interrupted."
"""The outcome of a tool that was running when its turn ended."""
TOOL_INTERRUPTED = (
    "Interrupted: agentd ended while this tool was at work. Part of what it was to do may be done."
)


class TurnUsage(Struct, frozen=True):
    """The usage that a turn's record adds; the cost is in USD."""

    tokens: Tokens = NO_TOKENS
    cost: Decimal = ZERO_COST
    memory: str = ""
    """The engine's state for its next turn from now on; empty: unchanged."""


NO_TURN_USAGE = TurnUsage()

EngineChooser: TypeAlias = Callable[[Chat, Prompt], tuple[str, str]]


class TurnRecorder:
    """The dispatcher's changes to chats; raises ``NotFound`` and ``Unavailable``."""

    def __init__(self, chats: ChatRepository) -> None:
        self._chats = chats

    async def end_interrupted(self, *, again: bool = False) -> None:
        """Close the turns that a crash left open.

        Their histories then name the tools that were at work. Their prompts are not sent again,
        unless ``again``: then they are first in their queues. Where the disk takes nothing now, the
        dispatcher tries until it does.
        """
        for chat in [chat for chat in self._chats.summaries.values() if chat.working]:
            try:
                for use in await self.list_running_tools(chat.id):
                    text = format_tool_message(use.input, TOOL_INTERRUPTED)
                    report = report_tool_use(
                        use.input, ok=False, number=use.number, parent=use.parent
                    )
                    await self.add_message(
                        chat.id, "tool", text, tool=use.name, tool_use=use.number, report=report
                    )
                await self.withdraw_questions(chat.id)
                if again:
                    await self.resend_prompt(chat.id)
                else:
                    await self.end_turn(chat.id, "interrupted", INTERRUPTED)
            except Unavailable as error:
                log.warning("the open turn of chat %d stays open: %s", chat.id, error.message)

    async def start_turn(self, chat_id: int, choose: EngineChooser) -> Chat | None:
        """Take the next prompt out of the queue and into the history, in one step.

        ``choose`` returns the engine and the model, as the journal names them. None when the
        agent is at work on this chat already, the queue is held, or nothing is ready. Else
        ``chat.agent.turn`` holds the prompt, only once unless it is requeued.
        """
        chat = await self._chats.open(chat_id)
        prompt = rules.find_next(chat.queue, self._chats.clock.now())
        if chat.agent.turn or chat.agent.hold or prompt is None:
            return None
        at = self._chats.get_next_timestamp(chat)
        message = None if prompt.message else self._chats.make_message("user", prompt.text, at)
        engine, model = choose(chat, prompt)
        started = TurnStarted(prompt.id, message, engine, model)
        done = self._chats.record(chat, AGENT, started, at)
        seen = chat.snapshot()
        await done
        return seen

    async def add_message(
        self,
        chat_id: int,
        role: Role,
        text: str,
        *,
        tool: str = "",
        usage: TurnUsage = NO_TURN_USAGE,
        tool_use: int = 0,
        report: ToolReport | None = None,
        structured: bool = False,
    ) -> None:
        """Add a message of the running turn.

        ``tool_use`` is the number of the tool use (``record_tool_start``) whose outcome it has.
        """
        chat = await self._chats.open(chat_id)
        at = self._chats.get_next_timestamp(chat)
        number = self._chats.sequences.next("message")
        tokens, cost = usage.tokens, usage.cost
        message = Message(
            number,
            role,
            text,
            at,
            tool=tool,
            tokens=tokens,
            cost=cost,
            report=report,
            structured=structured,
        )
        added = MessageAdded(message, tool_use, usage.memory)
        await self._chats.record(chat, AGENT, added, at)

    async def record_tool_start(self, chat_id: int, use: ToolUse) -> None:
        """Note that a tool is at work, so that the history can name it if agentd is killed.

        The note goes to the disk with whatever comes next, and nobody waits for it: the tool is not
        to begin later for it. Where the disk takes nothing, only the note is lost.
        """
        try:
            chat = await self._chats.open(chat_id)
            self._chats.record(chat, AGENT, ToolUseStarted(use)).add_done_callback(_forget_failure)
        except Unavailable as error:
            log.warning("the start of a tool in chat %d is not noted: %s", chat_id, error.message)

    async def list_running_tools(self, chat_id: int) -> tuple[ToolUse, ...]:
        """Return the tools of the chat's turn that have begun and not ended."""
        turn = (await self._chats.open(chat_id)).agent.turn
        return turn.tools if turn else ()

    def get_summary(self, chat_id: int) -> ChatSummary:
        """Return the summary of a chat, as it is on disk."""
        return self._chats.get_summary(chat_id)

    async def get_latest(self, chat_id: int) -> Chat:
        """Return the chat as it is now; read it before the next await."""
        return await self._chats.open(chat_id)

    async def save_memory(self, chat_id: int, engine: str, memory: str) -> None:
        """Save what the engine wants back in the chat's next turn."""
        chat = await self._chats.open(chat_id)
        if chat.agent.memory.get(engine) != memory:
            await self._chats.record(chat, AGENT, EngineMemorySaved(engine, memory))

    async def ask_approval(
        self, chat_id: int, approval: Approval, shown: str, numbered: Callable[[Approval], None]
    ) -> None:
        """Ask a question; the history shows it as ``shown``.

        ``numbered`` is given the question with its id and time, before anybody can answer it.
        """
        chat = await self._chats.open(chat_id)
        approval, message = self._make_question(chat, approval, shown)
        numbered(approval)
        await self._chats.record(chat, AGENT, ApprovalAsked(approval, message), approval.at)

    async def close_approval(self, chat_id: int, approval: Approval, by: str) -> None:
        """Record that an approval was decided, expired or withdrawn; the history shows it.

        What is withdrawn while no turn runs adds no message: after a turn's end the history tells
        how that ended, and with a message it would no longer end in the reply.
        """
        chat = await self._chats.open(chat_id)
        at = self._chats.get_next_timestamp(chat)
        message = None
        if chat.agent.turn or approval.state != "withdrawn":
            author = "deadline" if approval.state == "expired" else by
            note = approval.note if approval.state in ("allowed", "denied") else ""
            decided = ApprovalDecision(approval.state, author, note, approval.id, approval.session)
            message = self._make_decision(decided, render_decision(decided, approval.kind), at)
        await self._chats.record(chat, by, ApprovalAnswered(approval, message), at)

    async def withdraw_questions(self, chat_id: int) -> None:
        """Close the questions of a turn that nobody carries out any more; the history says why."""
        chat = await self._chats.open(chat_id)
        for asked in chat.agent.asked:
            at = self._chats.get_next_timestamp(chat)
            closed = replace(asked, state="withdrawn", answered_at=at, diff="")
            await self._chats.record(chat, AGENT, ApprovalAnswered(closed), at)

    async def add_denial(self, chat_id: int, reason: str, action: str, by: str = "rule") -> None:
        """Show in the history that an action was denied without asking, by whom, and why."""
        chat = await self._chats.open(chat_id)
        at = self._chats.get_next_timestamp(chat)
        decided = ApprovalDecision("denied", by, reason)
        shown = render_decision(decided, action=action)
        await self._chats.record(
            chat, AGENT, MessageAdded(self._make_decision(decided, shown, at)), at
        )

    async def hold_for_budget(self, chat_id: int, approval: Approval, reason: str) -> None:
        """Hold the queue until a person allows more money, unless it is held already."""
        chat = await self._chats.open(chat_id)
        if chat.agent.hold:
            return
        asked, message = self._make_question(chat, approval, reason)
        hold = Hold("budget", reason, AGENT, asked.at)
        await self._chats.record(chat, AGENT, QueueHeld(hold, asked, message), asked.at)

    async def release_budget(self, chat_id: int, by: str, allowance: Decimal) -> None:
        """Release what a budget holds, and allow the chat to cost that many USD in all.

        A person's hold stays.
        """
        chat = await self._chats.open(chat_id)
        hold = chat.agent.hold
        stays = hold if hold and hold.kind == "hand" else None
        await self._chats.record(chat, by, QueueReleased(allowance, stays))

    async def defer_turn(
        self,
        chat_id: int,
        wait: QueueWait,
        usage: TurnUsage = NO_TURN_USAGE,
        delivered: Delivery = "yes",
    ) -> None:
        """End the running turn, to be tried again; its prompt waits as the first of the queue."""
        chat = await self._chats.open(chat_id)
        if chat.agent.turn:
            deferred = TurnDeferred(wait, usage.tokens, usage.cost, usage.memory, delivered)
            await self._chats.record(chat, AGENT, deferred)

    async def resend_prompt(
        self, chat_id: int, usage: TurnUsage = NO_TURN_USAGE, *, delivered: Delivery = "perhaps"
    ) -> None:
        """Defer the turn that agentd's end cuts off, so that its prompt is sent again at once."""
        at_once = min(self.get_summary(chat_id).updated_at, self._chats.clock.now())
        await self.defer_turn(chat_id, QueueWait(at_once, RETRYING), usage, delivered)

    async def end_turn(
        self,
        chat_id: int,
        outcome: Outcome,
        reason: str = "",
        *,
        usage: TurnUsage = NO_TURN_USAGE,
        by: str = AGENT,
    ) -> None:
        """End the running turn; a ``reason`` becomes an error message in the history.

        When it was ``stopped``, the history says so, and the queue is held: the person
        wanted quiet. When it ``failed`` and so did the one before, the queue waits for a while.
        """
        chat = await self._chats.open(chat_id)
        if chat.agent.turn is None:
            return
        at = self._chats.get_next_timestamp(chat)
        message = self._chats.make_message("error", reason, at) if reason else None
        hold = None
        if outcome == "stopped":
            hold = Hold("stopped", STOPPED, by, at)
            number = self._chats.sequences.next("message")
            message = Message(number, "tool", STOPPED, at, tool="stop")
        wait = None
        if outcome == "failed" and chat.agent.failures and chat.queue:
            wait = plan_next_try(chat.agent.failures + 1, self._chats.clock.now())
        tokens, cost, memory = usage.tokens, usage.cost, usage.memory
        ended = TurnEnded(outcome, message, tokens, cost, hold, wait, memory)
        await self._chats.record(chat, by, ended, at)

    def _make_decision(self, decided: ApprovalDecision, shown: str, at: Timestamp) -> Message:
        number = self._chats.sequences.next("message")
        return Message(number, "tool", shown, at, tool="decision", decision=decided)

    def _make_question(
        self, chat: Chat, approval: Approval, shown: str
    ) -> tuple[Approval, Message]:
        at = self._chats.get_next_timestamp(chat)
        number = self._chats.sequences.next("message")
        message = Message(number, "tool", shown, at, tool="approval")
        return replace(approval, id=number, at=at), message


def compute_wait_seconds(earlier: int) -> float:
    """Return how long a queue waits after so many waits of this kind in a row before."""
    return min(FIRST_WAIT_SECONDS * 2.0 ** min(earlier, 8), LONGEST_WAIT_SECONDS)


def plan_next_try(failures: int, now: Timestamp) -> QueueWait:
    """Return how long a queue waits after so many failed turns in a row, two or more.

    Without it, a supplier that cannot be reached for a minute fails all prompts of a long queue.
    """
    wait = timedelta(seconds=compute_wait_seconds(failures - 2))
    until = format_iso(parse_iso(now) + wait)
    return QueueWait(until, f"the last {failures} turns failed")


def format_tool_message(given: str, outcome: str) -> str:
    """Return the text of a tool's message: its input and its outcome."""
    return f"{given.strip()}\n\n{outcome}".strip()


def report_tool_use(
    given: str,
    *,
    ok: bool = True,
    seconds: float = 0.0,
    diff: str = "",
    number: int = 0,
    parent: int = 0,
) -> ToolReport:
    """Return the report that belongs to the text of ``format_tool_message``."""
    return ToolReport(len(given.strip()), ok, round(seconds, 3), diff, number, parent)


def _forget_failure(recorded: "asyncio.Future[None]") -> None:
    """Retrieve the exception, which would otherwise be logged as never retrieved."""
    if not recorded.cancelled():
        recorded.exception()
