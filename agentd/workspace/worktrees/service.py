"""The work trees of chats, as callers command them.

A tree is in use only once that it is made and set up is on disk; what a killed daemon left half
done (``steps``) is undone or finished at the next start, or before the chat's next turn.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from agentd.agent.tools.results import Diff
from agentd.chats.repository import ChatRepository
from agentd.chats.service import DEFAULT_TITLE
from agentd.chats.state import Chat
from agentd.chats.worktree import Worktree, WorktreeBase, plan_worktree
from agentd.core.errors import AgentdError, Conflict
from agentd.system.protected_paths import ProtectedPlaces
from agentd.workspace.git.working_copy import WorkingCopy
from agentd.workspace.worktrees.merging import BranchMerger
from agentd.workspace.worktrees.model import WorktreeStatus
from agentd.workspace.worktrees.repository import WorktreeRepository
from agentd.workspace.worktrees.steps import (
    WorktreeSteps,
    at_step,
    name_commit,
    require_worktree,
)

log = logging.getLogger(__name__)

T = TypeVar("T")


class WorktreeInfo(Struct, frozen=True):
    """A chat's work tree, its folder, and how it stands; ``status`` is None until it is made."""

    worktree: Worktree
    folder: str
    status: WorktreeStatus | None = None


class WorktreeService:
    """All work trees."""

    def __init__(
        self,
        chats: ChatRepository,
        repository: WorktreeRepository,
        merger: BranchMerger,
        steps: WorktreeSteps,
    ) -> None:
        self._chats = chats
        self._repository = repository
        self._merger = merger
        self._steps = steps
        self._places = ProtectedPlaces()
        self._locks = WeakValueDictionary[int, asyncio.Lock]()

    def protect(self, places: ProtectedPlaces) -> None:
        """Leave these places out of diffs from now on."""
        self._places = places

    async def finish_interrupted(self) -> None:
        """Finish or undo what a killed daemon left half done."""
        for summary in list(self._chats.summaries.values()):
            if summary.worktree in ("", "ready") or summary.damage:
                continue
            try:
                await self._settle(summary.id)
            except AgentdError as error:  # it is tried again before the chat's next turn
                log.warning("the work tree of chat %d: %s", summary.id, error.message)

    async def plan(self) -> WorktreeBase:
        """Return what a new work tree begins with; ``Conflict`` if there can be none."""
        return await self._repository.read_base()

    async def plan_copy(self, chat_id: int) -> WorktreeBase | None:
        """Return what the work tree of a chat's duplicate begins with; None: it has none.

        That is what was committed to the chat's branch, for the history speaks of it.
        """
        tree = (await self._chats.open(chat_id)).worktree
        if tree is None or tree.step in ("keeping", "dropping"):
            return None
        made = tree.step != "planned"
        tip = await self._repository.find_branch(tree.branch) if made else ""
        return WorktreeBase(tip or tree.base, tree.source)

    async def prepare_folder(self, chat_id: int) -> str:
        """Return the folder of a chat's work tree, made if need be; empty: it has none."""
        if (await self._chats.open(chat_id)).worktree is None:
            return ""
        async with self._lock(chat_id):
            chat = await self._chats.open(chat_id)
            tree = await self._steps.finish(chat)
            if tree is None:
                return ""
            top = self._steps.get_top(chat_id)
            if tree.step == "planned" or not await self._repository.exists(top):
                await self._steps.make(chat, tree)
            folder = await self._repository.get_folder(top)
            if chat.agent.turn:
                await self._repository.copy_attachments(folder, chat.agent.turn.given.text)
            return folder

    async def add(self, chat_id: int, by: str) -> None:
        """Give an idle chat a work tree, from its next turn on; nothing if it has one."""
        async with self._hold_idle(chat_id) as chat:
            if chat.worktree is None:
                title = "" if chat.title == DEFAULT_TITLE else chat.title
                tree = plan_worktree(chat_id, title, await self.plan())
                await self._steps.record(chat, tree, by)

    async def describe(self, chat_id: int) -> WorktreeInfo:
        """Return a chat's work tree; ``NotFound`` if it has none."""
        top = self._steps.get_top(chat_id)

        async def read(tree: Worktree) -> WorktreeInfo:
            if tree.step == "planned":
                return WorktreeInfo(tree, "")
            if not await self._repository.find_branch(tree.branch):
                gone = replace(tree, problem=f"The branch {tree.branch} is gone.")
                return WorktreeInfo(gone, top)
            return WorktreeInfo(tree, top, await self._repository.read_status(top, tree))

        return await self._read_unchanged(chat_id, read)

    async def diff(self, chat_id: int, path: str) -> Diff:
        """Return what a chat's work tree changes, committed or not; nothing before it is made."""
        top = self._steps.get_top(chat_id)

        async def read(tree: Worktree) -> Diff:
            if tree.step == "planned":
                return Diff("")
            return await self._repository.diff(top, tree, path, self._places)

        return await self._read_unchanged(chat_id, read)

    async def open_copy(self, chat_id: int) -> WorkingCopy | None:
        """Return a chat's work tree as a working copy; None: it works in the workspace."""
        tree = (await self._chats.open(chat_id)).worktree
        if tree is None:
            return None
        if tree.step == "planned":
            raise Conflict(
                f"The work tree of chat {chat_id} is not made yet", "It is with its next prompt."
            )
        copy = await self._repository.open_copy(self._steps.get_top(chat_id))
        copy.protect(self._places)
        return copy

    async def find_folder(self, chat_id: int) -> str:
        """Return the folder of a chat's work tree; empty: it has none, or none is made yet."""
        tree = (await self._chats.open(chat_id)).worktree
        if tree is None or tree.step == "planned":
            return ""
        return await self._repository.get_folder(self._steps.get_top(chat_id))

    async def merge(self, chat_id: int, message: str, into: str | None) -> str:
        """Commit and merge what a chat changed into the workspace; return the commit there."""
        async with self._hold_made(chat_id) as (chat, tree):
            await self._steps.commit(chat, message)
            merging = f"Merge {tree.branch}\n\n{message.strip() or name_commit(chat, tree)}"
            return await self._merger.merge(tree.branch, merging, into)

    async def rebase(self, chat_id: int, message: str, by: str) -> None:
        """Commit what a chat changed, and put its commits on top of the workspace's."""
        async with self._hold_made(chat_id) as (chat, tree):
            await self._steps.commit(chat, message)
            await self._steps.record(chat, at_step(tree, "rebasing"), by)
            try:
                await self._merger.rebase(self._steps.get_top(chat_id))
            finally:
                await self._steps.finish(chat)

    async def keep(self, chat_id: int, message: str, by: str) -> Worktree:
        """Commit what a chat changed, keep its branch, and remove its folder.

        The chat goes on in the workspace.
        """
        async with self._hold_idle(chat_id) as chat:
            tree = require_worktree(chat)
            if tree.step == "planned":
                await self._steps.cancel_plan(chat, tree, by)
                return tree
            if await self._repository.exists(self._steps.get_top(chat_id)):
                await self._steps.commit(chat, message)
            await self._steps.record(chat, at_step(tree, "keeping"), by)
            await self._steps.finish(chat)
            return tree

    async def drop(self, chat_id: int, by: str, *, force: bool) -> Worktree | None:
        """Remove a chat's work tree and branch, if it has one; it goes on in the workspace.

        Return what it was. Raises ``Conflict`` if work would be lost, unless by ``force``.
        """
        if (await self._chats.open(chat_id)).worktree is None:
            return None
        async with self._hold_idle(chat_id) as chat:
            tree = chat.worktree
            if tree is None:
                return None
            if tree.step == "planned":
                await self._steps.cancel_plan(chat, tree, by)
                return tree
            if not force:
                top = self._steps.get_top(chat_id)
                await self._repository.require_nothing_to_lose(top, tree.branch)
            await self._steps.record(chat, replace(at_step(tree, "dropping"), force=force), by)
            await self._steps.finish(chat)
            return tree

    async def _read_unchanged(self, chat_id: int, read: Callable[[Worktree], Awaitable[T]]) -> T:
        """Return what ``read`` finds of a tree, read again if a step began or ended meanwhile.

        Reading takes several calls of git, and does not wait for a rebase or a removal: what they
        find halfway there would be told of a tree that is said to be ready.
        """
        while True:
            tree = require_worktree(await self._chats.open(chat_id))
            try:
                found = await read(tree)
            except AgentdError:
                if (await self._chats.open(chat_id)).worktree is tree:
                    raise
            else:  # each record makes a new object, also one of a step that has come back
                if (await self._chats.open(chat_id)).worktree is tree:
                    return found

    async def _settle(self, chat_id: int) -> None:
        """Finish or undo what was begun for a chat; a planned tree is left to its next turn."""
        async with self._lock(chat_id):
            chat = await self._chats.open(chat_id)
            tree = await self._steps.finish(chat)
            top = self._steps.get_top(chat_id)
            if tree and tree.step == "planned" and await asyncio.to_thread(os.path.lexists, top):
                await self._repository.remove(top, force=True)

    @asynccontextmanager
    async def _hold_made(self, chat_id: int) -> AsyncIterator[tuple[Chat, Worktree]]:
        """Hold an idle chat whose work tree is there."""
        async with self._hold_idle(chat_id) as chat:
            tree, top = require_worktree(chat), self._steps.get_top(chat_id)
            if tree.step != "ready" or not await self._repository.exists(top):
                raise Conflict(
                    f"The work tree of chat {chat_id} is not there yet",
                    "It is made with the chat's next prompt.",
                )
            yield chat, tree

    @asynccontextmanager
    async def _hold_idle(self, chat_id: int) -> AsyncIterator[Chat]:
        """Hold a chat that no turn runs in; one that begins waits in ``prepare_folder``."""
        async with self._lock(chat_id):
            chat = await self._chats.open(chat_id)
            if chat.agent.turn:
                raise Conflict(
                    f"The agent is working on chat {chat_id}",
                    f"Wait for it, or stop it: POST /api/chat/{chat_id}/stop",
                )
            await self._steps.finish(chat)
            yield chat

    def _lock(self, chat_id: int) -> asyncio.Lock:
        return self._locks.setdefault(chat_id, asyncio.Lock())
