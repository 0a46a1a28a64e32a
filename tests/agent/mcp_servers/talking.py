"""A conversation with an MCP server, as a test has it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from agentd.agent.mcp_servers.connection import McpConnection
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.agent.mcp_servers.pool import McpPool

Work = Callable[[McpConnection], Awaitable[Any]]


async def use_connection(server: ReadyServer, folder: str, work: Work, seconds: float) -> Any:
    """Open a connection, do the work, and close it; ``TimeoutError`` after so many seconds."""
    connection = McpPool().build(server, folder)
    async with asyncio.timeout(seconds):
        await connection.open()
        try:
            return await work(connection)
        finally:
            await connection.close()
