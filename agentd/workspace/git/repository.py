"""The git repository that the workspace is in, read through the real git (``git``)."""

import os
import re
from collections.abc import Mapping
from typing import Literal

from agentd.agent.tools.model import ANYWHERE, MOST_COMMITS, GitDiff, GitLog, GitStatus
from agentd.agent.tools.results import Commit, Commits, Diff, GitChange, RepositoryStatus
from agentd.core.clock import format_unix
from agentd.core.errors import BadRequest
from agentd.system.folder import make_printable
from agentd.system.protected_paths import ProtectedPlaces
from agentd.workspace.git.command import Git, build_commit_argument, check_path, raise_git_error

MOST_CHANGES = 500
"""Changed files that a model is told."""
LONGEST_DIFF = 128 * 1024
"""Bytes of a diff that are read out."""

_MOST_NAMES = 4 * 2**20
"""Bytes of the names of changed files."""
_MOST_HIDDEN = 500
_NO_VARIABLES: Mapping[str, str] = {}

_PLAIN = (
    *("--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all"),
    # Paths as the workspace has them, also where it is only a part of the repository.
    "--relative",
    # Whatever diff.noprefix and diff.mnemonicPrefix say: programs read this.
    *("--src-prefix=a/", "--dst-prefix=b/"),
)
# A file that was only touched: without refreshing the index git reports just its name.
_UNCHANGED = re.compile(r"^diff --git .*\n(?=diff --git |\Z)", re.MULTILINE)


class GitRepository:
    """``RepositoryReader`` for the folder ``root``, also as a part of a larger repository.

    What is ``protected`` from reading is left out of diffs, and only its name is shown.
    """

    def __init__(self, root: str, protected: ProtectedPlaces | None = None) -> None:
        self._root = os.path.realpath(root)
        self._git = Git(root)
        self._protected = protected

    async def read_status(self, wanted: GitStatus, most: int = MOST_CHANGES) -> RepositoryStatus:
        """Return the branch and the changed files, at most so many, without those of submodules."""
        await self._git.refuse_filters(wanted.name)
        prefix = await self._git.get_prefix()
        status = await self._read_status("normal", prefix, most)
        if any(not change.path for change in status.changes):
            # Nothing in the workspace is tracked: git names only the folder, so list its files.
            status = await self._read_status("all", prefix, most)
        return status

    async def log(self, wanted: GitLog) -> Commits:
        """Return the latest commits that touched a path; none in a new repository."""
        limit = min(max(wanted.limit, 1), MOST_COMMITS)
        if not await self._git.has_commits():
            return Commits(())
        ended = await self._git.run_checked(
            *("log", "-z", f"--max-count={limit + 1}", "--format=%h%x00%at%x00%an%x00%s"),
            *("--no-show-signature", "--no-notes", "--no-decorate", "--no-patch", "--no-color"),
            *("--encoding=UTF-8", "--", check_path(wanted.path)),
        )
        commits = parse_commits(ended.output)
        return Commits(commits[:limit], truncated=ended.truncated or len(commits) > limit)

    async def diff(self, wanted: GitDiff, *, staged: bool | None = None) -> Diff:
        """Return the uncommitted changes, or those of one commit.

        Of the former all, or what is ``staged``, or what is not.
        """
        path = check_path(wanted.path)
        if wanted.commit:
            asked: tuple[str, ...] = (
                "show",
                "--format=",
                # Else git shows only what a merge has of neither side, and that in another format.
                "--diff-merges=first-parent",
                *_PLAIN,
                build_commit_argument(wanted.commit),
            )
        else:
            await self._git.refuse_filters(wanted.name)
            asked = ("diff", *_PLAIN, *await self._choose_diff_base(staged))
        return await self._diff(asked, path)

    async def diff_since(self, commit: str, path: str, index: str) -> Diff:
        """Return what differs from a commit: later commits, and files that are not committed.

        ``index`` is the path of a copy of the index, in which new files are noted as to be added.
        """
        await self._git.refuse_filters("git diff")
        variables = {"GIT_INDEX_FILE": index}
        await self._git.run_checked(
            *("add", "--intent-to-add", "--ignore-errors", "--", ANYWHERE), variables=variables
        )
        asked = ("diff", *_PLAIN, build_commit_argument(commit))
        return await self._diff(asked, check_path(path), variables)

    async def _diff(
        self, asked: tuple[str, ...], path: str, variables: Mapping[str, str] = _NO_VARIABLES
    ) -> Diff:
        hidden = await self._list_hidden(asked, path, variables)
        where = (path, *(f":(exclude,literal){one}" for one in hidden))
        if hidden:
            where = (f":(literal){path}", *where[1:])
        ended = await self._git.run(
            *(*asked, "--", *where),
            limit=LONGEST_DIFF,
            options=("--no-literal-pathspecs",) if hidden else (),
            variables=variables,
        )
        if ended.code and not ended.truncated:
            raise_git_error(ended)
        text = _UNCHANGED.sub("", ended.output.decode("utf-8", "replace"))
        if hidden:
            text += f"(left out, since it is protected: {make_printable(', '.join(hidden))})\n"
        return Diff(text, truncated=ended.truncated)

    async def _list_hidden(
        self, asked: tuple[str, ...], path: str, variables: Mapping[str, str]
    ) -> list[str]:
        """List the protected files in a diff."""
        if self._protected is None:
            return []
        names = await self._git.run_checked(
            *(*asked, "--name-only", "-z", "--no-renames", "--", path),
            limit=_MOST_NAMES,
            variables=variables,
        )
        listed = names.output.decode("utf-8", "surrogateescape").split("\0")
        absolute = ((name, os.path.join(self._root, name)) for name in filter(None, listed))
        found = [name for name, one in absolute if self._protected.check_reading(one, self._root)]
        if names.truncated or len(found) > _MOST_HIDDEN:
            raise BadRequest("Too many files are changed to be shown at once: name a path.")
        return found

    async def _read_status(
        self, untracked: Literal["normal", "all"], prefix: str, most: int
    ) -> RepositoryStatus:
        ended = await self._git.run_checked(
            *("status", "--porcelain=v2", "--branch", "-z", f"--untracked-files={untracked}"),
            *("--ignore-submodules=all", "--", ANYWHERE),
            limit=_MOST_NAMES,
        )
        return _parse_status(ended.output, prefix, most, truncated=ended.truncated)

    async def _choose_diff_base(self, staged: bool | None) -> tuple[str, ...]:
        has_commits = await self._git.has_commits()  # outside a repository git would compare files
        if staged is None:
            return ("HEAD",) if has_commits else ("--cached",)
        return ("--cached",) if staged else ()


def parse_commits(output: bytes) -> tuple[Commit, ...]:
    """Read commits as ``%h%x00%at%x00%an%x00%s`` with ``-z`` writes them.

    Times in seconds, since git ends at some that ISO 8601 cannot write.
    """
    fields = output.decode("utf-8", "replace").removesuffix("\0").split("\0")
    return tuple(
        Commit(commit, format_unix(int(seconds)), author, subject)
        for commit, seconds, author, subject in zip(*[iter(fields)] * 4, strict=False)
    )


def _parse_status(output: bytes, prefix: str, most: int, *, truncated: bool) -> RepositoryStatus:
    """Read ``git status --porcelain=v2 --branch -z``; ``prefix`` is cut off each path.

    Of what is ``truncated``, the last path may not be whole, and is left out.
    """
    whole = output[: output.rfind(b"\0") + 1] if truncated else output
    fields = iter(whole.decode("utf-8", "replace").split("\0"))
    branch: dict[str, str] = {}
    changes: list[GitChange] = []
    for field in fields:
        match field[:2]:
            case "# ":
                key, _, value = field[2:].partition(" ")
                branch[key] = value
            case "? ":
                changes.append(GitChange("??", field[2:].removeprefix(prefix)))
            case "1 ":
                changes.append(GitChange(field[2:4], field.split(" ", 8)[-1].removeprefix(prefix)))
            case "2 ":
                path, before = field.split(" ", 9)[-1].removeprefix(prefix), next(fields, "")
                if before:
                    changes.append(GitChange(field[2:4], path, before.removeprefix(prefix)))
            case "u ":
                changes.append(GitChange(field[2:4], field.split(" ", 10)[-1].removeprefix(prefix)))
    ahead, _, behind = branch.get("branch.ab", "+0 -0").partition(" ")
    head = branch.get("branch.head", "")
    return RepositoryStatus(
        "" if head == "(detached)" else head,
        tuple(changes[:most]),
        upstream=branch.get("branch.upstream", ""),
        ahead=abs(int(ahead)),
        behind=abs(int(behind)),
        truncated=truncated or len(changes) > most,
    )
