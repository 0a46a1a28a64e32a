"""A chat's work tree over HTTP: how it stands, its diff, and merging, rebasing, keeping, dropping.

Paths below the specification's prefix ``/api/chat`` are ours.
"""

from typing import Annotated, Protocol

from msgspec import Meta, Struct

from agentd.agent.tools.results import Diff
from agentd.chats.requests import get_chat_id
from agentd.chats.views import Id
from agentd.chats.worktree import Worktree, WorktreeStep
from agentd.core.errors import BadRequest, Conflict, Forbidden, NotFound, Unavailable
from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route
from agentd.workspace.git.api import DiffView
from agentd.workspace.git.commits import LONGEST_MESSAGE
from agentd.workspace.worktrees.service import WorktreeInfo

_Message = Annotated[str, Meta(max_length=LONGEST_MESSAGE)]


class WorktreeView(Struct, frozen=True, rename="camel"):
    """A chat's work tree, compared with the workspace.

    ``step`` is ``planned`` until it is made and set up, which happens with the chat's next prompt,
    then ``ready``; the others are being done, or are finished at the daemon's next start.
    """

    chat_id: Id
    step: WorktreeStep
    branch: str
    into: str
    """The branch that is checked out in the workspace; empty: none is, or it is not known yet."""
    base: str
    """The latest commit that both have."""
    folder: str
    """The folder on the daemon's machine; empty: not made yet."""
    ahead: int
    """Commits that the workspace lacks."""
    behind: int
    """Commits of the workspace that the branch lacks."""
    uncommitted: int
    """Files that are changed or new and not committed."""
    problem: str
    """Why it could not be made or set up the last time, or that its branch is gone or not checked
    out; empty: nothing is known to be wrong."""


class MergeWorktree(Struct, frozen=True):
    """How to merge."""

    message: _Message = ""
    """The message of the commits that are made; by default the chat's title."""
    into: Annotated[str, Meta(max_length=1000)] | None = None
    """The branch that must be checked out in the workspace; by default any."""


class CommitWorktree(Struct, frozen=True):
    """How to commit what is not committed yet."""

    message: _Message = ""
    """The commit's message; by default the chat's title."""


class DropWorktree(Struct, frozen=True):
    """How to drop; ``force``: work that is not committed or not merged is lost."""

    force: bool = False


class MergedView(Struct, frozen=True):
    """The workspace's commit after a merge, and the work tree, which stays."""

    commit: str
    worktree: WorktreeView


class ReleasedView(Struct, frozen=True, rename="camel"):
    """The chat works in the workspace again; ``branch`` is what its branch was, or still is."""

    chat_id: Id
    branch: str
    kept: bool
    """The branch is still there."""


class ChatWorktrees(Protocol):
    """The work trees (``workspace.worktrees.service.WorktreeService``)."""

    async def describe(self, chat_id: int) -> WorktreeInfo:
        """Return a chat's work tree; ``NotFound``."""
        ...

    async def diff(self, chat_id: int, path: str) -> Diff:
        """Return what a chat's work tree changes."""
        ...

    async def merge(self, chat_id: int, message: str, into: str | None) -> str:
        """Commit and merge; return the workspace's commit. ``Conflict``."""
        ...

    async def rebase(self, chat_id: int, message: str, by: str) -> None:
        """Commit and rebase; ``Conflict``."""
        ...

    async def keep(self, chat_id: int, message: str, by: str) -> Worktree:
        """Commit, keep the branch, and remove the folder."""
        ...

    async def drop(self, chat_id: int, by: str, *, force: bool) -> Worktree | None:
        """Remove folder and branch, if there are; ``Conflict`` if work would be lost."""
        ...


class WorktreeEndpoints:
    """The endpoints below ``/api/chat/{chatId}/worktree``."""

    def __init__(self, trees: ChatWorktrees) -> None:
        self._trees = trees

    async def get_worktree(self, request: Request) -> Response:
        """Return a chat's work tree."""
        return Response(await self._make_view(get_chat_id(request)))

    async def get_diff(self, request: Request) -> Response:
        """Return what the work tree changes, committed or not."""
        chat_id = get_chat_id(request)
        found = await self._trees.diff(chat_id, request.get_query("path") or "")
        return Response(DiffView(found.text, found.truncated))

    async def merge(self, request: Request) -> Response:
        """Merge into what is checked out in the workspace."""
        wanted = request.parse_json(MergeWorktree)
        chat_id = get_chat_id(request)
        commit = await self._trees.merge(chat_id, wanted.message, wanted.into)
        return Response(MergedView(commit, await self._make_view(chat_id)))

    async def rebase(self, request: Request) -> Response:
        """Put the chat's commits on top of the workspace's."""
        wanted = request.parse_json(CommitWorktree)
        chat_id = get_chat_id(request)
        await self._trees.rebase(chat_id, wanted.message, request.caller.identity)
        return Response(await self._make_view(chat_id))

    async def keep(self, request: Request) -> Response:
        """Keep the branch and remove the folder."""
        wanted = request.parse_json(CommitWorktree)
        chat_id = get_chat_id(request)
        tree = await self._trees.keep(chat_id, wanted.message, request.caller.identity)
        return Response(ReleasedView(chat_id, tree.branch, kept=tree.step != "planned"))

    async def drop(self, request: Request) -> Response:
        """Remove folder and branch."""
        wanted = request.parse_json(DropWorktree)
        chat_id = get_chat_id(request)
        tree = await self._trees.drop(chat_id, request.caller.identity, force=wanted.force)
        if tree is None:
            raise NotFound(f"Chat {chat_id} has no work tree")
        return Response(ReleasedView(chat_id, tree.branch, kept=False))

    async def _make_view(self, chat_id: int) -> WorktreeView:
        found = await self._trees.describe(chat_id)
        tree, status = found.worktree, found.status
        return WorktreeView(
            chat_id=chat_id,
            step=tree.step,
            branch=tree.branch,
            into=status.into if status else tree.source,
            base=status.base if status else tree.base,
            folder=found.folder,
            ahead=status.ahead if status else 0,
            behind=status.behind if status else 0,
            uncommitted=status.uncommitted if status else 0,
            problem=(status.problem if status else "") or tree.problem,
        )


_GROUP = RouteGroup.EXTENDED
_PATH = "/api/chat/{chatId}/worktree"
_ERRORS = (BadRequest, Conflict, Forbidden, NotFound, Unavailable)
_PLACE = Parameter(
    "path",
    "query",
    "Only of this file or folder of the workspace.",
    {"type": "string", "maxLength": 4096},
)


def routes(trees: WorktreeEndpoints) -> tuple[Route, ...]:
    """Return the routes of chats' work trees."""
    return (
        Route(
            "GET",
            _PATH,
            _GROUP,
            trees.get_worktree,
            "A chat's git work tree: its branch, and how far it is from the workspace.",
            operation_id="get_chat_worktree",
            response_type=WorktreeView,
            errors=_ERRORS,
        ),
        Route(
            "GET",
            f"{_PATH}/diff",
            _GROUP,
            trees.get_diff,
            "What a chat's work tree changes against its base, committed or not, with new files.",
            operation_id="get_chat_worktree_diff",
            response_type=DiffView,
            errors=_ERRORS,
            parameters=(_PLACE,),
        ),
        Route(
            "POST",
            f"{_PATH}/merge",
            _GROUP,
            trees.merge,
            "Commit what the chat changed and merge it into what is checked out in the workspace;"
            " with conflicts, nothing is changed there.",
            operation_id="merge_chat_worktree",
            request_type=MergeWorktree,
            response_type=MergedView,
            errors=_ERRORS,
        ),
        Route(
            "POST",
            f"{_PATH}/rebase",
            _GROUP,
            trees.rebase,
            "Commit what the chat changed and put its commits on top of the workspace's; with"
            " conflicts, the work tree stays as it was.",
            operation_id="rebase_chat_worktree",
            request_type=CommitWorktree,
            response_type=WorktreeView,
            errors=_ERRORS,
        ),
        *_list_release_routes(trees),
    )


def _list_release_routes(trees: WorktreeEndpoints) -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            f"{_PATH}/keep",
            _GROUP,
            trees.keep,
            "Commit what the chat changed, keep its branch and remove its folder; the chat goes on"
            " in the workspace.",
            operation_id="keep_chat_worktree",
            request_type=CommitWorktree,
            response_type=ReleasedView,
            errors=_ERRORS,
        ),
        Route(
            "POST",
            f"{_PATH}/drop",
            _GROUP,
            trees.drop,
            "Remove the chat's work tree and branch; refused if work would be lost, unless by"
            " force. The chat goes on in the workspace.",
            operation_id="drop_chat_worktree",
            request_type=DropWorktree,
            response_type=ReleasedView,
            errors=_ERRORS,
        ),
    )
