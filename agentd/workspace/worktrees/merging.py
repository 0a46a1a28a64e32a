"""Merging a chat's branch into the workspace, and putting it on top of it.

The workspace's own checkout changes at one moment only: a merge is computed in git's store, and
what is checked out then moves to its result at once or not at all.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, NoReturn

from agentd.core.errors import Conflict
from agentd.system.process import Finished
from agentd.workspace.git.command import Git, raise_git_error
from agentd.workspace.worktrees.model import (
    parse_listed_files,
    parse_merge_tree,
    raise_conflict,
)
from agentd.workspace.worktrees.refs import (
    CHECKOUT_SECONDS,
    find_merge_base,
    find_tip,
    get_branch,
    resolve_commit,
)

_LISTING = 16 * 2**20
_OURS = (
    *("-c", "commit.gpgSign=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false"),
    *("-c", "core.editor=false", "-c", "user.useConfigOnly=true"),
    *("-c", "merge.verifySignatures=false", "-c", "rebase.autoSquash=false"),
    *("-c", "rebase.updateRefs=false", "-c", "rebase.forkPoint=false"),
)
_ADVICE = "Have the agent merge {} into its branch, and resolve them."
_NO_IDENTITY = ("useConfigOnly", "tell me who you are", "empty ident name", "auto-detect")


class BranchMerger:
    """Merges branches into what is checked out in the workspace ``root``."""

    def __init__(self, root: str) -> None:
        self._main = Git(root)
        self._merging = asyncio.Lock()

    async def merge(self, branch: str, message: str, into: str | None) -> str:
        """Merge a branch into what is checked out in the workspace; return the commit there.

        Raises ``Conflict``, and changes nothing, if both changed the same lines, if changes in the
        workspace that are not committed are in the way, or if another branch than ``into`` is
        checked out there.
        """
        async with self._merging:
            await self._main.refuse_filters("git merge", merging=True)
            current = await get_branch(self._main)
            if into is not None and into != current:
                raise Conflict(
                    f"The workspace has {current or 'no branch'} checked out, not {into}"
                )
            head, tip = await resolve_commit(self._main, "HEAD"), await find_tip(self._main, branch)
            if not tip:
                raise Conflict(f"The branch {branch} is gone")
            base = await find_merge_base(self._main, head, tip)
            if not base:
                raise Conflict(f"{branch} has no commit in common with the workspace")
            if base == tip:
                return head
            made = tip if base == head else await self._make_merge(current, head, tip, message)
            await _run_to_the_end(self._advance(made))
            return made

    async def rebase(self, top: str) -> None:
        """Put a tree's commits on top of what is checked out in the workspace.

        Raises ``Conflict``, and leaves the tree as it was, if that does not go without conflicts.
        """
        git = Git(top)
        await git.refuse_filters("git rebase", merging=True)
        onto = await resolve_commit(self._main, "HEAD")
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
            into = await get_branch(self._main) or onto
            raise_conflict(
                "The rebase has conflicts, so nothing is changed", files, _ADVICE.format(into)
            )
        _raise_refusal(ended)

    async def abort_rebase(self, top: str) -> None:
        """End a rebase that was begun in a tree, if one was, as if it never had been."""
        git = Git(top)
        aborted = await git.run("rebase", "--abort", options=_OURS, timeout=CHECKOUT_SECONDS)
        if aborted.code and b"no rebase in progress" not in aborted.errors.lower():
            raise_git_error(aborted)

    async def _make_merge(self, current: str, head: str, tip: str, message: str) -> str:
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
                "The merge has conflicts, so nothing is changed",
                found.conflicts,
                _ADVICE.format(current or head),
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


def _raise_refusal(ended: Finished) -> NoReturn:
    message = ended.errors.decode("utf-8", "replace").strip()
    if any(sign in message for sign in _NO_IDENTITY):
        raise Conflict(
            "git does not know who commits here",
            "Set it once: git config --global user.name … and user.email …",
        )
    raise Conflict("git refused it, and nothing is changed", message[:2000])


async def _run_to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Run what must not stop halfway, even if the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
