"""Which MCP servers a turn has: those of ``mcp.yml``, and allowed ones of the workspace."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from agentd.agent.engine import Approver
from agentd.agent.mcp_servers import store
from agentd.agent.mcp_servers.model import McpServerSettings, McpSettings, ReadyServer, for_engine
from agentd.agent.mcp_servers.turn_tools import McpTools, NoMcpTools
from agentd.core.errors import AgentdError, ConfigError
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile

if TYPE_CHECKING:
    from agentd.agent.mcp_servers.pool import McpPool


class McpDirectory:
    """The servers as ``mcp.yml`` has them now.

    ``generation`` marks the programs of this state folder's daemon.
    """

    def __init__(self, layout: Layout, environ: Mapping[str, str], generation: str) -> None:
        self.file = WatchedFile(layout.mcp_settings, partial(store.load, layout), McpSettings())
        """The current content of ``mcp.yml``."""
        self._environ = environ
        self._generation = generation
        self._pool: McpPool | None = None

    def _get_pool(self) -> "McpPool":
        if self._pool is None:
            from agentd.agent.mcp_servers.pool import McpPool  # noqa: PLC0415 - few need it

            self._pool = McpPool(self._generation)
        return self._pool

    async def close(self) -> None:
        """End all servers."""
        if self._pool:
            await self._pool.close()

    async def open_turn(self, folder: str, chat_id: int, approver: Approver) -> "McpTools":
        """Return the tools of a native engine's turn, whose servers have been started."""
        servers, problems = await self.list_servers("native")
        if not servers and not problems:
            return NoMcpTools()
        from agentd.agent.mcp_servers.toolset import McpToolset  # noqa: PLC0415 - few need it

        pool = self._get_pool()
        pool.begin_turn(chat_id, folder)
        toolset = McpToolset(pool, chat_id, servers, approver)
        toolset.failures = problems
        try:
            await toolset.open()
        except BaseException:
            toolset.close()
            raise
        return toolset

    async def list_servers(
        self, engine: str
    ) -> tuple[tuple[ReadyServer, ...], tuple[tuple[str, str], ...]]:
        """Return the servers that an engine gets, and those that lack something, with what."""
        await self.file.ensure_current()
        wanted = for_engine(self.file.current.all, engine)
        return await asyncio.to_thread(self._prepare, wanted) if wanted else ((), ())

    async def prepare(self, server: McpServerSettings) -> ReadyServer:
        """Return one server with its secrets; ``ConfigError`` if they are missing."""
        return await asyncio.to_thread(store.prepare_server, server, self._environ)

    def _prepare(
        self, wanted: tuple[McpServerSettings, ...]
    ) -> tuple[tuple[ReadyServer, ...], tuple[tuple[str, str], ...]]:
        ready: list[ReadyServer] = []
        problems: list[tuple[str, str]] = []
        for server in wanted:
            try:
                ready.append(store.prepare_server(server, self._environ))
            except ConfigError as error:
                problems.append((server.name, error.problems[0].what))
            except AgentdError as error:
                problems.append((server.name, error.message))
        return tuple(ready), tuple(problems)
