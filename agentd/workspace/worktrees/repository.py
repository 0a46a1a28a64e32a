"""Work trees of the repository that the workspace is in, through the real git.

Git's own programs are switched off as for every call of it (``git.command``).
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Collection, Sequence
from os.path import join
from typing import NoReturn

from agentd.agent.tools.results import Diff
from agentd.chats.worktree import Worktree, WorktreeBase
from agentd.core.errors import AgentdError, Conflict, Unavailable
from agentd.storage.document import make_folder
from agentd.system.process import MARK
from agentd.system.protected_paths import ProtectedPlaces, is_beneath
from agentd.workspace.git.command import Git, raise_git_error
from agentd.workspace.git.commits import CommitRequest
from agentd.workspace.git.repository import GitRepository
from agentd.workspace.git.working_copy import WorkingCopy
from agentd.workspace.worktrees.attachments import copy_attachments
from agentd.workspace.worktrees.model import WorktreeStatus
from agentd.workspace.worktrees.refs import (
    CHECKOUT_SECONDS,
    find_merge_base,
    find_tip,
    get_branch,
    resolve_commit,
)

MOST_NAMES = 99
"""Names of branches that are tried until a free one is found."""

_LISTING = 16 * 2**20
_MERGE_FIRST = "Merge or keep it first, or send 'force' to lose it."


class WorktreeRepository:
    """The repository of the workspace ``root``; ``closed`` is never committed in a tree."""

    def __init__(self, root: str, closed: Collection[str] = ()) -> None:
        self._root = os.path.realpath(root)
        self._main = Git(root)
        self._closed = tuple(map(os.path.realpath, closed))

    async def read_base(self) -> WorktreeBase:
        """Return what is checked out in the workspace; ``Conflict`` where no tree can be made."""
        try:
            await self._main.refuse_filters("git worktree")
            if not await self._main.has_commits():
                raise Conflict("The repository has no commit yet", "Commit something first.")
            return WorktreeBase(
                await resolve_commit(self._main, "HEAD"), await get_branch(self._main)
            )
        except Unavailable:
            raise
        except AgentdError as error:
            message = f"There can be no work tree: {error.message}"
            raise Conflict(message, error.details) from error

    async def get_folder(self, top: str) -> str:
        """Return the workspace's counterpart in the tree at ``top``."""
        prefix = (await self._main.get_prefix()).rstrip("/")
        return join(top, prefix) if prefix else top

    async def copy_attachments(self, folder: str, prompt: str) -> None:
        """Copy the uploads that a prompt names from the workspace to a tree's ``folder``."""
        await asyncio.to_thread(copy_attachments, self._root, folder, prompt)

    async def create(self, top: str, tree: Worktree, mark: str) -> str:
        """Make the tree at ``top`` in the place of whatever is there; return its branch.

        A branch of that name is used if nothing was committed to it, else the next free name is.
        """
        await self._main.refuse_filters("git worktree add")
        await self.remove(top, force=True)
        await asyncio.to_thread(make_folder, os.path.dirname(top))
        branch, exists = await self._find_free_branch(tree)
        where = (top, branch) if exists else ("-b", branch, top, tree.base)
        made = await self._main.run(
            *("worktree", "add", "--quiet", *where),
            timeout=CHECKOUT_SECONDS,
            variables={MARK: mark},
        )
        if made.code:
            raise_git_error(made)
        return branch

    async def remove(self, top: str, *, force: bool) -> None:
        """Remove a tree's folder, if it is there; the branch stays.

        Without ``force``, raises ``Conflict`` if something in it is not committed.
        """
        if not force:
            await self._main.refuse_filters("git worktree remove")
        removed = await self._main.run(
            *("worktree", "remove", *(("--force", "--force") if force else ()), top),
            timeout=CHECKOUT_SECONDS,
        )
        if not await asyncio.to_thread(os.path.lexists, top):
            return
        if removed.code and not force:
            message = removed.errors.decode("utf-8", "replace").strip()
            if "submodules" in message:
                why, advice = "its submodules may hold work", f"git worktree remove --force {top}"
                raise Conflict(f"The work tree is not removed: {why}", f"If not: {advice}")
            raise Conflict(
                "The work tree is not removed: something in it is not committed", message
            )
        await asyncio.to_thread(shutil.rmtree, top, True)

    async def delete_branch(self, branch: str, *, force: bool) -> None:
        """Delete a branch, if it is there; ``Conflict`` for commits that no other branch has."""
        if not await find_tip(self._main, branch):
            return
        if not force and (number := await self.count_unmerged(branch)):
            _refuse_loss(branch, number, 0)
        deleted = await self._main.run("branch", "--quiet", "-D", "--", branch)
        if deleted.code:
            raise_git_error(deleted)

    async def require_nothing_to_lose(self, top: str, branch: str) -> None:
        """Raise ``Conflict`` if dropping the tree would lose work."""
        unmerged = await self.count_unmerged(branch) if await find_tip(self._main, branch) else 0
        uncommitted = 0
        if await self.exists(top):
            unmerged += await self._count_commits_of_no_branch(top)
            uncommitted = await self._count_uncommitted(top)
        if unmerged or uncommitted:
            _refuse_loss(branch, unmerged, uncommitted)

    async def exists(self, top: str) -> bool:
        """Return whether the tree's folder is there."""
        return await asyncio.to_thread(os.path.exists, join(top, ".git"))

    async def find_branch(self, branch: str) -> str:
        """Return a branch's latest commit; empty: there is no such branch."""
        return await find_tip(self._main, branch)

    async def count_unmerged(self, branch: str) -> int:
        """Return how many commits of a branch no other branch, remote or tag has."""
        counted = await self._main.run_checked(
            *("rev-list", "--count", f"refs/heads/{branch}", "--not", f"--exclude={branch}"),
            *("--branches", "--remotes", "--tags", "HEAD"),
        )
        return int(counted.output)

    async def read_status(self, top: str, tree: Worktree) -> WorktreeStatus:
        """Compare a tree with the workspace."""
        tip, head = (
            await find_tip(self._main, tree.branch),
            await resolve_commit(self._main, "HEAD"),
        )
        if not tip:
            raise Conflict(f"The branch {tree.branch} is gone", "Drop the work tree.")
        counted = await self._main.run_checked(
            "rev-list", "--left-right", "--count", f"{head}...{tip}"
        )
        behind, ahead = map(int, counted.output.split())
        exists = await self.exists(top)
        settled = exists and tree.step == "ready"  # a rebase has no branch checked out
        return WorktreeStatus(
            await get_branch(self._main),
            tip,
            await find_merge_base(self._main, head, tip) or tree.base,
            ahead,
            behind,
            await self._count_uncommitted(top) if exists else 0,
            await self._explain_checkout(top, tree.branch) if settled else "",
        )

    async def diff(self, top: str, tree: Worktree, path: str, places: ProtectedPlaces) -> Diff:
        """Return what a tree changes, committed or not, against the workspace's branch."""
        status = await self.read_status(top, tree)
        folder = await self.get_folder(top)
        index = await Git(top).run_checked("rev-parse", "--absolute-git-dir")
        copy = await asyncio.to_thread(_copy_index, os.fsdecode(index.output.rstrip(b"\n")))
        try:
            return await GitRepository(folder, places).diff_since(status.base, path, copy)
        finally:
            await asyncio.to_thread(_remove_file, copy)

    async def open_copy(self, top: str) -> WorkingCopy:
        """Return the tree as a working copy, of the workspace's folder in it."""
        folder = await self.get_folder(top)
        return WorkingCopy(folder, self._list_closed(folder))

    async def commit_all(self, top: str, branch: str, message: str) -> bool:
        """Commit all that is changed in a tree to its branch; return whether something was.

        Raises ``Conflict`` if something else is checked out, such as a branch that an agent made.
        """
        if other := await self._explain_checkout(top, branch):
            raise Conflict(other, f"Have the agent check {branch} out and merge its work into it.")
        # A folder is another repository, such as one that an agent cloned to look at it.
        if all(line.endswith(b"/") for line in await self._list_uncommitted(top)):
            return False
        copy = WorkingCopy(top, self._list_closed(await self.get_folder(top)))
        await copy.commit(CommitRequest(message, all=True))
        return True

    async def _explain_checkout(self, top: str, branch: str) -> str:
        """Explain that something else than its branch is checked out in a tree; empty: it is."""
        current = await get_branch(Git(top))
        if current == branch:
            return ""
        return f"The work tree has {current or 'no branch'} checked out, not {branch}."

    async def _find_free_branch(self, tree: Worktree) -> tuple[str, bool]:
        """Return the branch to use, and whether it exists."""
        for number in range(1, MOST_NAMES):
            name = tree.branch if number == 1 else f"{tree.branch}-{number}"
            tip = await find_tip(self._main, name)
            if tip in ("", tree.base):
                return name, bool(tip)
        raise Conflict(f"There are too many branches named {tree.branch}", "Delete some.")

    async def _count_commits_of_no_branch(self, top: str) -> int:
        """Count the commits of what is checked out in a tree that would be gone with it."""
        git, head = Git(top), await resolve_commit(self._main, "HEAD")
        if not await git.has_commits():
            return 0
        counted = await git.run_checked(
            *("rev-list", "--count", "HEAD", "--not", "--branches", "--remotes", "--tags", head)
        )
        return int(counted.output)

    async def _count_uncommitted(self, top: str) -> int:
        return len(await self._list_uncommitted(top))

    async def _list_uncommitted(self, top: str) -> list[bytes]:
        """Return what is changed or new in a tree, as git lists it."""
        git = Git(top)
        await git.refuse_filters("git status")
        listed = await git.run_checked(
            *("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"),
            "--ignore-submodules=all",
            limit=_LISTING,
        )
        return list(filter(None, listed.output.split(b"\0")))

    def _list_closed(self, folder: str) -> Sequence[str]:
        """Return the counterparts of the workspace's closed files in a tree's ``folder``."""
        inside = (path for path in self._closed if is_beneath(path, self._root))
        return [folder + path[len(self._root) :] for path in inside]


def _refuse_loss(branch: str, unmerged: int, uncommitted: int) -> NoReturn:
    lost = [
        f"commits that no other branch has: {unmerged}" if unmerged else "",
        f"files that are not committed: {uncommitted}" if uncommitted else "",
    ]
    work = "; ".join(filter(None, lost))
    raise Conflict(f"The work tree of {branch} has work that would be lost ({work})", _MERGE_FIRST)


def _copy_index(git_folder: str) -> str:
    """Return the path of a copy of the index, in the same folder, for one use.

    It keeps its time, by which git tells files that were changed in the second in which it was
    written: these it compares by content.
    """
    descriptor, copy = tempfile.mkstemp(prefix="index.agentd-", dir=git_folder)
    with open(join(git_folder, "index"), "rb") as index, open(descriptor, "wb") as made:
        shutil.copyfileobj(index, made)
        made.flush()
        times = os.fstat(index.fileno())
        os.utime(made.fileno(), ns=(times.st_atime_ns, times.st_mtime_ns))
    return copy


def _remove_file(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
