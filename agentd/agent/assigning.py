"""What an engine is told for one prompt, and whether there is money for it."""

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Protocol

from agentd.agent.budget import Budget
from agentd.agent.engine import Assignment
from agentd.agent.engines import Choice, Engines
from agentd.catalog.skills import NONE, Skills, instructions
from agentd.chats.approval import Approval
from agentd.chats.chat import Prompt
from agentd.chats.fold import Chat, Summary
from agentd.chats.shelf import AGENT
from agentd.chats.turns import Turns
from agentd.clock import Clock


class SkillSource(Protocol):
    """Where the skills are read (``disk.skills``)."""

    async def skills(self) -> Skills:
        """All that a chat can have now."""
        ...


class Assigner:
    """Prepares turns. ``mark`` tells this daemon's children from all other programs."""

    def __init__(
        self,
        turns: Turns,
        engines: Engines,
        skills: SkillSource,
        clock: Clock,
        chats: Callable[[], Iterable[Summary]],
        budget: Callable[[], Budget],
        mark: str,
    ) -> None:
        self._turns = turns
        self._engines = engines
        self._skills = skills
        self._clock = clock
        self._chats = chats
        self._budget = budget
        self._mark = mark

    def choice(self, chat: Chat, prompt: Prompt) -> Choice:
        """The engine and model: the prompt's own choice, else the chat's, else the default."""
        return self._engines.choose(prompt.model or chat.model)

    def choose(self, chat: Chat, prompt: Prompt) -> tuple[str, str]:
        """The same, as the journal names them."""
        choice = self.choice(chat, prompt)
        return choice.name, choice.model.name if choice.model else ""

    async def assignment(self, chat: Chat, choice: Choice) -> tuple[Assignment | None, str]:
        """What the engine is told of the chat's turn; without it, why it cannot be told."""
        turn = chat.agent.turn
        assert turn
        skill = ""
        if chat.skill != NONE:
            found = (await self._skills.skills()).find(chat.skill)
            if found is None:
                return None, f"No skill is named {chat.skill!r} any more, or it cannot be read."
            skill = instructions(found)
        model = choice.model
        history = tuple(one for one in chat.recent if one.id != turn.given.message)
        seen = chat.agent.seen.get(choice.name, 0)
        return Assignment(
            chat_id=chat.id,
            prompt=turn.given.text,
            model=model.model if model else "",
            effort=model.effort if model else "",
            supplier=model.supplier if model else "",
            context=(model.context or 0) if model else 0,
            command=model.command if model else (),
            skill=chat.skill,
            instructions="\n\n".join(part for part in (chat.system_prompt, skill) if part),
            history=history,
            missed=tuple(one for one in history if one.id > seen),
            memory=chat.agent.memory.get(choice.name, ""),
            again=turn.again,
            turn=f"{self._mark}.{chat.id}.{turn.id}",
        ), ""

    async def release_within_budget(self, chat_id: int) -> bool:
        """Let a queue go on that was held for a budget which is not reached any more.

        The settings allow more by now, or another day has begun. Return whether the queue is
        still held for its budget.
        """
        chat = await self._turns.look(chat_id)
        hold = chat.agent.hold
        if hold is None or hold.kind != "budget":
            return False
        if self._reached(chat):
            return True
        await self._turns.release(chat_id, AGENT, Decimal(0))
        return False

    async def over_budget(self, chat_id: int) -> bool:
        """Hold the queue and ask, when what may be spent is spent."""
        chat = await self._turns.look(chat_id)
        reason = self._reached(chat)
        if reason and not chat.agent.hold:
            question = Approval(0, "budget", "budget", reason, "")
            await self._turns.hold_for_budget(chat_id, question, reason)
        return bool(reason)

    def _reached(self, chat: Chat) -> str:
        budget = self._budget()
        return budget.reached(chat, self._today() if budget.per_day else Decimal(0))

    def _today(self) -> Decimal:
        today = self._clock.now()[:10]
        return sum((one.spent for one in self._chats() if one.day == today), Decimal(0))
