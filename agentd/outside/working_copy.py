"""The working repository, as a person commands it: looked at, paged through, committed to.

A commit goes through the real git, hardened as every call of it (``git``): nothing is signed, no
editor, no clean-up in the background, and the repository's own hooks only when asked for. What
is staged is told by name, one by one, so what submodules hold is never looked into.
"""

import asyncio
import os
from collections.abc import Callable, Collection
from os.path import isabs, join

from agentd.agent.results import Commit, Diff, Status
from agentd.agent.tools import ANYWHERE, MOST_COMMITS, GitDiff, GitStatus
from agentd.errors import BadRequest, Conflict, Forbidden
from agentd.outside.git import Git, fail, place
from agentd.outside.process import Finished
from agentd.outside.repository import GitRepository, commits_in
from agentd.outside.tree import shown
from agentd.workspace.commits import HOOKS, Head, Mark, Page, Wish, checked, mark

COMMIT_SECONDS = 120.0
"""That a commit may take with its hooks."""

_LISTING = 16 * 2**20
_SAID = 2000
_HOOKS_OUTPUT = 16 * 2**20
"""Bytes that the hooks of a commit may say."""

_COMMITTING = (
    *("-c", "commit.gpgSign=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false"),
    *("-c", "i18n.commitEncoding=UTF-8", "-c", "core.editor=false"),
    # Git would make up a name out of the account's and the host's.
    *("-c", "user.useConfigOnly=true"),
)
_COMMIT = (
    *("commit", "--quiet", "--no-gpg-sign", "--no-status", "--cleanup=whitespace"),
    *("--file", "-"),
)
_FORMAT = "--format=%H%x00%at%x00%an%x00%s"
_QUIET = ("--no-show-signature", "--no-notes", "--no-decorate", "--no-patch", "--no-color")

_NO_IDENTITY = ("useConfigOnly", "tell me who you are", "empty ident name", "auto-detect")


class WorkingCopy:
    """The repository in ``root``; of a larger one, only that folder's part.

    ``closed`` are absolute paths that are never committed, such as agentd's own state; ``told`` is
    called with what is checked out once a commit was made.
    """

    def __init__(
        self,
        root: str,
        closed: Collection[str] = (),
        told: Callable[[Head], None] = lambda head: None,
    ) -> None:
        self._told = told
        self._root = os.path.realpath(root)
        self._git = Git(root)
        self._reader = GitRepository(root)
        self._closed = tuple(
            os.path.relpath(path, self._root)
            for path in map(os.path.realpath, closed)
            if path.startswith(self._root.rstrip("/") + "/")
        )
        self._committing = asyncio.Lock()

    async def status(self) -> Status:
        """The branch and the changed files."""
        return await self._reader.status(GitStatus())

    async def diff(self, path: str, commit: str, *, staged: bool | None) -> Diff:
        """What one commit changed; or what is not committed: all, what is staged, or the rest."""
        return await self._reader.diff(GitDiff(path or ANYWHERE, commit), staged=staged)

    async def hooks(self) -> tuple[str, ...]:
        """Which programs of the repository a commit would run that is told to."""
        asked = await self._git.run("rev-parse", "--git-path", "hooks", hooks=True)
        if asked.code:
            fail(asked)
        named = os.fsdecode(asked.output.rstrip(b"\n"))
        folder = named if isabs(named) else join(self._root, named)
        return await asyncio.to_thread(_executables, folder)

    async def folder(self) -> str:
        """Where git keeps what is checked out here, absolute; ``NotFound`` without a repository."""
        told = await self._git.told("rev-parse", "--absolute-git-dir")
        return os.fsdecode(told.output.rstrip(b"\n"))

    async def head(self) -> Head:
        """The branch and its latest commit."""
        asked = await self._git.run("symbolic-ref", "--quiet", "--short", "HEAD")
        if asked.code not in (0, 1):
            fail(asked)
        latest = await self._git.run("log", "-z", "-1", _FORMAT, *_QUIET)
        commit = None if latest.code else commits_in(latest.output)[0]
        return Head(asked.output.decode("utf-8", "replace").strip(), commit)

    async def log(self, path: str, limit: int, before: str = "") -> Page:
        """Commits that touched a place, newest first; ``before`` is the mark of a page."""
        limit = min(max(limit, 1), MOST_COMMITS)
        if not before and not await self._git.has_commits():
            return Page(())
        since = mark(before) if before else Mark(await self._head(), 0)
        # Told to look at a place, git passes over commits that change nothing.
        where = [place(path)] if path or await self._git.prefix() else []
        ended = await self._git.told(
            *("log", "-z", f"--max-count={limit + 1}", f"--skip={since.passed}", _FORMAT),
            *(*_QUIET, since.head, "--", *where),
        )
        found = commits_in(ended.output)
        older = str(Mark(since.head, since.passed + limit)) if len(found) > limit else ""
        return Page(found[:limit], older)

    async def commit(self, wish: Wish) -> Commit:
        """Commit, one caller after the other; the commit that was made.

        Raises ``Conflict`` when there is nothing to commit, conflicts are not solved, another
        git is at work, nobody is named as the author, or a hook refuses. What was chosen then
        stays staged.
        """
        wish = checked(wish)
        chosen = [place(path.rstrip("/")) for path in wish.paths] or [ANYWHERE] * wish.all
        async with self._committing:
            prefix = await self._git.prefix()
            await self._git.refuse_filters("git commit")
            await self._refuse_conflicts()
            if not chosen:
                await self._refuse_others(prefix)
            changed = await self._stage(chosen, prefix) if chosen else False
            in_part = wish.paths or (wish.all and prefix)
            if not (changed if in_part else await self._is_staged()):
                raise Conflict("There is nothing to commit", "Send 'paths' or 'all', or stage it.")
            await self._make(wish, ("--only", "--", *chosen) if in_part else ())
            head = await self.head()
            assert head.commit
            self._told(head)
            return head.commit

    async def _make(self, wish: Wish, only: tuple[str, ...]) -> None:
        ended = await self._git.run(
            *(*_COMMIT, *(() if wish.run_hooks else ("--no-verify",)), *only),
            given=wish.message.encode(),
            timeout=COMMIT_SECONDS,
            limit=_HOOKS_OUTPUT,
            hooks=wish.run_hooks,
            options=_COMMITTING,
        )
        if ended.cut:
            limit = f"{_HOOKS_OUTPUT // 2**20} MiB"
            raise Conflict(f"A hook said more than {limit}: the commit was given up")
        if ended.code:
            _refused(ended, hooks=wish.run_hooks)

    async def _head(self) -> str:
        asked = await self._git.told("rev-parse", "--verify", "HEAD^{commit}")
        return asked.output.decode().strip()

    async def _is_staged(self) -> bool:
        """Whether a commit would differ from the one before, or end a merge."""
        asked = await self._git.run("diff", "--cached", "--quiet", "--no-ext-diff")
        if asked.code not in (0, 1):
            fail(asked)
        merging = await self._git.run("rev-parse", "--verify", "--quiet", "MERGE_HEAD")
        return asked.code == 1 or merging.code == 0

    async def _refuse_conflicts(self) -> None:
        conflicts = await self._staged("--diff-filter=U")
        if conflicts:
            names = ", ".join(map(_shown, conflicts[:10]))
            raise Conflict("Conflicts are not solved yet", names)

    async def _refuse_others(self, prefix: str) -> None:
        """Of what is staged, all must be in the workspace, and none of it ours."""
        top, staged = prefix.encode(), await self._staged()
        if not all(path.startswith(top) for path in staged):
            raise Conflict("Files outside of the workspace are staged, too", "Send 'paths'.")
        self._refuse_closed([path.removeprefix(top) for path in staged])

    async def _staged(self, *options: str) -> list[bytes]:
        """Paths from the repository's top, of all of it."""
        ended = await self._git.told(
            *("diff", "--cached", "--name-only", "-z", "--no-ext-diff", "--no-renames", *options),
            limit=_LISTING,
        )
        return _names(ended)

    async def _stage(self, chosen: list[str], prefix: str) -> bool:
        """Have the index know what is changed there, new and removed files included.

        False when nothing is.
        """
        ended = await self._git.told(
            *("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"),
            *("--ignore-submodules=all", "--", *chosen),
            limit=_LISTING,
        )
        top = prefix.encode()
        # A folder is another repository: git names no folders otherwise here.
        changed = [line[3:].removeprefix(top) for line in _names(ended) if line[-1:] != b"/"]
        self._refuse_closed(changed)
        for path in chosen:
            if path != ANYWHERE and not any(_is_in(one, os.fsencode(path)) for one in changed):
                raise Conflict(f"There is nothing to commit in {path}")
        staging = await self._git.run(
            *("update-index", "--add", "--remove", "--replace", "-z", "--stdin"),
            given=b"".join(path + b"\0" for path in changed),
        )
        if staging.code:
            fail(staging)
        return bool(changed)

    def _refuse_closed(self, paths: list[bytes]) -> None:
        for closed in self._closed:
            if any(_is_in(path, os.fsencode(closed)) for path in paths):
                raise Forbidden(
                    f"{shown(closed)} is agentd's own, or holds secrets, and is not committed.",
                    "Name it in .gitignore, or send the paths to commit.",
                )


def _is_in(path: bytes, place: bytes) -> bool:
    return place == ANYWHERE.encode() or path == place or path.startswith(place + b"/")


def _names(ended: Finished) -> list[bytes]:
    if ended.cut:
        raise BadRequest("Too many files are changed to commit them at once", "Send 'paths'.")
    return [name for name in ended.output.split(b"\0") if name]


def _executables(folder: str) -> tuple[str, ...]:
    return tuple(name for name in HOOKS if os.access(join(folder, name), os.X_OK))


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def _refused(ended: Finished, *, hooks: bool) -> None:
    """Raise why there is no commit."""
    said = (ended.errors + ended.output).decode("utf-8", "replace").strip()
    if any(sign in said for sign in _NO_IDENTITY):
        raise Conflict(
            "git does not know who commits here",
            "Set it once: git config --global user.name … and user.email …",
        )
    if "during a" in said and "partial commit" in said:
        raise Conflict("In the middle of a merge, all of it is committed at once", said[:_SAID])
    if ".lock': File exists" in said:
        fail(ended)
    if "nothing to commit" in said or "nothing added" in said or "no changes added" in said:
        raise Conflict("There is nothing to commit")
    if ended.code == 1 and hooks:
        raise Conflict("A hook of this repository refused the commit", said[:_SAID])
    fail(ended)
