"""Endpoints of the change journal: list changes and undo them."""

from collections.abc import Awaitable, Iterable
from typing import Annotated, Protocol

from msgspec import Meta

from agentd.core.errors import BadRequest, Conflict, NotFound, Unavailable
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.listing import CURSOR, DEFAULT_LIMIT, LIMIT, MAX_LIMIT
from agentd.gateway.admin.api.resource import DRY_RUN, parse_change_request
from agentd.gateway.admin.api.route_builders import build_route
from agentd.gateway.admin.changes import (
    ChangeFilter,
    ChangePage,
    ChangeRecord,
    ChangeRequest,
    UndoRecord,
)
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route

_UNDOABLE = (
    "True if it can be undone now: what is written in files, for some days. If the resource was"
    " changed since, undoing it is a conflict."
)
ChangeView = shapes.define_view(ChangeRecord, undoable=Annotated[bool, Meta(description=_UNDOABLE)])
ChangesPage = shapes.define_page(ChangeView)


class ChangeReader(Protocol):
    """The change journal (``gateway.admin.changes_store.ChangeJournal``)."""

    def read_page(
        self, wanted: ChangeFilter, limit: int, cursor: str = ""
    ) -> Awaitable[ChangePage]:
        """Return one page, newest first."""
        ...

    def has_undo(self, number: int) -> Awaitable[bool]:
        """Return whether a change can be undone."""
        ...

    def get_undo(self, number: int) -> Awaitable[UndoRecord]:
        """Return the undo data of a change. ``NotFound``, ``Conflict``."""
        ...


class Undoable(Protocol):
    """A kind of resource (``gateway.admin.service.ManagedResource``)."""

    @property
    def resource(self) -> str:
        """Its name, as in paths."""
        ...

    def undo(
        self, record: UndoRecord, request: ChangeRequest, number: int
    ) -> Awaitable[ChangeRecord]:
        """Undo a change. ``Conflict``."""
        ...


class ChangeEndpoints:
    """The endpoints below ``/api/agent/changes``."""

    def __init__(self, journal: ChangeReader, resources: Iterable[Undoable]) -> None:
        self._journal = journal
        self._resources = {one.resource: one for one in resources}

    async def list_changes(self, call: Request) -> Response:
        """Return one page, newest first."""
        limit = call.get_int("limit", 1, MAX_LIMIT) or DEFAULT_LIMIT
        wanted = ChangeFilter(
            *(call.get_query(name) or "" for name in ("resource", "name", "action", "by"))
        )
        page = await self._journal.read_page(wanted, limit, call.get_query("cursor") or "")
        items = [
            shapes.to_view(one, ChangeView, undoable=one.number in page.undoable)
            for one in page.items
        ]
        return Response(ChangesPage(items=items, next=page.next))

    async def undo_change(self, call: Request) -> Response:
        """Undo a change; that is logged as a change too."""
        number = call.get_id("number", "Change")
        kept = await self._journal.get_undo(number)
        change = await self._resources[kept.resource].undo(kept, parse_change_request(call), number)
        undoable = await self._journal.has_undo(change.number)
        return Response(shapes.to_view(change, ChangeView, undoable=undoable))


_FILTERS = tuple(
    Parameter(name, "query", description, {"type": "string"})
    for name, description in (
        ("resource", "Only this kind of resource, such as channels."),
        ("name", "Only the resource of this name or id."),
        ("action", "Only this action, such as create, change, delete or undo."),
        ("by", "Only by this caller."),
    )
)


def routes(endpoints: ChangeEndpoints) -> tuple[Route, ...]:
    """Return the routes of changes."""
    return (
        build_route(
            "GET",
            "/api/agent/changes",
            endpoint=endpoints.list_changes,
            summary="List who changed what, from where and when, newest first; secrets are masked.",
            response_type=ChangesPage,
            errors=(BadRequest, Unavailable),
            parameters=(LIMIT, CURSOR, *_FILTERS),
        ),
        build_route(
            "POST",
            "/api/agent/changes/{number}/undo",
            endpoint=endpoints.undo_change,
            summary="Undo a change, unless the resource was changed since.",
            response_type=ChangeView,
            errors=(BadRequest, NotFound, Conflict, Unavailable),
            parameters=(DRY_RUN,),
        ),
    )
