"""Which hooks a turn has: those of ``hooks.yml``, and allowed ones of the workspace."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from agentd.agent.engine import Approver, TurnRequest
from agentd.agent.hooks import store
from agentd.agent.hooks.model import HookSettings, WorkspaceHooks, list_own_hooks
from agentd.agent.hooks.store import HooksOfWorkspaces
from agentd.agent.hooks.turn_hooks import TurnHooks
from agentd.agent.workspace_decisions import WorkspaceDecision
from agentd.core.errors import Unavailable
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile
from agentd.system.process import Finished

RunInTurn: TypeAlias = Callable[[str, bytes, float, str], Awaitable[Finished]]
"""Runs a command line with an input, at most so many seconds, for the turn with this tag."""
OpenHooks: TypeAlias = Callable[[TurnRequest, Approver], Awaitable[TurnHooks]]
"""Returns the hooks of a turn."""


class HookDirectory:
    """The hooks as ``hooks.yml`` has them now.

    ``on_change`` is called when the file or a decision is another. Decisions count in the
    ``workspace`` and in work trees of it.
    """

    def __init__(
        self, layout: Layout, on_change: Callable[[], None] = lambda: None, workspace: str = ""
    ) -> None:
        self.file = WatchedFile(
            layout.hooks_settings, partial(store.load, layout), HookSettings(), on_change
        )
        """The current content of ``hooks.yml``."""
        self._workspaces = HooksOfWorkspaces(layout, on_change, workspace)

    async def open_turn(
        self, root: str, run: RunInTurn, assignment: TurnRequest, approver: Approver
    ) -> TurnHooks:
        """Return the hooks of a turn in a folder; a person is asked about new ones of it.

        Raises ``Unavailable`` while it is not known which hooks there are, of which some may be
        there to block something: ``hooks.yml`` was never valid since the start.
        """
        await self.file.ensure_current()
        settings = self.file.current
        if not self.file.was_valid:
            raise Unavailable(f"It is not known which hooks there are: {self.file.problems[0]}")
        hooks = tuple(list_own_hooks(settings))
        problems: tuple[tuple[str, str], ...] = ()
        if settings.workspace_hooks:
            found, problems = await self._workspaces.find_allowed(
                root, assignment.chat_id, approver
            )
            hooks += found
        if not hooks and not problems:
            return TurnHooks()

        async def run_hook(command: str, given: bytes, seconds: float) -> Finished:
            return await run(command, given, seconds, assignment.turn_tag)

        return TurnHooks(hooks, run_hook, root, assignment.chat_id, problems)

    async def list_workspace(
        self, folder: str
    ) -> tuple[tuple[WorkspaceHooks, ...], tuple[WorkspaceDecision, ...], tuple[str, ...]]:
        """Return the hooks of a folder's files, all decisions, and the problems."""
        return await asyncio.to_thread(self._workspaces.read, folder)

    async def withdraw(self, digest: str) -> None:
        """Forget a decision: the next turn asks about these hooks again; ``NotFound``."""
        await self._workspaces.withdraw(digest)


async def open_no_hooks(assignment: TurnRequest, approver: Approver) -> TurnHooks:
    """Return the hooks of a turn without any."""
    return TurnHooks()
