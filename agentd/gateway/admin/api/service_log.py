"""Endpoint of the gateway's service log: operational events, newest first."""

from collections.abc import Awaitable, Callable
from typing import Annotated, get_args

from msgspec import Meta

from agentd.core.errors import BadRequest, Unavailable
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.listing import CURSOR, DEFAULT_LIMIT, LIMIT, MAX_LIMIT
from agentd.gateway.admin.api.pages import define_page_with
from agentd.gateway.admin.api.route_builders import build_route
from agentd.gateway.service_log.note import Level, ServiceLogEntry, ServiceLogFilter, ServiceLogPage
from agentd.http.parameters import make_choice_parameter
from agentd.http.request import Request, Response
from agentd.http.routing import Parameter, Route

NoteView = shapes.define_view(ServiceLogEntry)
NotePageView = define_page_with(
    "NotePage",
    NoteView,
    dropped=Annotated[int, Meta(description="Entries lost since the daemon started.")],
)
"""A page of the service log."""

LEVELS: tuple[str, ...] = get_args(Level)

FILTERS = (
    make_choice_parameter("level", "Only this level.", LEVELS),
    Parameter("kind", "query", "Only this kind of event.", {"type": "string"}),
    Parameter("channel", "query", "Only this channel.", {"type": "string"}),
    Parameter("key", "query", "Only this access key, by its id.", {"type": "string"}),
)


class ServiceLogEndpoints:
    """The endpoint ``/api/agent/service-log``; ``dropped`` returns the number of lost lines."""

    def __init__(
        self,
        page: Callable[[ServiceLogFilter, int, str], Awaitable[ServiceLogPage]],
        dropped: Callable[[], int],
    ) -> None:
        self._page = page
        self._dropped = dropped

    async def list_service_log(self, call: Request) -> Response:
        """Return one page, newest first."""
        wanted = ServiceLogFilter(
            call.get_choice("level", LEVELS, ""),
            *(call.get_query(name) or "" for name in ("kind", "channel", "key")),
        )
        limit = call.get_int("limit", 1, MAX_LIMIT) or DEFAULT_LIMIT
        page = await self._page(wanted, limit, call.get_query("cursor") or "")
        items = [shapes.to_view(one, NoteView) for one in page.entries]
        return Response(NotePageView(items=items, next=page.next, dropped=self._dropped()))


def routes(endpoints: ServiceLogEndpoints) -> tuple[Route, ...]:
    """Return the route of the service log."""
    return (
        build_route(
            "GET",
            "/api/agent/service-log",
            endpoint=endpoints.list_service_log,
            summary="List operational events of the gateway, newest first.",
            response_type=NotePageView,
            errors=(BadRequest, Unavailable),
            parameters=(LIMIT, CURSOR, *FILTERS),
        ),
    )
