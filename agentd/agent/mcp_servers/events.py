"""The events of MCP servers."""

from typing import ClassVar

from agentd.core.events import Event


class McpServersUpdate(Event, frozen=True):
    """A server started, failed or ended, or its file or a decision changed. Not stored."""

    name: ClassVar[str] = "mcpServersUpdate"
    for_administrators: ClassVar[bool] = True

    def build_arguments(self, run: str) -> list[object]:
        """Return its arguments on the wire: none, for they are read by ``/api/mcp-servers``."""
        return []
