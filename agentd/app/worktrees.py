"""Wires the git work trees of chats."""

import asyncio
from collections.abc import Callable
from os.path import join
from typing import Self

from agentd.agent.protected_folders import find_protected_places
from agentd.chats.repository import ChatRepository
from agentd.core.tasks import cancel_task
from agentd.http.routing import Route
from agentd.settings.model import Settings
from agentd.storage.layout import Layout
from agentd.workspace.worktrees import api
from agentd.workspace.worktrees.api import WorktreeEndpoints
from agentd.workspace.worktrees.merging import BranchMerger
from agentd.workspace.worktrees.repository import WorktreeRepository
from agentd.workspace.worktrees.service import WorktreeService
from agentd.workspace.worktrees.setup import SetupCommand, WorktreeSetup
from agentd.workspace.worktrees.steps import WorktreeSteps


class WorktreesComponent:
    """The work trees of the workspace ``root``; ``generation`` is the state folder's."""

    def __init__(
        self,
        root: str,
        layout: Layout,
        chats: ChatRepository,
        generation: str,
        now: Callable[[], Settings],
    ) -> None:
        closed = (layout.state, layout.config, join(root, ".env"))

        def get_command() -> SetupCommand:
            return SetupCommand(now().worktree_setup, now().worktree_setup_seconds)

        self._layout = layout
        repository, merger = WorktreeRepository(root, closed), BranchMerger(root)
        setup = WorktreeSetup(root, generation, get_command)
        steps = WorktreeSteps(chats, repository, merger, setup, layout, generation)
        self.service = WorktreeService(chats, repository, merger, steps)
        """The operations."""
        self.rows: tuple[Route, ...] = api.routes(WorktreeEndpoints(self.service))
        """The routes of work trees."""

    async def __aenter__(self) -> Self:
        """Begin to finish what a killed daemon left half done; no chat's turn overtakes it."""
        self.service.protect(await asyncio.to_thread(find_protected_places, self._layout))
        self._finishing = asyncio.create_task(self.service.finish_interrupted())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave the rest to the next start."""
        await cancel_task(self._finishing)
