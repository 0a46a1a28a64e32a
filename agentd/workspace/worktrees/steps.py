"""The steps by which a chat's work tree is made, changed and removed.

Each is recorded in the chat's journal before it begins and when it is done, so that what a killed
daemon left half done is known. Whoever calls them holds the chat's tree (``service``).
"""

import os
from contextlib import suppress

from msgspec.structs import replace

from agentd.chats.records import WorktreeChanged
from agentd.chats.repository import AGENT, ChatRepository
from agentd.chats.service import DEFAULT_TITLE
from agentd.chats.state import Chat
from agentd.chats.worktree import Worktree, WorktreeStep
from agentd.core.errors import AgentdError, Conflict, NotFound
from agentd.storage.layout import Layout
from agentd.workspace.worktrees.merging import BranchMerger
from agentd.workspace.worktrees.model import name_changes
from agentd.workspace.worktrees.repository import WorktreeRepository
from agentd.workspace.worktrees.setup import WorktreeSetup

_LONGEST_PROBLEM = 5000


class WorktreeSteps:
    """Makes, commits and removes work trees; ``generation`` marks the programs started for them."""

    def __init__(
        self,
        chats: ChatRepository,
        repository: WorktreeRepository,
        merger: BranchMerger,
        setup: WorktreeSetup,
        layout: Layout,
        generation: str,
    ) -> None:
        self._chats = chats
        self._repository = repository
        self._merger = merger
        self._setup = setup
        self._layout = layout
        self._generation = generation

    async def record(self, chat: Chat, tree: Worktree | None, by: str = AGENT) -> None:
        """Note in the chat's journal which tree it has from now on, if that is a change."""
        if chat.worktree != tree:
            await self._chats.record(chat, by, WorktreeChanged(tree))

    def get_top(self, chat_id: int) -> str:
        """Return the top folder of a chat's tree, which need not be there."""
        return os.path.realpath(self._layout.get_worktree_folder(chat_id))

    async def finish(self, chat: Chat) -> Worktree | None:
        """Finish what was begun with a chat's tree; return the tree that it has then."""
        tree, top = chat.worktree, self.get_top(chat.id)
        if tree is None or tree.step in ("planned", "ready"):
            return tree
        if tree.step == "rebasing":
            if await self._repository.exists(top):
                await self._merger.abort_rebase(top)
            await self.record(chat, at_step(tree, "ready"))
            return chat.worktree
        try:
            await self._repository.remove(top, force=tree.force)
            if tree.step == "dropping":
                await self._repository.delete_branch(tree.branch, force=tree.force)
        except Conflict:  # somebody changed something in it since: it stays
            await self.record(chat, at_step(tree, "ready"))
            raise
        await self.record(chat, None)
        return None

    async def make(self, chat: Chat, tree: Worktree) -> None:
        """Make and set up a tree; until that is done it counts as planned."""
        top = self.get_top(chat.id)
        if tree.step == "ready":  # somebody removed its folder: its branch has what was committed
            tip = await self._repository.find_branch(tree.branch)
            tree = replace(at_step(tree, "planned"), base=tip or tree.base)
            await self.record(chat, tree)
        try:
            mark = f"{self._generation}.worktree-{chat.id}"
            branch = await self._repository.create(top, tree, mark)
            tree = replace(tree, branch=branch)
            await self.record(chat, tree)
            await self._setup.run(chat.id, await self._repository.get_folder(top))
        except AgentdError as error:
            problem = f"{error.message}\n{error.details}".strip()[:_LONGEST_PROBLEM]
            await self.record(chat, replace(tree, problem=problem))
            raise
        await self.record(chat, replace(at_step(tree, "ready"), problem=""))

    async def cancel_plan(self, chat: Chat, tree: Worktree, by: str) -> None:
        """Take a tree away that is not made, or half; a branch of others' commits stays."""
        await self._repository.remove(self.get_top(chat.id), force=True)
        if await self._repository.find_branch(tree.branch) == tree.base:
            with suppress(Conflict):
                await self._repository.delete_branch(tree.branch, force=False)
        await self.record(chat, None, by)

    async def commit(self, chat: Chat, message: str) -> None:
        """Commit all that is changed in a tree, by a message that is made up if it is empty."""
        tree = require_worktree(chat)
        if not await self._repository.find_branch(tree.branch):
            raise Conflict(f"The branch {tree.branch} is gone", "Make it again, or drop the tree.")
        wanted = message.strip() or name_commit(chat, tree)
        await self._repository.commit_all(self.get_top(chat.id), tree.branch, wanted)


def at_step(tree: Worktree, step: WorktreeStep) -> Worktree:
    """Return a tree at another step."""
    return replace(tree, step=step, force=False)


def name_commit(chat: Chat, tree: Worktree) -> str:
    """Return a commit message by the chat's title, or else by its first prompt."""
    words = tree.branch.partition("-")[2].replace("-", " ").capitalize()
    return name_changes(chat.id, words if chat.title == DEFAULT_TITLE else chat.title)


def require_worktree(chat: Chat) -> Worktree:
    """Return a chat's work tree; ``NotFound`` if it has none."""
    if chat.worktree is None:
        raise NotFound(
            f"Chat {chat.id} has no work tree", "It works in the workspace; its settings change it."
        )
    return chat.worktree
