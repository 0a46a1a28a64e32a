"""The prompts of runs: queued with the run's key, by which they are found again after a crash."""

from collections.abc import Iterable
from decimal import Decimal

import msgspec
from msgspec.structs import replace

from agentd.chats.remote_api import KnownSkills
from agentd.chats.service import ChatService, NewChat
from agentd.chats.worktree import WorktreePlanner
from agentd.core.errors import AgentdError, BadRequest, NotFound
from agentd.core.idempotency import IdempotencyKey
from agentd.schedules.model import Schedule, ScheduleRun


class RunPrompts:
    """Queues prompts in the chats of schedules."""

    def __init__(self, chats: ChatService, worktrees: WorktreePlanner, skills: KnownSkills) -> None:
        self._chats = chats
        self._worktrees = worktrees
        self._skills = skills

    def explain_hold(self, schedule: Schedule) -> str:
        """Say why the queue of the schedule's chat is held; a prompt would release some holds."""
        try:
            held = self._chats.get_summary(schedule.chat).held if schedule.chat else ""
        except AgentdError:
            return ""
        return f"The queue of its chat is held: {held}" if held else ""

    def check_chat(self, schedule: Schedule, listed: Iterable[Schedule]) -> None:
        """Raise ``BadRequest`` if a schedule is to continue a chat that is not there.

        One whose chat was deleted since it was written can be changed all the same.
        """
        if not schedule.chat or any(one.chat == schedule.chat for one in listed):
            return
        try:
            self._chats.get_summary(schedule.chat)
        except NotFound as error:
            raise BadRequest(f"chat: {error.message}", error.details) from error

    def get_cost_before(self, schedule: Schedule) -> Decimal | None:
        """Return what the chat will have cost when the turn begins; None: that is not known yet."""
        if not schedule.chat:
            return Decimal(0)
        chat = self._chats.get_summary(schedule.chat)
        return None if chat.working or chat.ready else chat.cost

    async def queue(self, schedule: Schedule, key: str) -> tuple[int, int]:
        """Queue the prompt, unless one has the key; return its chat and its id."""
        once, by = IdempotencyKey(key, ""), f"schedule:{schedule.name}"
        if schedule.chat:
            prompt = await self._chats.append_prompt(
                schedule.chat,
                schedule.prompt,
                schedule.model,
                by,
                once,
                budget=schedule.budget,
                output_schema=_encode_schema(schedule),
            )
            return schedule.chat, prompt.id
        skill = schedule.skill or "none"
        if not await self._skills.is_known(skill):
            raise NotFound(f"No skill is named {skill[:100]!r}")
        new = NewChat(
            prompt=schedule.prompt,
            title=schedule.title.strip() or schedule.name,
            model=schedule.model,
            skill=skill,
            mode=schedule.mode,
            once=once,
            budget=schedule.budget,
            output_schema=_encode_schema(schedule),
            worktree=await self._worktrees.plan() if schedule.worktree else None,
        )
        chat = await self._chats.create(new, by)
        return chat.id, await self._find_prompt(chat.id, key)

    async def _find_prompt(self, chat_id: int, key: str) -> int:
        """Return the id of the prompt that was queued with the key; 0: there is none."""
        known = (await self._chats.get(chat_id)).once.get(key)
        return known.prompt.id if known and known.prompt else 0

    async def find_begun(self, run: ScheduleRun, schedule: Schedule | None) -> ScheduleRun | None:
        """Return the run with its chat and prompt; None: it was never queued."""
        chats = [one.id for one in self._chats.list_all_summaries() if one.once == run.key]
        chats += [schedule.chat] if schedule and schedule.chat else []
        for chat_id in chats:
            if prompt := await self._find_prompt(chat_id, run.key):
                return replace(run, chat=chat_id, prompt=prompt)
        return None


def _encode_schema(schedule: Schedule) -> str:
    schema = schedule.output_schema
    return "" if schema is None else msgspec.json.encode(schema).decode()
