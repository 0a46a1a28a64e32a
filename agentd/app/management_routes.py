"""Collects all routes of the management API, when one of them is first needed."""

from collections.abc import Awaitable, Sequence
from functools import wraps
from typing import Any

from msgspec import structs

from agentd.app.auth import AuthServices
from agentd.app.components import Components, Core
from agentd.app.reports import build_report_routes
from agentd.gateway.admin.api import alerts, description, export
from agentd.gateway.admin.api.alerts import AlertEndpoints
from agentd.gateway.admin.api.description import SelfDescription
from agentd.gateway.admin.api.export import ExportEndpoints
from agentd.http.connections import ConnectionRegistry
from agentd.http.request import Request, Response
from agentd.http.routing import Route, RouteTable
from agentd.storage.watched_file import WatchedFile


def list_management_routes(
    core: Core,
    auth: AuthServices,
    components: Components,
    connections: ConnectionRegistry,
    table: RouteTable,
) -> tuple[Route, ...]:
    """Return the routes below ``/api/agent``; their description is of the whole ``table``."""
    gateway, exporter = components.gateway, components.export.exporter
    management = components.management
    routes = (
        *description.routes(SelfDescription(table)),
        *management.api.rows,
        *export.routes(ExportEndpoints(exporter, lambda: gateway.settings.current.export)),
        *alerts.routes(AlertEndpoints(components.alerts.service)),
        *build_report_routes(
            core.layout,
            core.clock,
            gateway,
            auth,
            management.journal,
            exporter,
            connections,
            components.alerts.service,
        ),
    )
    files = (*gateway.files, *core.config_files.files)
    return tuple(_make_current(route, files) for route in routes)


def _make_current(route: Route, files: Sequence[WatchedFile[Any]]) -> Route:
    """Return a route that follows the last edits of hand-written files.

    The watcher reports an edit only some moments later. A resource is checked against others, so
    all the files are looked at; that costs one ``stat`` each.
    """

    @wraps(route.endpoint)
    def answer(call: Request) -> Response | Awaitable[Response]:
        stale = [file for file in files if file.is_stale]
        return _answer_later(route, call, stale) if stale else route.endpoint(call)

    return structs.replace(route, endpoint=answer)


async def _answer_later(route: Route, call: Request, stale: Sequence[WatchedFile[Any]]) -> Response:
    for file in stale:
        await file.ensure_current()
    answer = route.endpoint(call)
    return answer if isinstance(answer, Response) else await answer
