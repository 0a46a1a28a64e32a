"""The HTTP server: it accepts connections, and makes one request handler for each request."""

import asyncio
import resource
import socket
import ssl
from collections.abc import Iterable

from agentd.http.context import HEAD_TIMEOUT, ServerContext
from agentd.http.http_connection import HttpConnection
from agentd.http.request_handler import RequestHandler

MAX_CONNECTIONS = 14_000
"""Connections at the same time: all live ones, and 2,000 more."""
BACKLOG = 128
"""Connections that may wait to be accepted."""
RESERVED_DESCRIPTORS = 256
"""File descriptors that are kept free of connections, so that the daemon can open its files."""


class HttpServer:
    """Serves requests on listening sockets; with ``tls`` by https."""

    def __init__(self, context: ServerContext, tls: ssl.SSLContext | None = None) -> None:
        self._context = context
        self._tls = tls
        self._descriptor_limit = get_descriptor_limit()
        self._connections: set[HttpConnection] = set()
        self._servers: list[asyncio.Server] = []

    async def start(self, sockets: Iterable[socket.socket]) -> None:
        """Accept connections on these sockets."""
        loop = asyncio.get_running_loop()
        timeout = HEAD_TIMEOUT if self._tls else None
        for one in sockets:
            self._servers.append(
                await loop.create_server(
                    self._make_connection,
                    sock=one,
                    ssl=self._tls,
                    ssl_handshake_timeout=timeout,
                    backlog=BACKLOG,
                )
            )

    def stop(self) -> None:
        """Accept no more connections; those that are open go on."""
        for server in self._servers:
            server.close()

    async def close_connections(self) -> None:
        """Close all connections at once."""
        while self._connections:
            for connection in tuple(self._connections):
                connection.abort()
            await asyncio.sleep(0)  # the loop reports the end of each in its next pass

    def _make_connection(self) -> HttpConnection:
        return HttpConnection(
            self._context, self._make_handler, self._connections, self._descriptor_limit
        )

    def _make_handler(self, connection: HttpConnection) -> RequestHandler:
        return RequestHandler(self._context, connection)


def get_descriptor_limit() -> int:
    """Return the lowest file descriptor that no connection may have.

    The kernel assigns the lowest free descriptor, so a high number means that many are in use,
    also for files and pipes.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(
        MAX_CONNECTIONS + RESERVED_DESCRIPTORS, max(limit - RESERVED_DESCRIPTORS, limit // 2)
    )
