"""The rows below ``/api/git``."""

from agentd.access.gate import Surface
from agentd.agent.tools import MOST_COMMITS
from agentd.errors import BadRequest, Conflict, Forbidden, NotFound, Unavailable
from agentd.web import git as shapes
from agentd.web.git import GitDesk
from agentd.web.place_views import CommitView
from agentd.web.table import Parameter, Route

_TEXT: dict[str, object] = {"type": "string", "maxLength": 4096}
_PLACE = Parameter("path", "query", "Only of this file or folder of the workspace.", _TEXT)
_STAGED = Parameter(
    "staged",
    "query",
    "Only what is staged (true), or only what is not (false); both when left out.",
    {"type": "string", "enum": ["true", "false"]},
)
_OF_COMMIT = Parameter("commit", "query", "What this commit or branch changed, instead.", _TEXT)
_LIMIT = Parameter(
    "limit",
    "query",
    "How many commits, at most.",
    {"type": "integer", "minimum": 1, "maximum": MOST_COMMITS},
)
_BEFORE = Parameter(
    "before",
    "query",
    "The 'next' of a page: what comes after it.",
    {"type": "string", "pattern": r"^[0-9a-f]{40,64}\.[0-9]{1,7}$"},
)


def rows(desk: GitDesk) -> tuple[Route, ...]:
    """Status, diff, log and commit."""
    door, section = Surface.EXTENDED, "4, extended surface"
    trouble = (Forbidden, NotFound, Unavailable)
    return (
        Route(
            "GET",
            "/api/git/status",
            door,
            desk.git_status,
            "The working repository: branch, staged, changed, untracked and conflicting files.",
            operation="get_git_status",
            gives=shapes.GitStatusView,
            errors=trouble,
            section=section,
        ),
        Route(
            "GET",
            "/api/git/diff",
            door,
            desk.git_diff,
            "What is changed and not committed, or what one commit changed.",
            operation="get_git_diff",
            gives=shapes.DiffView,
            errors=(*trouble, BadRequest),
            parameters=(_PLACE, _STAGED, _OF_COMMIT),
            section=section,
        ),
        Route(
            "GET",
            "/api/git/log",
            door,
            desk.git_log,
            "The commits, newest first, page by page.",
            operation="list_git_commits",
            gives=shapes.LogView,
            errors=(*trouble, BadRequest),
            parameters=(_PLACE, _LIMIT, _BEFORE),
            section=section,
        ),
        _commit(desk),
    )


def _commit(desk: GitDesk) -> Route:
    return Route(
        "POST",
        "/api/git/commit",
        Surface.EXTENDED,
        desk.git_commit,
        "Commit in the working repository, as the author that git is configured with.",
        operation="create_git_commit",
        takes=shapes.MakeCommit,
        gives=CommitView,
        status=201,
        errors=(Forbidden, NotFound, Unavailable, BadRequest, Conflict),
        section="4, extended surface",
    )
