"""Work trees of the repository that the workspace is in, through the real git.

The workspace's own checkout changes at one moment only: a merge is computed in git's store, and
what is checked out then moves to its result at once or not at all. Git's own programs are switched
off as for every call of it (``git.command``).
"""

import asyncio
import os
import shutil
from collections.abc import Collection, Coroutine, Sequence
from os.path import join
from typing import Any, NoReturn

from agentd.agent.tools.results import Diff
from agentd.chats.worktree import Worktree, WorktreeBase
from agentd.core.errors import AgentdError, Conflict, Unavailable
from agentd.storage.document import make_folder
from agentd.system.process import MARK, Finished
from agentd.system.protected_paths import ProtectedPlaces, is_beneath
from agentd.workspace.git.command import Git, raise_git_error
from agentd.workspace.git.commits import CommitRequest
from agentd.workspace.git.repository import GitRepository
from agentd.workspace.git.working_copy import WorkingCopy
from agentd.workspace.worktrees.model import (
    WorktreeStatus,
    parse_listed_files,
    parse_merge_tree,
    raise_conflict,
)

CHECKOUT_SECONDS = 600.0
"""The time limit for whatever writes all files of a tree."""
MOST_NAMES = 99
"""Names of branches that are tried until a free one is found."""

_LISTING = 16 * 2**20
_OURS = (
    *("-c", "commit.gpgSign=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false"),
    *("-c", "core.editor=false", "-c", "user.useConfigOnly=true"),
    *("-c", "merge.verifySignatures=false", "-c", "rebase.autoSquash=false"),
    *("-c", "rebase.updateRefs=false", "-c", "rebase.forkPoint=false"),
)
_NO_IDENTITY = ("useConfigOnly", "tell me who you are", "empty ident name", "auto-detect")
_MERGE_FIRST = "Merge or keep it first, or send 'force' to lose it."


class WorktreeRepository:
    """The repository of the workspace ``root``; ``closed`` is never committed in a tree."""

    def __init__(self, root: str, closed: Collection[str] = ()) -> None:
        self._root = os.path.realpath(root)
        self._main = Git(root)
        self._closed = tuple(map(os.path.realpath, closed))
        self._merging = asyncio.Lock()

    async def read_base(self) -> WorktreeBase:
        """Return what is checked out in the workspace; ``Conflict`` where no tree can be made."""
        try:
            await self._main.refuse_filters("git worktree")
            if not await self._main.has_commits():
                raise Conflict("The repository has no commit yet", "Commit something first.")
            return WorktreeBase(await self._resolve(self._main, "HEAD"), await self._get_branch())
        except Unavailable:
            raise
        except AgentdError as error:
            message = f"There can be no work tree: {error.message}"
            raise Conflict(message, error.details) from error

    async def get_folder(self, top: str) -> str:
        """Return the workspace's counterpart in the tree at ``top``."""
        prefix = (await self._main.get_prefix()).rstrip("/")
        return join(top, prefix) if prefix else top

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
            said = removed.errors.decode("utf-8", "replace").strip()
            raise Conflict("The work tree is not removed: something in it is not committed", said)
        await asyncio.to_thread(shutil.rmtree, top, True)

    async def delete_branch(self, branch: str, *, force: bool) -> None:
        """Delete a branch, if it is there; ``Conflict`` for commits that no other branch has."""
        if not await self.find_tip(branch):
            return
        if not force and (number := await self.count_unmerged(branch)):
            _refuse_loss(branch, number, 0)
        deleted = await self._main.run("branch", "--quiet", "-D", "--", branch)
        if deleted.code:
            raise_git_error(deleted)

    async def require_nothing_to_lose(self, top: str, branch: str) -> None:
        """Raise ``Conflict`` if dropping the tree would lose work."""
        unmerged = await self.count_unmerged(branch) if await self.find_tip(branch) else 0
        uncommitted = await self._count_uncommitted(top) if await self.exists(top) else 0
        if unmerged or uncommitted:
            _refuse_loss(branch, unmerged, uncommitted)

    async def exists(self, top: str) -> bool:
        """Return whether the tree's folder is there."""
        return await asyncio.to_thread(os.path.exists, join(top, ".git"))

    async def find_tip(self, branch: str) -> str:
        """Return a branch's latest commit; empty: there is no such branch."""
        found = await self._main.run(
            "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}"
        )
        return found.output.decode().strip() if found.code == 0 else ""

    async def count_unmerged(self, branch: str) -> int:
        """Return how many commits of a branch no other branch, remote or tag has."""
        counted = await self._main.run_checked(
            *("rev-list", "--count", f"refs/heads/{branch}", "--not", f"--exclude={branch}"),
            *("--branches", "--remotes", "--tags", "HEAD"),
        )
        return int(counted.output)

    async def read_status(self, top: str, tree: Worktree) -> WorktreeStatus:
        """Compare a tree with the workspace."""
        tip, head = await self.find_tip(tree.branch), await self._resolve(self._main, "HEAD")
        if not tip:
            raise Conflict(f"The branch {tree.branch} is gone", "Drop the work tree.")
        counted = await self._main.run_checked(
            "rev-list", "--left-right", "--count", f"{head}...{tip}"
        )
        behind, ahead = map(int, counted.output.split())
        return WorktreeStatus(
            await self._get_branch(),
            tip,
            await self._find_merge_base(head, tip) or tree.base,
            ahead,
            behind,
            await self._count_uncommitted(top) if await self.exists(top) else 0,
        )

    async def diff(self, top: str, tree: Worktree, path: str, places: ProtectedPlaces) -> Diff:
        """Return what a tree changes, committed or not, against the workspace's branch."""
        status = await self.read_status(top, tree)
        folder = await self.get_folder(top)
        index = await Git(top).run_checked("rev-parse", "--absolute-git-dir")
        source = join(os.fsdecode(index.output.rstrip(b"\n")), "index")
        copy = f"{source}.agentd"
        await asyncio.to_thread(shutil.copyfile, source, copy)
        try:
            return await GitRepository(folder, places).diff_since(status.base, path, copy)
        finally:
            await asyncio.to_thread(_remove_file, copy)

    async def open_copy(self, top: str) -> WorkingCopy:
        """Return the tree as a working copy, of the workspace's folder in it."""
        folder = await self.get_folder(top)
        return WorkingCopy(folder, self._list_closed(folder))

    async def commit_all(self, top: str, message: str) -> bool:
        """Commit all that is changed in a tree; return whether something was."""
        if not await self._count_uncommitted(top):
            return False
        copy = WorkingCopy(top, self._list_closed(await self.get_folder(top)))
        await copy.commit(CommitRequest(message, all=True))
        return True

    async def merge(self, branch: str, message: str, into: str | None) -> str:
        """Merge a branch into what is checked out in the workspace; return the commit there.

        Raises ``Conflict``, and changes nothing, if both changed the same lines, if changes in the
        workspace that are not committed are in the way, or if another branch than ``into`` is
        checked out there.
        """
        async with self._merging:
            await self._main.refuse_filters("git merge", merging=True)
            current = await self._get_branch()
            if into is not None and into != current:
                raise Conflict(
                    f"The workspace has {current or 'no branch'} checked out, not {into}"
                )
            head, tip = await self._resolve(self._main, "HEAD"), await self.find_tip(branch)
            if not tip:
                raise Conflict(f"The branch {branch} is gone")
            base = await self._find_merge_base(head, tip)
            if base == tip:
                return head
            made = tip if base == head else await self._make_merge(head, tip, message)
            await _run_to_the_end(self._advance(made))
            return made

    async def rebase(self, top: str) -> None:
        """Put a tree's commits on top of what is checked out in the workspace.

        Raises ``Conflict``, and leaves the tree as it was, if that does not go without conflicts.
        """
        git = Git(top)
        await git.refuse_filters("git rebase", merging=True)
        onto = await self._resolve(self._main, "HEAD")
        ended = await git.run(
            *("rebase", "--quiet", "--no-autostash", "--no-gpg-sign", onto),
            options=_OURS,
            timeout=CHECKOUT_SECONDS,
        )
        if ended.code == 0:
            return
        listed = await git.run(
            "diff", "--name-only", "--diff-filter=U", "-z", "--no-ext-diff", limit=_LISTING
        )
        await self.abort_rebase(top)
        files = [name for name in listed.output.decode("utf-8", "replace").split("\0") if name]
        if files:
            raise_conflict("The rebase has conflicts, so nothing is changed", files)
        _raise_refusal(ended)

    async def abort_rebase(self, top: str) -> None:
        """End a rebase that was begun in a tree, if one was, as if it never had been."""
        git = Git(top)
        aborted = await git.run("rebase", "--abort", options=_OURS, timeout=CHECKOUT_SECONDS)
        if aborted.code and b"no rebase in progress" not in aborted.errors.lower():
            raise_git_error(aborted)

    async def _make_merge(self, head: str, tip: str, message: str) -> str:
        merged = await self._main.run(
            *("merge-tree", "--write-tree", "--name-only", "-z", head, tip),
            options=_OURS,
            timeout=CHECKOUT_SECONDS,
            limit=_LISTING,
        )
        if merged.code not in (0, 1):
            raise_git_error(merged)
        found = parse_merge_tree(merged.output, merged.code)
        if found.conflicts:
            raise_conflict(
                "The merge has conflicts, so nothing is changed", found.conflicts, "Rebase it."
            )
        made = await self._main.run(
            *("commit-tree", found.tree, "-p", head, "-p", tip, "-F", "-"),
            options=_OURS,
            given=message.encode(),
        )
        if made.code:
            _raise_refusal(made)
        return made.output.decode().strip()

    async def _advance(self, commit: str) -> None:
        """Move what is checked out in the workspace forward to a commit, or change nothing."""
        moved = await self._main.run(
            *("merge", "--ff-only", "--quiet", "--no-stat", "--no-autostash", commit),
            options=_OURS,
            timeout=CHECKOUT_SECONDS,
        )
        if moved.code == 0:
            return
        if files := parse_listed_files(moved.errors.decode("utf-8", "replace")):
            raise_conflict(
                "The workspace has changes of its own in these files, so nothing is merged",
                files,
                "Commit them, or put them away.",
            )
        _raise_refusal(moved)

    async def _find_free_branch(self, tree: Worktree) -> tuple[str, bool]:
        """Return the branch to use, and whether it exists."""
        for number in range(1, MOST_NAMES):
            name = tree.branch if number == 1 else f"{tree.branch}-{number}"
            tip = await self.find_tip(name)
            if tip in ("", tree.base):
                return name, bool(tip)
        raise Conflict(f"There are too many branches named {tree.branch}", "Delete some.")

    async def _count_uncommitted(self, top: str) -> int:
        git = Git(top)
        await git.refuse_filters("git status")
        listed = await git.run_checked(
            *("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"),
            "--ignore-submodules=all",
            limit=_LISTING,
        )
        return sum(1 for name in listed.output.split(b"\0") if name)

    async def _find_merge_base(self, one: str, other: str) -> str:
        found = await self._main.run("merge-base", one, other)
        if found.code not in (0, 1):
            raise_git_error(found)
        return found.output.decode().strip()

    async def _get_branch(self) -> str:
        asked = await self._main.run("symbolic-ref", "--quiet", "--short", "HEAD")
        return asked.output.decode("utf-8", "replace").strip() if asked.code == 0 else ""

    async def _resolve(self, git: Git, name: str) -> str:
        found = await git.run_checked("rev-parse", "--verify", f"{name}^{{commit}}")
        return found.output.decode().strip()

    def _list_closed(self, folder: str) -> Sequence[str]:
        """Return the counterparts of the workspace's closed files in a tree's ``folder``."""
        inside = (path for path in self._closed if is_beneath(path, self._root))
        return [folder + path[len(self._root) :] for path in inside]


def _refuse_loss(branch: str, unmerged: int, uncommitted: int) -> NoReturn:
    lost = [
        f"{unmerged} commits that no other branch has" if unmerged else "",
        f"{uncommitted} files that are not committed" if uncommitted else "",
    ]
    work = " and ".join(filter(None, lost))
    raise Conflict(f"The work tree of {branch} has work that would be lost: {work}", _MERGE_FIRST)


def _raise_refusal(ended: Finished) -> NoReturn:
    said = ended.errors.decode("utf-8", "replace").strip()
    if any(sign in said for sign in _NO_IDENTITY):
        raise Conflict(
            "git does not know who commits here",
            "Set it once: git config --global user.name … and user.email …",
        )
    raise Conflict("git refused it, and nothing is changed", said[:2000])


async def _run_to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Run what must not stop halfway, even if the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _remove_file(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
