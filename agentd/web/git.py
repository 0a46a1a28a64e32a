"""The working repository over HTTP: status, diff, log and commit.

Source: the remote-control specification, section 4, 'Extended surface'; paths below the
specification's prefix are ours.
"""

from typing import Annotated, Protocol

from msgspec import Meta, Struct

from agentd.agent.results import Change, Commit, Diff, Status
from agentd.agent.tools import MOST_COMMITS
from agentd.errors import BadRequest
from agentd.web.call import Answer, Call
from agentd.web.place_views import CommitView, commit_view
from agentd.workspace.commits import LONGEST_MESSAGE, MOST_PATHS, Page, Wish

_PAGE = 20
_UNSOLVED = frozenset(("DD", "AU", "UD", "UA", "DU", "AA", "UU"))
_WORDS = {
    "M": "modified",
    "A": "added",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "T": "another type",
}
_Path = Annotated[str, Meta(min_length=1, max_length=4096)]


class ChangedFile(Struct, frozen=True):
    """A file and how it differs; ``before`` is its former path, when it was renamed or copied."""

    path: str
    change: str
    before: str = ""


class GitStatusView(Struct, frozen=True):
    """How the working repository stands. Paths are relative to the workspace.

    A file may be both staged and changed again since. ``hooks`` are the repository's programs that
    a commit with ``runHooks`` would run. ``cut`` when there are more changes than are told.
    """

    branch: str
    """Empty when none is checked out."""
    upstream: str
    ahead: int
    behind: int
    staged: list[ChangedFile]
    changed: list[ChangedFile]
    untracked: list[str]
    conflicts: list[str]
    hooks: list[str]
    cut: bool


class DiffView(Struct, frozen=True):
    """A unified diff; ``cut`` when it is longer than is told."""

    diff: str
    cut: bool


class LogView(Struct, frozen=True):
    """Commits, newest first; send ``next`` as ``before`` for older ones, if it is not empty."""

    commits: list[CommitView]
    next: str


class MakeCommit(Struct, frozen=True, rename="camel"):
    """What to commit: ``paths``, or ``all`` that is changed, or, without either, what is staged."""

    message: Annotated[str, Meta(min_length=1, max_length=LONGEST_MESSAGE)]
    paths: Annotated[list[_Path], Meta(max_length=MOST_PATHS)] = []
    all: bool = False
    run_hooks: bool = False
    """Run the repository's own hooks; they are programs that whoever wrote it chose."""


class Repository(Protocol):
    """The working repository (``outside.working_copy.WorkingCopy``)."""

    async def status(self) -> Status:
        """The branch and the changed files."""
        ...

    async def hooks(self) -> tuple[str, ...]:
        """Which programs a commit would run that is told to."""
        ...

    async def diff(self, path: str, commit: str, *, staged: bool | None) -> Diff:
        """What one commit changed, or what is not committed."""
        ...

    async def log(self, path: str, limit: int, before: str) -> Page:
        """Commits that touched a place."""
        ...

    async def commit(self, wish: Wish) -> Commit:
        """The commit that was made."""
        ...


class GitDesk:
    """The endpoints below ``/api/git``."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    async def git_status(self, _: Call) -> Answer:
        """Branch, staged, changed, untracked and conflicting files."""
        status = await self._repository.status()
        return Answer(_status(status, await self._repository.hooks()))

    async def git_diff(self, call: Call) -> Answer:
        """A unified diff."""
        staged = call.query("staged")
        if staged not in (None, "true", "false"):
            raise BadRequest("staged is true or false")
        found = await self._repository.diff(
            call.query("path") or "",
            call.query("commit") or "",
            staged=None if staged is None else staged == "true",
        )
        return Answer(DiffView(found.text, found.cut))

    async def git_log(self, call: Call) -> Answer:
        """A page of commits."""
        limit = call.number("limit", 1, MOST_COMMITS) or _PAGE
        page = await self._repository.log(
            call.query("path") or "", limit, call.query("before") or ""
        )
        return Answer(LogView([commit_view(one) for one in page.commits], page.next))

    async def git_commit(self, call: Call) -> Answer:
        """Commit; answers with the commit that was made."""
        wish = call.json(MakeCommit)
        made = await self._repository.commit(
            Wish(wish.message, tuple(wish.paths), wish.all, wish.run_hooks)
        )
        return Answer(commit_view(made), 201)


def _status(status: Status, hooks: tuple[str, ...]) -> GitStatusView:
    tracked = [one for one in status.changes if one.code not in _UNSOLVED and one.code != "??"]
    return GitStatusView(
        branch=status.branch,
        upstream=status.upstream,
        ahead=status.ahead,
        behind=status.behind,
        staged=[_file(one, 0) for one in tracked if one.code[0] != "."],
        changed=[_file(one, 1) for one in tracked if one.code[1] != "."],
        untracked=[one.path for one in status.changes if one.code == "??"],
        conflicts=[one.path for one in status.changes if one.code in _UNSOLVED],
        hooks=list(hooks),
        cut=status.cut,
    )


def _file(change: Change, side: int) -> ChangedFile:
    letter = change.code[side]
    return ChangedFile(
        change.path, _WORDS.get(letter, letter), change.before if letter in "RC" else ""
    )
