"""Collects all routes of the management API, when one of them is first needed."""

from agentd.app.auth import AuthServices
from agentd.app.components import Components, Core
from agentd.app.reports import build_report_routes
from agentd.gateway.admin.api import alerts, description, export
from agentd.gateway.admin.api.alerts import AlertEndpoints
from agentd.gateway.admin.api.description import SelfDescription
from agentd.gateway.admin.api.export import ExportEndpoints
from agentd.http.connections import ConnectionRegistry
from agentd.http.routing import Route, RouteTable


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
    return (
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
