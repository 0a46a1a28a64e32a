"""The rows by which the management tells of itself."""

from agentd.access.gate import Surface
from agentd.web.manage.agent_view import ManagementView
from agentd.web.manage.description import OPENAPI
from agentd.web.system import System
from agentd.web.table import DOCUMENT, Route


def rows(system: System) -> tuple[Route, ...]:
    """All of it, and as OpenAPI."""
    return (
        Route(
            "GET",
            "/api/agent",
            Surface.MANAGE,
            system.agent,
            "This description: how to sign in, concepts, secrets, every address with its fields,"
            " answers and errors, and a recipe to follow.",
            operation="describe_management",
            gives=ManagementView,
            also=("text/markdown", "text/plain"),
            section="4",
        ),
        Route(
            "GET",
            OPENAPI,
            Surface.MANAGE,
            system.agent_openapi,
            "The same addresses as OpenAPI 3.1.",
            operation="get_openapi",
            tells=DOCUMENT,
            section="4",
        ),
    )
