"""The git repository that the workspace is in, read through the real git.

A repository may come from a stranger, and its own configuration can name programs for git to
run. So each call switches off what can be switched off (monitor, hooks, pager, external diffs,
text conversions, signatures, prompts, fetching what is missing), and an operation for which
something cannot be (content filters) is refused. The person's own and the system's
configuration are trusted: they say which files to ignore and which repositories are safe.

Values from outside come after ``--``, or are checked to be no option.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import NoReturn

from agentd.agent.results import Change, Commit, Commits, Diff, Status
from agentd.agent.tools import ANYWHERE, MOST_COMMITS, GitDiff, GitLog, GitStatus
from agentd.errors import BadRequest, Forbidden, NotFound, Unavailable
from agentd.outside import process
from agentd.outside.process import Finished

MOST_CHANGES = 500
LONGEST_DIFF = 128 * 1024
"""Bytes of a diff that are read out."""

_TIMEOUT = 20.0
_LIMIT = 2**20

_GIT = (
    *("git", "--no-pager", "--literal-pathspecs"),
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "core.quotePath=false", "-c", "log.showSignature=false"),
    *("-c", "submodule.recurse=false", "-c", "safe.bareRepository=explicit"),
    # Else a diff takes the index's lock and writes it, whatever GIT_OPTIONAL_LOCKS says.
    *("-c", "diff.autoRefreshIndex=false"),
)
_PLAIN = (
    *("--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all"),
    # Paths as the workspace has them, also where it is only a part of the repository.
    "--relative",
)

_SETTINGS = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "GIT_SSH_COMMAND": "/bin/false",
    # A repository that lacks objects would fetch them, over any transport that it names.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "LC_ALL": "C.UTF-8",
}

_NO_REPOSITORY = ("not a git repository", "must be run in a work tree", "use bare repository")
_COMMIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./~^-]{0,199}")
# A file that was only touched: without refreshing the index git tells its name and nothing more.
_UNCHANGED = re.compile(r"^diff --git .*\n(?=diff --git |\Z)", re.MULTILINE)
_FILTER = re.compile(r"filter\..*\.(clean|smudge|process)")


class GitRepository:
    """``Repository`` for the folder ``root``; of a larger repository, only that folder's part."""

    def __init__(self, root: str) -> None:
        self._root = root

    async def status(self, wanted: GitStatus) -> Status:
        """The branch and the changed files; what submodules hold is not looked at."""
        await self._refuse_filters(wanted.name)
        ended = await self._git(
            *("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal"),
            *("--ignore-submodules=all", "--", ANYWHERE),
        )
        inside = await self._git("rev-parse", "--show-prefix")
        prefix = inside.output.decode("utf-8", "replace").rstrip("\n")
        return _status(ended.output, prefix, cut=ended.cut)

    async def log(self, wanted: GitLog) -> Commits:
        """The latest commits that touched a place; none in a repository without commits."""
        limit = min(max(wanted.limit, 1), MOST_COMMITS)
        if not await self._has_commits():
            return Commits(())
        ended = await self._git(
            *("log", "-z", f"--max-count={limit + 1}", "--format=%h%x00%aI%x00%an%x00%s"),
            *("--no-show-signature", "--no-notes", "--no-decorate", "--no-patch", "--no-color"),
            *("--", _place(wanted.path)),
        )
        fields = ended.output.decode("utf-8", "replace").split("\0")
        commits = [Commit(*entry) for entry in zip(*[iter(fields)] * 4, strict=False)]
        return Commits(tuple(commits[:limit]), cut=ended.cut or len(commits) > limit)

    async def diff(self, wanted: GitDiff) -> Diff:
        """What is not committed yet, staged or not; or what one commit changed."""
        place = ("--", _place(wanted.path))
        if wanted.commit:
            if not _COMMIT.fullmatch(wanted.commit) or ".." in wanted.commit:
                raise BadRequest(f"{wanted.commit} is not the name of a commit.")
            commit = wanted.commit + "^{commit}"
            ended = await self._git(
                "show", "--format=", *_PLAIN, commit, *place, limit=LONGEST_DIFF
            )
        else:
            await self._refuse_filters(wanted.name)
            since = ("HEAD",) if await self._has_commits() else ("--cached",)
            ended = await self._git("diff", *_PLAIN, *since, *place, limit=LONGEST_DIFF)
        text = _UNCHANGED.sub("", ended.output.decode("utf-8", "replace"))
        return Diff(text, cut=ended.cut)

    async def _has_commits(self) -> bool:
        asked = await self._run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if asked.code not in (0, 1):
            _fail(asked)
        return asked.code == 0

    async def _refuse_filters(self, operation: str) -> None:
        """Comparing files with the index would run the filters that a repository names."""
        listed = await self._git("config", "--list", "--show-scope", "--name-only", "-z")
        if listed.cut:
            raise Forbidden("This repository's git configuration is too large to be checked.")
        for scope, name in _pairs(listed.output.decode("utf-8", "replace").split("\0")):
            if scope in ("local", "worktree") and _FILTER.fullmatch(name):
                raise Forbidden(
                    f"{operation} is refused here: this repository's own git configuration sets"
                    f" {name}, a program that git would run. If you trust it, set it in your"
                    " personal git configuration (git config --global) instead."
                )

    async def _git(self, *arguments: str, limit: int = _LIMIT) -> Finished:
        """Run git to a good end, or raise what its complaint means."""
        ended = await self._run(*arguments, limit=limit)
        if ended.late:
            raise Unavailable(f"git {arguments[0]} did not finish within {_TIMEOUT:.0f} seconds.")
        if ended.code != 0 and not ended.cut:
            _fail(ended)
        return ended

    async def _run(self, *arguments: str, limit: int = _LIMIT) -> Finished:
        return await process.run(
            (*_GIT, *arguments),
            folder=self._root,
            env=process.environment(**_SETTINGS),
            timeout=_TIMEOUT,
            limit=limit,
        )


def _place(path: str) -> str:
    """A path for git, which itself refuses what lies outside the repository."""
    parts = path.split("/")
    if "\0" in path or path.startswith("/") or ".." in parts:
        raise Forbidden("Paths start at the workspace's root, without '..'.")
    return path or ANYWHERE


def _fail(ended: Finished) -> NoReturn:
    lines = ended.errors.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
    said = lines[0].removeprefix("fatal: ")[:300]
    if any(sign in said for sign in _NO_REPOSITORY):
        raise NotFound("The workspace is not in a git repository.")
    if "dubious ownership" in said:
        raise Forbidden(
            "This git repository belongs to another user, so git does not trust it. If you do,"
            " add its folder to safe.directory in your personal git configuration."
        )
    if "bad revision" in said or "unknown revision" in said or "Needed a single" in said:
        raise NotFound("There is no such commit in this repository.")
    raise Unavailable(f"git could not do it: {said.rstrip('.')}.")


def _pairs(fields: list[str]) -> Iterator[tuple[str, str]]:
    return zip(islice(fields, 0, None, 2), islice(fields, 1, None, 2), strict=False)


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
