"""The working repository over HTTP: status, diff, log, staging and commit.

Source: the remote-control specification, section 4, 'Extended surface'; paths below the
specification's prefix are ours.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from agentd.agent.tools.model import MOST_COMMITS
from agentd.agent.tools.results import Commit, Diff, GitChange, RepositoryStatus
from agentd.core.errors import BadRequest, Conflict, Forbidden, NotFound, Unavailable
from agentd.core.ids import MAX_ID
from agentd.http.access import RouteGroup
from agentd.http.parameters import make_choice_parameter, make_integer_parameter
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route
from agentd.workspace.git.commits import LONGEST_MESSAGE, MOST_PATHS, CommitPage, CommitRequest
from agentd.workspace.views import CommitView, make_commit_view

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
    """The status of the working repository. Paths are relative to the workspace.

    A file may be both staged and changed again since. ``hooks`` are the repository's programs that
    a commit with ``runHooks`` would run. ``truncated`` when there are more changes than are listed.
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
    truncated: bool


class DiffView(Struct, frozen=True):
    """A unified diff; ``truncated`` when it is longer than is returned."""

    diff: str
    truncated: bool


class LogView(Struct, frozen=True):
    """Commits, newest first; send ``next`` as ``before`` for older ones, if it is not empty."""

    commits: list[CommitView]
    next: str


class MakeCommit(Struct, frozen=True, rename="camel"):
    """The files to commit: ``paths``, or ``all`` changed ones, or by default the staged ones."""

    message: Annotated[str, Meta(min_length=1, max_length=LONGEST_MESSAGE)]
    paths: Annotated[list[_Path], Meta(max_length=MOST_PATHS)] = []
    all: bool = False
    run_hooks: bool = False
    """Run the repository's own hooks; they are programs chosen by the repository's authors."""


class StagePaths(Struct, frozen=True):
    """Files and folders of the workspace; of a renamed file, both its paths."""

    paths: Annotated[list[_Path], Meta(min_length=1, max_length=MOST_PATHS)]


class WorkingRepository(Protocol):
    """The working repository (``workspace.git.working_copy.WorkingCopy``)."""

    async def read_status(self) -> RepositoryStatus:
        """Return the branch and the changed files."""
        ...

    async def list_hooks(self) -> tuple[str, ...]:
        """List the hooks that a commit with ``run_hooks`` would run."""
        ...

    async def diff(self, path: str, commit: str, *, staged: bool | None) -> Diff:
        """Return the changes of one commit, or those that are not committed."""
        ...

    async def log(self, path: str, limit: int, before: str) -> CommitPage:
        """Return commits that touched a path."""
        ...

    async def commit(self, payload: CommitRequest) -> Commit:
        """Commit, and return the new commit."""
        ...

    async def stage(self, paths: Collection[str]) -> None:
        """Stage what is changed in these files and folders."""
        ...

    async def unstage(self, paths: Collection[str]) -> None:
        """Take these files and folders out of the next commit."""
        ...


class GitEndpoints:
    """The endpoints below ``/api/git``.

    ``find_copy`` returns the work tree of a chat; None: the chat has none.
    """

    def __init__(
        self,
        repository: WorkingRepository,
        find_copy: Callable[[int], Awaitable[WorkingRepository | None]],
    ) -> None:
        self._repository = repository
        self._find_copy = find_copy

    async def _choose(self, request: Request) -> WorkingRepository:
        """Return the work tree of the chat that the request names, else the workspace."""
        chat_id = request.get_int("chatId", 1, MAX_ID)
        copy = await self._find_copy(chat_id) if chat_id else None
        return copy or self._repository

    async def get_status(self, request: Request) -> Response:
        """Return the branch, staged, changed, untracked and conflicting files."""
        repository = await self._choose(request)
        status = await repository.read_status()
        return Response(_make_status_view(status, await repository.list_hooks()))

    async def get_diff(self, call: Request) -> Response:
        """Return a unified diff."""
        repository = await self._choose(call)
        found = await repository.diff(
            call.get_query("path") or "",
            call.get_query("commit") or "",
            staged=call.get_optional_flag("staged"),
        )
        return Response(DiffView(found.text, found.truncated))

    async def list_commits(self, call: Request) -> Response:
        """Return a page of commits."""
        limit = call.get_int("limit", 1, MOST_COMMITS) or _PAGE
        repository = await self._choose(call)
        page = await repository.log(
            call.get_query("path") or "", limit, call.get_query("before") or ""
        )
        return Response(LogView([make_commit_view(one) for one in page.commits], page.next))

    async def create_commit(self, call: Request) -> Response:
        """Commit, and return the new commit."""
        payload = call.parse_json(MakeCommit)
        repository = await self._choose(call)
        made = await repository.commit(
            CommitRequest(payload.message, tuple(payload.paths), payload.all, payload.run_hooks)
        )
        return Response(make_commit_view(made), 201)

    async def stage_paths(self, request: Request) -> Response:
        """Stage files, and return the status after it."""
        repository = await self._choose(request)
        await repository.stage(request.parse_json(StagePaths).paths)
        return await self.get_status(request)

    async def unstage_paths(self, request: Request) -> Response:
        """Unstage files, and return the status after it."""
        repository = await self._choose(request)
        await repository.unstage(request.parse_json(StagePaths).paths)
        return await self.get_status(request)


def _make_status_view(status: RepositoryStatus, hooks: tuple[str, ...]) -> GitStatusView:
    tracked = [one for one in status.changes if one.code not in _UNSOLVED and one.code != "??"]
    return GitStatusView(
        branch=status.branch,
        upstream=status.upstream,
        ahead=status.ahead,
        behind=status.behind,
        staged=[_make_changed_file(one, 0) for one in tracked if one.code[0] != "."],
        changed=[_make_changed_file(one, 1) for one in tracked if one.code[1] != "."],
        untracked=[one.path for one in status.changes if one.code == "??"],
        conflicts=[one.path for one in status.changes if one.code in _UNSOLVED],
        hooks=list(hooks),
        truncated=status.truncated,
    )


def _make_changed_file(change: GitChange, side: int) -> ChangedFile:
    letter = change.code[side]
    return ChangedFile(
        change.path, _WORDS.get(letter, letter), change.before if letter in "RC" else ""
    )


_TEXT: dict[str, object] = {"type": "string", "maxLength": 4096}
_PLACE = Parameter("path", "query", "Only of this file or folder of the workspace.", _TEXT)
_CHAT = make_integer_parameter(
    "chatId", "The work tree of this chat, if it has one; else the workspace.", 1, MAX_ID
)
_STAGED = make_choice_parameter(
    "staged",
    "Only what is staged (true), or only what is not (false); both when left out.",
    ("true", "false"),
)
_OF_COMMIT = Parameter(
    "commit",
    "query",
    "What this commit or branch changed, instead; of a merge, what it brought to its first parent.",
    _TEXT,
)
_LIMIT = make_integer_parameter("limit", "Maximum number of commits.", 1, MOST_COMMITS)
_BEFORE = Parameter(
    "before",
    "query",
    "The value of 'next' from the previous page.",
    {"type": "string", "pattern": r"^[0-9a-f]{40,64}\.[0-9]{1,7}$"},
)


def routes(endpoints: GitEndpoints) -> tuple[Route, ...]:
    """Return the routes of status, diff, log, staging and commit."""
    door, section = RouteGroup.EXTENDED, "4, extended surface"
    failures = (Forbidden, NotFound, Unavailable)
    return (
        Route(
            "GET",
            "/api/git/status",
            door,
            endpoints.get_status,
            "The working repository: branch, staged, changed, untracked and conflicting files.",
            operation_id="get_git_status",
            response_type=GitStatusView,
            errors=(*failures, BadRequest, Conflict),
            parameters=(_CHAT,),
            section=section,
        ),
        Route(
            "GET",
            "/api/git/diff",
            door,
            endpoints.get_diff,
            "The uncommitted changes, or those of one commit, as a unified diff.",
            operation_id="get_git_diff",
            response_type=DiffView,
            errors=(*failures, BadRequest, Conflict),
            parameters=(_PLACE, _STAGED, _OF_COMMIT, _CHAT),
            section=section,
        ),
        Route(
            "GET",
            "/api/git/log",
            door,
            endpoints.list_commits,
            "The commits, newest first, page by page.",
            operation_id="list_git_commits",
            response_type=LogView,
            errors=(*failures, BadRequest, Conflict),
            parameters=(_PLACE, _LIMIT, _BEFORE, _CHAT),
            section=section,
        ),
        *_list_staging_routes(endpoints),
        _build_commit_route(endpoints),
    )


def _list_staging_routes(endpoints: GitEndpoints) -> tuple[Route, ...]:
    return tuple(
        Route(
            "POST",
            f"/api/git/{verb}",
            RouteGroup.EXTENDED,
            endpoint,
            summary,
            operation_id=f"{verb}_git_paths",
            request_type=StagePaths,
            response_type=GitStatusView,
            errors=(Forbidden, NotFound, Unavailable, BadRequest, Conflict),
            parameters=(_CHAT,),
            section="4, extended surface",
        )
        for verb, endpoint, summary in (
            ("stage", endpoints.stage_paths, "Stage the changes of files and folders."),
            ("unstage", endpoints.unstage_paths, "Take files and folders out of the next commit."),
        )
    )


def _build_commit_route(endpoints: GitEndpoints) -> Route:
    return Route(
        "POST",
        "/api/git/commit",
        RouteGroup.EXTENDED,
        endpoints.create_commit,
        "Commit in the working repository, as the author that git is configured with.",
        operation_id="create_git_commit",
        request_type=MakeCommit,
        response_type=CommitView,
        status=201,
        errors=(Forbidden, NotFound, Unavailable, BadRequest, Conflict),
        parameters=(_CHAT,),
        section="4, extended surface",
    )
