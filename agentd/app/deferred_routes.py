"""The routes that are imported and built when one of them is first needed."""

from agentd.app.auth import AuthServices
from agentd.app.components import Components, Core
from agentd.http.connections import ConnectionRegistry
from agentd.http.routing import DeferredRoutes, Route, RouteTable


def defer_management(
    core: Core, auth: AuthServices, components: Components, connections: ConnectionRegistry
) -> DeferredRoutes:
    """Return the management API of the model gateway."""

    def build(table: RouteTable) -> tuple[Route, ...]:
        from agentd.app.management_routes import (  # noqa: PLC0415 - not at the start: it is large
            list_management_routes,
        )

        return list_management_routes(core, auth, components, connections, table)

    return DeferredRoutes(
        "/api/agent", ("agentd.app.management", "agentd.app.management_routes"), build
    )


def defer_mcp(
    core: Core, routes: tuple[Route, ...], connections: ConnectionRegistry
) -> DeferredRoutes:
    """Return the Model Context Protocol, whose tools call ``routes``."""

    def build(_: RouteTable) -> tuple[Route, ...]:
        from agentd.mcp import api  # noqa: PLC0415 - not at the start: few clients need it

        return api.routes(api.McpEndpoints.from_routes(routes, core.chats, core.bus, connections))

    return DeferredRoutes("/mcp", ("agentd.mcp.api",), build)
