"""The rows by which the management tells of itself."""

from agentd.access.gate import Surface
from agentd.web.manage.agent_view import AgentView
from agentd.web.manage.description import OPENAPI
from agentd.web.system import System
from agentd.web.table import Route


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
            gives=AgentView,
            also=("text/markdown", "text/plain"),
            section="4",
        ),
        Route(
            "GET",
            OPENAPI,
            Surface.MANAGE,
            system.agent_openapi,
            "The same addresses as OpenAPI 3.1.",
            tells={"type": "object", "required": ["openapi", "paths"]},
            section="4",
        ),
    )
