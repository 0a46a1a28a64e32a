"""Wires the MCP servers whose tools the agents use."""

from collections.abc import Callable, Mapping
from typing import Self

from agentd.agent.mcp_servers import api, store
from agentd.agent.mcp_servers.api import McpServerEndpoints
from agentd.agent.mcp_servers.directory import McpDirectory
from agentd.agent.mcp_servers.events import McpServersUpdate
from agentd.core.events import EventBus
from agentd.http.routing import Route
from agentd.storage.layout import Layout
from agentd.storage.yaml.entries import WatchedEntries


class McpServersComponent:
    """Follows ``mcp.yml``, and ends all servers at the end of its block.

    ``generation`` is the state folder's, by which programs are marked; ``workspace`` is where one
    is tried out, and where decisions about those of ``.mcp.json`` count.
    """

    def __init__(
        self,
        layout: Layout,
        environ: Mapping[str, str],
        generation: str,
        workspace: str,
        bus: EventBus,
        find_chat: Callable[[int], object],
    ) -> None:
        self.directory = McpDirectory(
            layout, environ, generation, lambda: bus.publish(McpServersUpdate()), workspace
        )
        self.file = self.directory.file
        """The current contents of ``mcp.yml``."""
        self.rows: tuple[Route, ...] = api.routes(
            McpServerEndpoints(
                self.file,
                WatchedEntries(store.open_entries(layout), self.file),
                self.directory,
                workspace,
                find_chat,
            )
        )
        """The routes of the servers."""

    async def __aenter__(self) -> Self:
        """Read the file."""
        await self.file.refresh()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all servers."""
        await self.file.stop()
        await self.directory.close()
