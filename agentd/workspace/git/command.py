"""Running the real git on a repository that may be a stranger's.

Its own configuration can name programs for git to run. So each call switches off what can be
switched off (monitor, hooks, pager, external diffs, text conversions, signatures, prompts,
fetching what is missing), and an operation for which something cannot be (content filters) is
refused. The person's own and the system's configuration are trusted: they say which files to
ignore and which repositories are safe.

Values from outside come after ``--``, or are checked to be no option.
"""

import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NoReturn

from agentd.agent.tools.model import ANYWHERE
from agentd.core.errors import BadRequest, Conflict, Forbidden, NotFound, Unavailable
from agentd.system import process
from agentd.system.folder import make_printable
from agentd.system.process import Finished
from agentd.system.protected_paths import is_beneath

TIMEOUT = 20.0
"""Seconds that a call may take, unless its caller says otherwise."""
LIMIT = 2**20
"""Bytes that a call may say."""
GRACE = 5.0
"""Seconds that git has, once asked to end, to remove its locks (``index.lock``); it needs some
milliseconds. What a hook left in the background has as long, once git ended."""

_GIT = (
    *("git", "--no-pager"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.quotePath=false", "-c", "log.showSignature=false"),
    *("-c", "submodule.recurse=false", "-c", "safe.bareRepository=explicit"),
    # Else a diff takes the index's lock and writes it, whatever GIT_OPTIONAL_LOCKS says.
    *("-c", "diff.autoRefreshIndex=false"),
)
_NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
_LITERAL = ("--literal-pathspecs",)
"""Not where hooks run, which would inherit it: their own patterns would match nothing."""

_SETTINGS = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "GIT_EDITOR": "/bin/false",
    "LC_ALL": "C.UTF-8",
}
_NO_NETWORK = {
    "GIT_SSH_COMMAND": "/bin/false",
    # A repository that lacks objects would fetch them, over any transport that it names.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
}
"""Not where hooks run, either: they may fetch what they check with."""

_NO_REPOSITORY = ("not a git repository", "must be run in a work tree", "use bare repository")
_NO_COMMIT = ("bad revision", "unknown revision", "Needed a single", "bad object")
_COMMIT = re.compile(r"\w[\w./~^!#$%&'+,;=@()-]{0,199}")
"""Of any language, as branches are named; ``@{`` and ``:`` would name something else."""
_FILTER = re.compile(r"filter\..*\.(clean|smudge|process)")
_MERGE_DRIVER = re.compile(r"merge\..*\.driver")
_NO_VARIABLES: Mapping[str, str] = {}


class Git:
    """The real git in the folder ``root``."""

    def __init__(self, root: str) -> None:
        self._root = root

    async def run_checked(
        self,
        *arguments: str,
        limit: int = LIMIT,
        timeout: float = TIMEOUT,
        variables: Mapping[str, str] = _NO_VARIABLES,
        options: tuple[str, ...] = (),
    ) -> Finished:
        """Run git; raise the matching error if it fails."""
        ended = await self.run(
            *arguments, limit=limit, timeout=timeout, variables=variables, options=options
        )
        if ended.code != 0 and not ended.truncated:
            raise_git_error(ended)
        return ended

    async def run(
        self,
        *arguments: str,
        limit: int = LIMIT,
        given: bytes = b"",
        timeout: float = TIMEOUT,
        hooks: bool = False,
        options: tuple[str, ...] = (),
        variables: Mapping[str, str] = _NO_VARIABLES,
    ) -> Finished:
        """Run git, with ``options`` of git itself before the command, and some ``variables``.

        Paths are names, unless ``hooks`` of the repository may run: then they are patterns.
        Raises ``Unavailable`` when it does not end within ``timeout`` seconds.
        """
        settings = _SETTINGS if hooks else {**_SETTINGS, **_NO_NETWORK}
        ended = await process.run(
            (*_GIT, *(() if hooks else (*_LITERAL, *_NO_HOOKS)), *options, *arguments),
            folder=self._root,
            env=process.build_environment(**settings, **variables),
            given=given,
            timeout=timeout,
            limit=limit,
            umask=process.DEFAULT_UMASK,
            grace=GRACE,
        )
        if ended.late:
            raise Unavailable(f"git {arguments[0]} did not finish within {timeout:.0f} seconds.")
        return ended

    async def has_commits(self) -> bool:
        """Return whether there is a commit."""
        asked = await self.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if asked.code not in (0, 1):
            raise_git_error(asked)
        return asked.code == 0

    async def get_prefix(self) -> str:
        """Return the folder's path in the repository: empty at its top, else ending in ``/``."""
        inside = await self.run_checked("rev-parse", "--show-prefix")
        return inside.output.decode("utf-8", "replace").rstrip("\n")

    async def refuse_filters(self, operation: str, *, merging: bool = False) -> None:
        """Refuse an operation that the repository's own settings would change.

        Comparing files with the index would run the filters that it names, or look at the files
        of another folder; ``merging`` would run its merge drivers.
        """
        listed = await self.run_checked("config", "--list", "--show-scope", "--name-only", "-z")
        if listed.truncated:
            raise Forbidden("This repository's git configuration is too large to be checked.")
        for scope, name in _iter_pairs(listed.output.decode("utf-8", "replace").split("\0")):
            program = _FILTER.fullmatch(name) or (merging and _MERGE_DRIVER.fullmatch(name))
            if scope in ("local", "worktree") and program:
                raise Forbidden(
                    f"{operation} is refused here: this repository's own git configuration sets"
                    f" {name}, a program that git would run. If you trust it, set it in your"
                    " personal git configuration (git config --global) instead."
                )
            if scope in ("local", "worktree") and name == "core.worktree":
                await self._refuse_other_worktree(operation)

    async def _refuse_other_worktree(self, operation: str) -> None:
        """Refuse a work tree elsewhere, whose files would look like this folder's."""
        asked = await self.run_checked("rev-parse", "--show-toplevel")
        top = os.path.realpath(os.fsdecode(asked.output.rstrip(b"\n")))
        if not is_beneath(os.path.realpath(self._root), top):
            raise Forbidden(
                f"{operation} is refused here: this repository's own git configuration says that"
                f" its files are in another folder ({make_printable(top)}), by core.worktree."
            )


def check_path(path: str) -> str:
    """Return a path for git; raise ``Forbidden`` if it leads out of the workspace."""
    parts = path.split("/")
    if "\0" in path or path.startswith("/") or ".." in parts:
        raise Forbidden("Paths start at the workspace's root, without '..'.")
    return path or ANYWHERE


def build_commit_argument(name: str) -> str:
    """Return the argument for one commit, safe to pass to git; raises ``BadRequest``."""
    if not _COMMIT.fullmatch(name) or ".." in name:
        raise BadRequest(f"{name} is not the name of a commit.")
    return name + "^{commit}"


def raise_git_error(ended: Finished) -> NoReturn:
    """Raise the error that matches git's message."""
    lines = ended.errors.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
    message = lines[0].removeprefix("fatal: ")[:300]
    if any(sign in message for sign in _NO_REPOSITORY):
        raise NotFound(
            "The workspace is not in a git repository.",
            "Run git init in it, or set workspace to a folder of a repository.",
        )
    if "dubious ownership" in message:
        raise Forbidden(
            "This git repository belongs to another user, so git does not trust it. If you do,"
            " add its folder to safe.directory in your personal git configuration."
        )
    if any(sign in message for sign in _NO_COMMIT):
        raise NotFound("There is no such commit in this repository.")
    if ".lock': File exists" in message:
        raise Conflict(
            "Another git is at work in this repository.",
            f"{message} If none is, a killed one left that file: remove it.",
        )
    raise Unavailable(f"git could not do it: {message.rstrip('.')}.")


def _iter_pairs(fields: list[str]) -> Iterator[tuple[str, str]]:
    return zip(islice(fields, 0, None, 2), islice(fields, 1, None, 2), strict=False)
