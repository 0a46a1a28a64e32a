"""The rows below ``/api/agent/changes``."""

from agentd.errors import BadRequest, Conflict, NotFound, Unavailable
from agentd.web.manage import changes as shapes
from agentd.web.manage.changes import ChangeDesk
from agentd.web.manage.listing import CURSOR, LIMIT
from agentd.web.manage.resource import DRY_RUN
from agentd.web.table import Parameter, Route
from agentd.web.tables.manage_rows import row

_FILTERS = tuple(
    Parameter(name, "query", description, {"type": "string"})
    for name, description in (
        ("resource", "Only of this kind, such as channels."),
        ("name", "Only of the one of this name, or id."),
        ("action", "Only such, as create, change, delete or undo."),
        ("by", "Only by this caller."),
    )
)


def rows(desk: ChangeDesk) -> tuple[Route, ...]:
    """List, undo."""
    return (
        row(
            "GET",
            "/api/agent/changes",
            endpoint=desk.list_changes,
            summary="Who changed what, from where and when, the newest first; secrets are masked.",
            gives=shapes.ChangesPage,
            errors=(BadRequest, Unavailable),
            parameters=(LIMIT, CURSOR, *_FILTERS),
        ),
        row(
            "POST",
            "/api/agent/changes/{number}/undo",
            endpoint=desk.undo_change,
            summary="Take a change back, unless the resource was changed since.",
            gives=shapes.ChangeView,
            errors=(BadRequest, NotFound, Conflict, Unavailable),
            parameters=(DRY_RUN,),
        ),
    )
