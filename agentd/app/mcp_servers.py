"""Wires the MCP servers whose tools the agents use."""

from collections.abc import Mapping
from typing import Self

from agentd.agent.mcp_servers.directory import McpDirectory
from agentd.storage.layout import Layout


class McpServersComponent:
    """Follows ``mcp.yml``, and ends all servers at the end of its block.

    ``generation`` is the state folder's, by which programs are marked.
    """

    def __init__(self, layout: Layout, environ: Mapping[str, str], generation: str) -> None:
        self.directory = McpDirectory(layout, environ, generation)
        self.file = self.directory.file
        """The current contents of ``mcp.yml``."""

    async def __aenter__(self) -> Self:
        """Read the file."""
        await self.file.refresh()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all servers."""
        await self.file.stop()
        await self.directory.close()
