"""Prepares turns: the request for the engine, and the check of the budget."""

from collections.abc import Callable, Iterable
from decimal import Decimal
from math import inf
from typing import Protocol

from agentd.agent.budget import SpendBudget
from agentd.agent.custom_commands.model import CustomCommand
from agentd.agent.engine import TurnRequest
from agentd.agent.engine_selection import (
    FOLLOWS_SCHEMAS,
    EngineChoice,
    EngineRegistry,
    explain_no_schema,
)
from agentd.chats.approval import Approval
from agentd.chats.model import Prompt
from agentd.chats.queue import find_next
from agentd.chats.repository import AGENT
from agentd.chats.state import Chat, ChatSummary
from agentd.chats.turns import TurnRecorder
from agentd.core.clock import Clock
from agentd.core.errors import AgentdError
from agentd.models.program_state import ProgramAccess
from agentd.skills.model import NONE, SkillSet, render_instructions


class SkillLookup(Protocol):
    """Reads the skills (``skills.store``)."""

    async def get_skills(self) -> SkillSet:
        """Return the current skills."""
        ...


class ChatFolders(Protocol):
    """Where chats work (``workspace.worktrees.service.WorktreeService``)."""

    async def prepare_folder(self, chat_id: int) -> str:
        """Return the folder of the chat's work tree, made if need be; empty: it has none.

        Raises an ``AgentdError`` if it cannot be made or set up.
        """
        ...


class NoChatFolders:
    """All chats work in the workspace."""

    async def prepare_folder(self, chat_id: int) -> str:
        """Return nothing."""
        return ""


class CommandLookup(Protocol):
    """Reads the custom commands (``custom_commands.store``)."""

    async def find_called(self, prompt: str) -> CustomCommand | None:
        """Return the command that a prompt calls; None if it calls none."""
        ...


class NoCommands:
    """There are no commands."""

    async def find_called(self, prompt: str) -> CustomCommand | None:
        """Return nothing."""
        return None


class TurnPlanner:
    """Prepares turns. ``mark`` identifies this daemon's child processes."""

    def __init__(
        self,
        turns: TurnRecorder,
        engines: EngineRegistry,
        skills: SkillLookup,
        clock: Clock,
        chats: Callable[[], Iterable[ChatSummary]],
        budget: Callable[[], SpendBudget],
        mark: str,
        folders: ChatFolders | None = None,
        commands: CommandLookup | None = None,
    ) -> None:
        self._turns = turns
        self._engines = engines
        self._skills = skills
        self._clock = clock
        self._chats = chats
        self._budget = budget
        self._mark = mark
        self._folders = folders or NoChatFolders()
        self._commands = commands or NoCommands()
        self._command_models: dict[int, tuple[int, str]] = {}
        """By chat its next prompt, and the model that the command asks for which it calls."""

    def choose_engine(self, chat: Chat, prompt: Prompt) -> EngineChoice:
        """Choose engine and model: the prompt's own, its command's, the chat's, the default."""
        number, model = self._command_models.get(chat.id, (0, ""))
        asked = model if number == prompt.id else ""
        return self._engines.choose(prompt.model or asked or chat.model)

    async def read_command(self, chat_id: int) -> None:
        """Note the model that the chat's next prompt asks for, if it calls a command."""
        chat = await self._turns.get_latest(chat_id)
        prompt = find_next(chat.queue, self._clock.now())
        self._command_models.pop(chat_id, None)
        if prompt is None or prompt.model or not prompt.text.lstrip().startswith("/"):
            return
        command = await self._commands.find_called(prompt.text)
        if command is None or not command.model:
            return
        usual, asked = self._engines.choose(chat.model), self._engines.choose(command.model)
        # A workspace's command is expanded by the native engine only, and often names other
        # programs' models.
        is_native = usual.name == asked.name == "native"
        if asked.engine and (command.source == "config" or is_native):
            self._command_models[chat_id] = prompt.id, command.model

    def get_engine_and_model(self, chat: Chat, prompt: Prompt) -> tuple[str, str]:
        """Return the names of engine and model for the journal."""
        choice = self.choose_engine(chat, prompt)
        return choice.name, choice.model.name if choice.model else ""

    async def build_request(
        self, chat: Chat, choice: EngineChoice
    ) -> tuple[TurnRequest | None, str]:
        """Return the request for the engine, or None and the reason."""
        turn = chat.agent.turn
        assert turn
        if turn.given.output_schema and choice.name not in FOLLOWS_SCHEMAS:
            return None, explain_no_schema(choice.name)
        access = ProgramAccess.of(choice.name, choice.model)
        if chat.mode and (problem := self._engines.find_mode_problem(access, chat.mode)):
            return None, problem
        skill = ""
        if chat.skill != NONE:
            found = (await self._skills.get_skills()).find(chat.skill)
            if found is None:
                return None, f"The skill {chat.skill!r} no longer exists or cannot be read."
            skill = render_instructions(found)
        try:
            folder = await self._folders.prepare_folder(chat.id)
        except AgentdError as error:
            return None, "\n\n".join(filter(None, (error.message, error.details)))
        model = choice.model
        history = tuple(one for one in chat.recent if one.id != turn.given.message)
        seen = chat.agent.seen.get(choice.name, 0)
        is_uncertain = turn.again and turn.given.delivered == "perhaps"
        end = turn.given.message if is_uncertain else inf  # behind it is what the try itself said
        return TurnRequest(
            chat_id=chat.id,
            prompt=turn.given.text,
            model=model.model if model else "",
            effort=model.effort if model else "",
            mode=chat.mode,
            supplier=model.supplier if model else "",
            context=(model.context or 0) if model else 0,
            max_output=(model.max_output or 0) if model else 0,
            web_search=bool(model and model.web_search),
            web_search_price=model.web_search_price if model else None,
            message=turn.given.message,
            output_schema=turn.given.output_schema,
            priced=bool(model and model.prices),
            command=model.command if model else (),
            skill=chat.skill,
            instructions="\n\n".join(part for part in (chat.system_prompt, skill) if part),
            history=history,
            missed=tuple(one for one in history if seen < one.id < end),
            engine_state=chat.agent.memory.get(choice.name, ""),
            is_retry=turn.again,
            is_delivery_uncertain=is_uncertain,
            folder=folder,
            turn_tag=f"{self._mark}.{chat.id}.{turn.id}",
        ), ""

    async def release_within_budget(self, chat_id: int) -> bool:
        """Release a queue held for a budget that is no longer exceeded.

        The settings may allow more by now, or a new day may have begun. Return whether the queue
        is still held for its budget.
        """
        chat = await self._turns.get_latest(chat_id)
        hold = chat.agent.hold
        if hold is None or hold.kind != "budget":
            return False
        if self._find_exceeded_budget(chat):
            return True
        await self._turns.release_budget(chat_id, AGENT, Decimal(0))
        return False

    async def hold_if_over_budget(self, chat_id: int) -> bool:
        """Hold the queue and ask a person if a budget is used up; return whether it is."""
        chat = await self._turns.get_latest(chat_id)
        reason = self._find_exceeded_budget(chat)
        if reason and not chat.agent.hold:
            question = Approval(0, "budget", "budget", reason, "")
            await self._turns.hold_for_budget(chat_id, question, reason)
        return bool(reason)

    def _find_exceeded_budget(self, chat: Chat) -> str:
        budget = self._budget()
        return budget.explain_exceeded(
            chat, self._sum_spent_today() if budget.per_day else Decimal(0)
        )

    def _sum_spent_today(self) -> Decimal:
        today = self._clock.now()[:10]
        # A later day is one that the clock showed before it was set back: a chat keeps that time.
        return sum((one.spent for one in self._chats() if one.day >= today), Decimal(0))
