"""Wires the schedules."""

from typing import Self

from agentd.app.config_files import ConfigFiles
from agentd.chats.remote_api import ModelAbilities
from agentd.chats.service import ChatService
from agentd.chats.worktree import WorktreePlanner
from agentd.core.clock import Clock
from agentd.core.events import EventBus
from agentd.http.routing import Route
from agentd.schedules import api
from agentd.schedules.api import ScheduleEndpoints
from agentd.schedules.run_prompts import RunPrompts
from agentd.schedules.service import ScheduleService
from agentd.schedules.store import ProgressFile, ScheduleFile
from agentd.storage.layout import Layout


class SchedulesComponent:
    """Begins runs for as long as its block lasts."""

    def __init__(
        self,
        layout: Layout,
        chats: ChatService,
        config_files: ConfigFiles,
        worktrees: WorktreePlanner,
        abilities: ModelAbilities,
        clock: Clock,
        bus: EventBus,
    ) -> None:
        schedules = ScheduleFile(layout, self._on_changed)
        self.file = schedules.file
        """The current contents of ``schedules.yml``."""
        prompts = RunPrompts(chats, worktrees, config_files.skills)
        self._service = ScheduleService(schedules, ProgressFile(layout), chats, prompts, clock, bus)
        self.rows: tuple[Route, ...] = api.routes(
            ScheduleEndpoints(self._service, schedules, abilities)
        )
        """The routes of schedules."""

    def _on_changed(self) -> None:
        self._service.on_changed()

    async def __aenter__(self) -> Self:
        """Read the file, settle what a crash left, and begin what is due."""
        await self.file.refresh()
        await self._service.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Begin nothing more."""
        await self._service.stop()
        await self.file.stop()
