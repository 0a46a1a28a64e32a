"""The git repository that the workspace is in, read through the real git (``git``)."""

import os
import re
from typing import Literal

from agentd.agent.protected import ProtectedPlaces
from agentd.agent.results import Change, Commit, Commits, Diff, Status
from agentd.agent.tools import ANYWHERE, MOST_COMMITS, GitDiff, GitLog, GitStatus
from agentd.clock import iso_of_unix
from agentd.errors import BadRequest
from agentd.outside.git import Git, commit_named, fail, place
from agentd.outside.tree import shown

MOST_CHANGES = 500
LONGEST_DIFF = 128 * 1024
"""Bytes of a diff that are read out."""

_MOST_NAMES = 4 * 2**20
"""Bytes of the names of changed files."""
_MOST_HIDDEN = 500

_PLAIN = (
    *("--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all"),
    # Paths as the workspace has them, also where it is only a part of the repository.
    "--relative",
)
# A file that was only touched: without refreshing the index git tells its name and nothing more.
_UNCHANGED = re.compile(r"^diff --git .*\n(?=diff --git |\Z)", re.MULTILINE)


class GitRepository:
    """``Repository`` for the folder ``root``; of a larger repository, only that folder's part.

    What is ``protected`` from reading is left out of differences, and its name told instead.
    """

    def __init__(self, root: str, protected: ProtectedPlaces | None = None) -> None:
        self._root = os.path.realpath(root)
        self._git = Git(root)
        self._protected = protected

    async def status(self, wanted: GitStatus) -> Status:
        """The branch and the changed files; what submodules hold is not looked at."""
        await self._git.refuse_filters(wanted.name)
        prefix = await self._git.prefix()
        status = await self._status("normal", prefix)
        if any(not change.path for change in status.changes):
            # Nothing of the workspace is tracked: git names the folder itself. Tell its files.
            status = await self._status("all", prefix)
        return status

    async def log(self, wanted: GitLog) -> Commits:
        """The latest commits that touched a place; none in a repository without commits."""
        limit = min(max(wanted.limit, 1), MOST_COMMITS)
        if not await self._git.has_commits():
            return Commits(())
        ended = await self._git.told(
            *("log", "-z", f"--max-count={limit + 1}", "--format=%h%x00%at%x00%an%x00%s"),
            *("--no-show-signature", "--no-notes", "--no-decorate", "--no-patch", "--no-color"),
            *("--", place(wanted.path)),
        )
        commits = commits_in(ended.output)
        return Commits(commits[:limit], cut=ended.cut or len(commits) > limit)

    async def diff(self, wanted: GitDiff, *, staged: bool | None = None) -> Diff:
        """What is not committed yet, or what one commit changed.

        Of the former all, or what is ``staged``, or what is not.
        """
        path = place(wanted.path)
        if wanted.commit:
            asked: tuple[str, ...] = ("show", "--format=", *_PLAIN, commit_named(wanted.commit))
        else:
            await self._git.refuse_filters(wanted.name)
            asked = ("diff", *_PLAIN, *await self._since(staged))
        hidden = await self._hidden(asked, path)
        where = (path, *(f":(exclude,literal){one}" for one in hidden))
        if hidden:
            where = (f":(literal){path}", *where[1:])
        ended = await self._git.run(
            *(*asked, "--", *where),
            limit=LONGEST_DIFF,
            options=("--no-literal-pathspecs",) if hidden else (),
        )
        if ended.code and not ended.cut:
            fail(ended)
        text = _UNCHANGED.sub("", ended.output.decode("utf-8", "replace"))
        if hidden:
            text += f"(left out, since it is protected: {shown(', '.join(hidden))})\n"
        return Diff(text, cut=ended.cut)

    async def _hidden(self, asked: tuple[str, ...], path: str) -> list[str]:
        """The protected files among those that a difference tells of."""
        if self._protected is None:
            return []
        names = await self._git.told(
            *(*asked, "--name-only", "-z", "--no-renames", "--", path), limit=_MOST_NAMES
        )
        listed = names.output.decode("utf-8", "surrogateescape").split("\0")
        absolute = ((name, os.path.join(self._root, name)) for name in filter(None, listed))
        found = [name for name, one in absolute if self._protected.reading(one, self._root)]
        if names.cut or len(found) > _MOST_HIDDEN:
            raise BadRequest("Too many files are changed to be shown at once: name a path.")
        return found

    async def _status(self, untracked: Literal["normal", "all"], prefix: str) -> Status:
        ended = await self._git.told(
            *("status", "--porcelain=v2", "--branch", "-z", f"--untracked-files={untracked}"),
            *("--ignore-submodules=all", "--", ANYWHERE),
        )
        return _status(ended.output, prefix, cut=ended.cut)

    async def _since(self, staged: bool | None) -> tuple[str, ...]:
        has_commits = await self._git.has_commits()  # outside a repository git would compare files
        if staged is None:
            return ("HEAD",) if has_commits else ("--cached",)
        return ("--cached",) if staged else ()


def commits_in(output: bytes) -> tuple[Commit, ...]:
    """Read commits as ``%h%x00%at%x00%an%x00%s`` with ``-z`` writes them.

    Times in seconds, since git ends at some that ISO 8601 cannot write.
    """
    fields = output.decode("utf-8", "replace").removesuffix("\0").split("\0")
    return tuple(
        Commit(commit, iso_of_unix(int(seconds)), author, subject)
        for commit, seconds, author, subject in zip(*[iter(fields)] * 4, strict=False)
    )


def _status(output: bytes, prefix: str, *, cut: bool) -> Status:
    """Read ``git status --porcelain=v2 --branch -z``; ``prefix`` is cut off each path."""
    fields = iter(output.decode("utf-8", "replace").split("\0"))
    branch: dict[str, str] = {}
    changes: list[Change] = []
    for field in fields:
        match field[:2]:
            case "# ":
                key, _, value = field[2:].partition(" ")
                branch[key] = value
            case "? ":
                changes.append(Change("??", field[2:].removeprefix(prefix)))
            case "1 ":
                changes.append(Change(field[2:4], field.split(" ", 8)[-1].removeprefix(prefix)))
            case "2 ":
                path = field.split(" ", 9)[-1].removeprefix(prefix)
                changes.append(Change(field[2:4], path, next(fields, "").removeprefix(prefix)))
            case "u ":
                changes.append(Change(field[2:4], field.split(" ", 10)[-1].removeprefix(prefix)))
    ahead, _, behind = branch.get("branch.ab", "+0 -0").partition(" ")
    head = branch.get("branch.head", "")
    return Status(
        "" if head == "(detached)" else head,
        tuple(changes[:MOST_CHANGES]),
        upstream=branch.get("branch.upstream", ""),
        ahead=abs(int(ahead)),
        behind=abs(int(behind)),
        cut=cut or len(changes) > MOST_CHANGES,
    )
