"""The working repository, as a person uses it: status, history and commits.

A commit goes through the real git, hardened as every call of it (``git``): nothing is signed, no
editor, no clean-up in the background, and the repository's own hooks only when asked for. What
is staged is named explicitly, path by path, so what submodules hold is never looked into.
"""

import asyncio
import os
from collections.abc import Callable, Collection
from os.path import isabs, join, normpath

from agentd.agent.tools.model import ANYWHERE, MOST_COMMITS, GitDiff, GitStatus
from agentd.agent.tools.results import Commit, Diff, RepositoryStatus
from agentd.core.errors import BadRequest, Conflict, Forbidden
from agentd.system.folder import make_printable
from agentd.system.process import Finished
from agentd.system.protected_paths import ProtectedPlaces
from agentd.workspace.git.command import Git, check_path, raise_git_error
from agentd.workspace.git.commits import (
    HOOKS,
    MOST_PATHS,
    CommitPage,
    CommitRequest,
    GitHead,
    LogCursor,
    parse_log_cursor,
    validate_commit,
)
from agentd.workspace.git.repository import GitRepository, parse_commits

COMMIT_SECONDS = 120.0
"""The time limit of a commit with its hooks."""

_LISTING = 16 * 2**20
MOST_LISTED = 10_000
"""Changed files that a person is shown."""
_SAID = 2000
_LOST = "\ufffd"
"""The character shown in place of bytes that are not UTF-8."""
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
_QUIET = (
    *("--no-show-signature", "--no-notes", "--no-decorate", "--no-patch", "--no-color"),
    "--encoding=UTF-8",
)

_NO_IDENTITY = ("useConfigOnly", "tell me who you are", "empty ident name", "auto-detect")


class WorkingCopy:
    """The repository in ``root``; of a larger one, only that folder's part.

    ``closed`` are absolute paths that are never committed, such as agentd's own state; ``reply`` is
    called with what is checked out once a commit was made.
    """

    def __init__(
        self,
        root: str,
        closed: Collection[str] = (),
        on_commit: Callable[[GitHead], None] = lambda head: None,
    ) -> None:
        self._on_commit = on_commit
        self._root = os.path.realpath(root)
        self._git = Git(root)
        self._reader = GitRepository(root)
        self._closed = tuple(
            os.path.relpath(path, self._root)
            for path in map(os.path.realpath, closed)
            if path.startswith(self._root.rstrip("/") + "/")
        )
        self._committing = asyncio.Lock()

    def protect(self, places: ProtectedPlaces) -> None:
        """Leave these places out of diffs from now on."""
        self._reader = GitRepository(self._root, places)

    async def read_status(self) -> RepositoryStatus:
        """Return the branch and the changed files."""
        return await self._reader.read_status(GitStatus(), MOST_LISTED)

    async def diff(self, path: str, commit: str, *, staged: bool | None) -> Diff:
        """Return the changes of a commit, or those not committed: all, staged, or unstaged."""
        [named] = await self._find_real_names([path])
        return await self._reader.diff(GitDiff(named or ANYWHERE, commit), staged=staged)

    async def list_hooks(self) -> tuple[str, ...]:
        """List the hooks that a commit with ``run_hooks`` would run."""
        asked = await self._git.run("rev-parse", "--git-path", "hooks", hooks=True)
        if asked.code:
            raise_git_error(asked)
        named = os.fsdecode(asked.output.rstrip(b"\n"))
        folder = named if isabs(named) else join(self._root, named)
        return await asyncio.to_thread(_list_executables, folder)

    async def get_git_folder(self) -> str:
        """Return git's folder, absolute; raises ``NotFound`` without a repository."""
        reply = await self._git.run_checked("rev-parse", "--absolute-git-dir")
        return os.fsdecode(reply.output.rstrip(b"\n"))

    async def get_head(self) -> GitHead:
        """Return the branch and its latest commit."""
        asked = await self._git.run("symbolic-ref", "--quiet", "--short", "HEAD")
        if asked.code not in (0, 1):
            raise_git_error(asked)
        latest = await self._git.run("log", "-z", "-1", _FORMAT, *_QUIET)
        commit = None if latest.code else parse_commits(latest.output)[0]
        return GitHead(asked.output.decode("utf-8", "replace").strip(), commit)

    async def log(self, path: str, limit: int, before: str = "") -> CommitPage:
        """Return commits that touched a path, newest first; ``before`` is a page's cursor."""
        limit = min(max(limit, 1), MOST_COMMITS)
        if not before and not await self._git.has_commits():
            return CommitPage(())
        since = parse_log_cursor(before) if before else LogCursor(await self._resolve_head(), 0)
        # With a path, git skips commits that change nothing there.
        [named] = await self._find_real_names([path])
        where = [check_path(named)] if path or await self._git.get_prefix() else []
        ended = await self._git.run_checked(
            *("log", "-z", f"--max-count={limit + 1}", f"--skip={since.passed}", _FORMAT),
            *(*_QUIET, since.head, "--", *where),
        )
        found = parse_commits(ended.output)
        older = str(LogCursor(since.head, since.passed + limit)) if len(found) > limit else ""
        return CommitPage(found[:limit], older)

    async def commit(self, request: CommitRequest) -> Commit:
        """Commit, one caller after the other; return the new commit.

        Raises ``Conflict`` when there is nothing to commit, conflicts are not solved, another
        git is at work, no author is configured, or a hook refuses. What was chosen then
        stays staged.
        """
        request = validate_commit(request)
        named = await self._find_real_names([normpath(check_path(path)) for path in request.paths])
        chosen = named or [ANYWHERE] * request.all
        async with self._committing:
            prefix = await self._git.get_prefix()
            await self._git.refuse_filters("git commit")
            await self._refuse_conflicts()
            if not chosen:
                await self._refuse_others(prefix)
            changed = await self._stage(chosen, prefix) if chosen else False
            in_part = request.paths or (request.all and prefix)
            if not (changed if in_part else await self._is_staged()):
                raise Conflict("There is nothing to commit", "Send 'paths' or 'all', or stage it.")
            names = [f":(literal){path}" for path in chosen] if request.run_hooks else chosen
            await self._run_commit(request, ("--only", "--", *names) if in_part else ())
            head = await self.get_head()
            assert head.commit
            self._on_commit(head)
            return head.commit

    async def stage(self, paths: Collection[str]) -> None:
        """Stage all that is changed in some files and folders, new and removed files too.

        Other repositories among them are left out; ``Conflict`` if there is nothing else.
        """
        chosen = await self._find_real_names(_check_paths(paths))
        async with self._committing:
            await self._git.refuse_filters("git add")
            await self._stage(chosen, await self._git.get_prefix(), leave_out=True)

    async def unstage(self, paths: Collection[str]) -> None:
        """Take some files and folders out of the next commit; the files stay as they are."""
        chosen = await self._find_real_names(_check_paths(paths))
        async with self._committing:
            await self._git.refuse_filters("git reset")
            if await self._git.has_commits():
                command: tuple[str, ...] = ("reset", "--quiet")
            else:
                command = ("rm", "--cached", "-r", "--quiet", "--ignore-unmatch", "--force")
            ended = await self._git.run(*command, "--", *chosen)
            if ended.code:
                raise_git_error(ended)

    async def _find_real_names(self, paths: list[str]) -> list[str]:
        """Return the real names of paths that a status shows with ``_LOST`` in them."""
        if not any(_LOST in path for path in paths):
            return paths
        listed = await self._git.run_checked(
            *("ls-files", "-z", "--cached", "--others", "--exclude-standard"), limit=_LISTING
        )
        known = {}
        for name in map(os.fsdecode, _split_names(listed)):
            if make_printable(name) == name:
                continue
            steps = name.rstrip("/").split("/")
            for end in range(1, len(steps) + 1):
                path = "/".join(steps[:end])
                known[make_printable(path)] = path
        return [known.get(path, path) for path in paths]

    async def _run_commit(self, request: CommitRequest, only: tuple[str, ...]) -> None:
        ended = await self._git.run(
            *(*_COMMIT, *(() if request.run_hooks else ("--no-verify",)), *only),
            given=request.message.encode(),
            timeout=COMMIT_SECONDS,
            limit=_HOOKS_OUTPUT,
            hooks=request.run_hooks,
            options=_COMMITTING,
        )
        if ended.truncated and ended.code:
            limit = f"{_HOOKS_OUTPUT // 2**20} MiB"
            raise Conflict(f"A hook said more than {limit}: the commit was given up")
        if ended.code:
            _raise_refusal(ended, hooks=request.run_hooks)

    async def _resolve_head(self) -> str:
        asked = await self._git.run_checked("rev-parse", "--verify", "HEAD^{commit}")
        return asked.output.decode().strip()

    async def _is_staged(self) -> bool:
        """Return whether a commit would differ from the one before, or end a merge."""
        asked = await self._git.run("diff", "--cached", "--quiet", "--no-ext-diff")
        if asked.code not in (0, 1):
            raise_git_error(asked)
        merging = await self._git.run("rev-parse", "--verify", "--quiet", "MERGE_HEAD")
        return asked.code == 1 or merging.code == 0

    async def _refuse_conflicts(self) -> None:
        conflicts = await self._list_staged("--diff-filter=U")
        if conflicts:
            names = ", ".join(map(_make_printable, conflicts[:10]))
            raise Conflict("Conflicts are not solved yet", names)

    async def _refuse_others(self, prefix: str) -> None:
        """Refuse if staged files are outside of the workspace, or agentd's own."""
        top, staged = prefix.encode(), await self._list_staged()
        if not all(path.startswith(top) for path in staged):
            raise Conflict("Files outside of the workspace are staged, too", "Send 'paths'.")
        self._refuse_closed([path.removeprefix(top) for path in staged])

    async def _list_staged(self, *options: str) -> list[bytes]:
        """Return staged paths of the whole repository, from its top."""
        ended = await self._git.run_checked(
            *("diff", "--cached", "--name-only", "-z", "--no-ext-diff", "--no-renames", *options),
            limit=_LISTING,
        )
        return _split_names(ended)

    async def _stage(self, chosen: list[str], prefix: str, *, leave_out: bool = False) -> bool:
        """Stage what is changed there, including new and removed files.

        False when nothing is. With ``leave_out``, other repositories may be chosen, too.
        """
        ended = await self._git.run_checked(
            *("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"),
            *("--ignore-submodules=all", "--", *chosen),
            limit=_LISTING,
        )
        top = prefix.encode()
        listed = _split_names(ended)
        # A folder is another repository: git lists no other folders here.
        lines = [line for line in listed if line[-1:] != b"/"]
        others = [line[3:-1].removeprefix(top) for line in listed if line[-1:] == b"/"]
        changed = [line[3:].removeprefix(top) for line in lines]
        self._refuse_closed(changed)
        for path in chosen:
            if path == ANYWHERE or any(_is_in(one, os.fsencode(path)) for one in changed):
                continue
            is_other = any(_is_in(one, os.fsencode(path)) for one in others)
            if not (is_other and leave_out and changed):
                why = ", which is another repository" if is_other else ""
                raise Conflict(f"There is nothing to commit in {make_printable(path)}{why}")
        # Files that are staged as they are stay so: a removed file may be a folder by now.
        left = [path for path, line in zip(changed, lines, strict=True) if line[1:2] != b" "]
        staging = await self._git.run(
            *("update-index", "--add", "--remove", "--replace", "-z", "--stdin"),
            given=b"".join(path + b"\0" for path in left),
        )
        if staging.code:
            raise_git_error(staging)
        return bool(changed)

    def _refuse_closed(self, paths: list[bytes]) -> None:
        for closed in self._closed:
            if any(_is_in(path, os.fsencode(closed)) for path in paths):
                shown = make_printable(closed)
                raise Forbidden(
                    f"{shown} is agentd's own, or holds secrets, and is not committed.",
                    "Name it in .gitignore, or send the paths to commit.",
                )


def _check_paths(paths: Collection[str]) -> list[str]:
    if not paths or len(paths) > MOST_PATHS:
        raise BadRequest(f"Name 1 to {MOST_PATHS:,} paths")
    if not all(path.strip("/.") for path in paths):
        raise BadRequest("A path is empty")
    return [normpath(check_path(path)) for path in paths]


def _is_in(path: bytes, place: bytes) -> bool:
    return place == ANYWHERE.encode() or path == place or path.startswith(place + b"/")


def _split_names(ended: Finished) -> list[bytes]:
    if ended.truncated:
        raise BadRequest("Too many files are changed to commit them at once", "Send 'paths'.")
    return [name for name in ended.output.split(b"\0") if name]


def _list_executables(folder: str) -> tuple[str, ...]:
    return tuple(name for name in HOOKS if os.access(join(folder, name), os.X_OK))


def _make_printable(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def _raise_refusal(ended: Finished, *, hooks: bool) -> None:
    """Raise the reason why there is no commit."""
    message = (ended.errors + ended.output).decode("utf-8", "replace").strip()
    if any(sign in message for sign in _NO_IDENTITY):
        raise Conflict(
            "git does not know who commits here",
            "Set it once: git config --global user.name … and user.email …",
        )
    if "during a" in message and "partial commit" in message:
        raise Conflict("In the middle of a merge, all of it is committed at once", message[:_SAID])
    if ".lock': File exists" in message:
        raise_git_error(ended)
    if (
        "nothing to commit" in message
        or "nothing added" in message
        or "no changes added" in message
    ):
        raise Conflict("There is nothing to commit")
    if ended.code == 1 and hooks:
        raise Conflict("A hook of this repository refused the commit", message[:_SAID])
    raise_git_error(ended)
