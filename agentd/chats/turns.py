"""The agent's side of a chat: its turns, from the queue into the history, and what happens in them.

Each step is one record, so a crash leaves none of them half done.
"""

import logging
from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

from msgspec.structs import replace

from agentd.chats import queue as rules
from agentd.chats.approval import Approval, Hold, Wait
from agentd.chats.chat import FREE, NO_TOKENS, Message, Prompt, Role, Tokens
from agentd.chats.fold import Chat, Summary
from agentd.chats.records import (
    ApprovalAnswered,
    ApprovalAsked,
    EngineKept,
    MessageAdded,
    Outcome,
    QueueHeld,
    QueueReleased,
    TurnDeferred,
    TurnEnded,
    TurnStarted,
)
from agentd.chats.shelf import AGENT, Shelf
from agentd.errors import Unavailable

log = logging.getLogger(__name__)

INTERRUPTED = (
    "Interrupted: agentd ended while this prompt was being carried out. It is not sent again by"
    " itself, since part of it may have been done; send it once more if you want it repeated."
)
STOPPED = "The turn was stopped by a person."
AGAIN = "agentd ended while this prompt was being carried out; it is sent again."

Choose: TypeAlias = Callable[[Chat, Prompt], tuple[str, str]]


class Turns:
    """What the dispatcher may do to chats; raises ``NotFound`` and ``Unavailable``."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def end_interrupted(self, *, again: bool = False) -> None:
        """Close the turns that a crash left open.

        Their prompts are not sent again, unless ``again``: then they are first in their queues.
        Where the disk takes nothing now, the dispatcher tries until it does.
        """
        for chat in [chat for chat in self._shelf.known.values() if chat.working]:
            try:
                if again:
                    await self.defer(chat.id, Wait(chat.updated_at, AGAIN))
                else:
                    await self.end(chat.id, "interrupted", INTERRUPTED)
            except Unavailable as error:
                log.warning("the open turn of chat %d stays open: %s", chat.id, error.message)

    async def start(self, chat_id: int, choose: Choose) -> Chat | None:
        """Take the next prompt out of the queue and into the history, in one step.

        ``choose`` tells the engine and the model, as the journal names them. None when the
        agent is at work on this chat already, the queue is held, or nothing is ready. Else
        ``chat.agent.turn`` tells the prompt, for the only time ever that no limit brings it back.
        """
        chat = await self._shelf.open(chat_id)
        prompt = rules.next_up(chat.queue)
        if chat.agent.turn or chat.agent.hold or prompt is None:
            return None
        at = self._shelf.moment(chat)
        message = None if prompt.message else self._shelf.message("user", prompt.text, at)
        engine, model = choose(chat, prompt)
        started = TurnStarted(prompt.id, message, engine, model)
        done = self._shelf.record(chat, AGENT, started, at)
        seen = chat.snapshot()
        await done
        return seen

    async def add(
        self,
        chat_id: int,
        role: Role,
        text: str,
        *,
        tool: str = "",
        tokens: Tokens = NO_TOKENS,
        cost: Decimal = FREE,
    ) -> None:
        """A message of the running turn; cost in USD."""
        chat = await self._shelf.open(chat_id)
        at = self._shelf.moment(chat)
        number = self._shelf.sequences.next("message")
        message = Message(number, role, text, at, tool=tool, tokens=tokens, cost=cost)
        await self._shelf.record(chat, AGENT, MessageAdded(message), at)

    def summary(self, chat_id: int) -> Summary:
        """A chat at a glance, as it is on disk."""
        return self._shelf.summary(chat_id)

    async def look(self, chat_id: int) -> Chat:
        """The chat as it is at this moment, to be read at once."""
        return await self._shelf.open(chat_id)

    async def keep(self, chat_id: int, engine: str, memory: str) -> None:
        """What the engine wants back in the chat's next turn."""
        chat = await self._shelf.open(chat_id)
        if chat.agent.memory.get(engine) != memory:
            await self._shelf.record(chat, AGENT, EngineKept(engine, memory))

    async def ask(
        self, chat_id: int, approval: Approval, shown: str, numbered: Callable[[Approval], None]
    ) -> None:
        """Ask a question; the history shows it as ``shown``.

        ``numbered`` is given the question with its id and time, before anybody can answer it.
        """
        chat = await self._shelf.open(chat_id)
        approval, message = self._question(chat, approval, shown)
        numbered(approval)
        await self._shelf.record(chat, AGENT, ApprovalAsked(approval, message), approval.at)

    async def answer(self, chat_id: int, approval: Approval, by: str) -> None:
        """The question is decided, expired or withdrawn."""
        chat = await self._shelf.open(chat_id)
        await self._shelf.record(chat, by, ApprovalAnswered(approval))

    async def hold_for_budget(self, chat_id: int, approval: Approval, reason: str) -> None:
        """Nothing leaves the queue until a person allows more; unless it is held already."""
        chat = await self._shelf.open(chat_id)
        if chat.agent.hold:
            return
        asked, message = self._question(chat, approval, reason)
        hold = Hold("budget", reason, AGENT, asked.at)
        await self._shelf.record(chat, AGENT, QueueHeld(hold, asked, message), asked.at)

    async def release(self, chat_id: int, by: str, allowance: Decimal) -> None:
        """The queue goes on, and the chat may cost that many USD in all."""
        chat = await self._shelf.open(chat_id)
        await self._shelf.record(chat, by, QueueReleased(allowance))

    async def defer(
        self, chat_id: int, wait: Wait, tokens: Tokens = NO_TOKENS, cost: Decimal = FREE
    ) -> None:
        """The running turn ends at a limit: its prompt is first in the queue again, and waits."""
        chat = await self._shelf.open(chat_id)
        if chat.agent.turn:
            await self._shelf.record(chat, AGENT, TurnDeferred(wait, tokens, cost))

    async def end(
        self,
        chat_id: int,
        outcome: Outcome,
        reason: str = "",
        *,
        tokens: Tokens = NO_TOKENS,
        cost: Decimal = FREE,
        by: str = AGENT,
    ) -> None:
        """The running turn is over; a ``reason`` becomes an error message in the history.

        When it was ``stopped``, the history says so, and the queue stands still: the person
        wanted quiet.
        """
        chat = await self._shelf.open(chat_id)
        if chat.agent.turn is None:
            return
        at = self._shelf.moment(chat)
        message = self._shelf.message("error", reason, at) if reason else None
        hold = None
        if outcome == "stopped":
            hold = Hold("stopped", STOPPED, by, at)
            number = self._shelf.sequences.next("message")
            message = Message(number, "tool", STOPPED, at, tool="stop")
        await self._shelf.record(chat, by, TurnEnded(outcome, message, tokens, cost, hold), at)

    def _question(self, chat: Chat, approval: Approval, shown: str) -> tuple[Approval, Message]:
        at = self._shelf.moment(chat)
        number = self._shelf.sequences.next("message")
        message = Message(number, "tool", shown, at, tool="approval")
        return replace(approval, id=number, at=at), message
