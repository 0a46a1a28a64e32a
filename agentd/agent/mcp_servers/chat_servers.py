"""MCP servers that a chat's own client names, such as an editor: only for that chat.

They may have secrets in them, so they are in memory only: the client names them again after a
restart of the daemon.
"""

from collections.abc import Mapping, Sequence

from agentd.agent.mcp_servers.model import MOST_SERVERS, ProjectServer, read_foreign_server
from agentd.core.errors import BadRequest

MOST_CHATS = 500
"""Chats whose servers are remembered; those that named theirs first are forgotten first."""


class ChatServers:
    """The servers by chat."""

    def __init__(self) -> None:
        self._chats: dict[int, tuple[ProjectServer, ...]] = {}

    def get(self, chat_id: int) -> tuple[ProjectServer, ...]:
        """Return the servers of a chat."""
        return self._chats.get(chat_id, ())

    def put(self, chat_id: int, servers: Sequence[ProjectServer]) -> None:
        """Replace the servers of a chat."""
        self._chats.pop(chat_id, None)
        if servers:
            self._chats[chat_id] = tuple(servers)
        if len(self._chats) > MOST_CHATS:
            del self._chats[next(iter(self._chats))]


def read_chat_servers(entries: Mapping[str, object]) -> tuple[ProjectServer, ...]:
    """Return the servers of ``mcpServers``; ``BadRequest`` names the one that is wrong."""
    if len(entries) > MOST_SERVERS:
        raise BadRequest(f"At most {MOST_SERVERS} MCP servers are possible")
    found = []
    for name, entry in entries.items():
        try:
            found.append(read_foreign_server(name, entry))
        except ValueError as error:
            raise BadRequest(f'The MCP server "{name[:100]}" is not valid: {error}') from None
    return tuple(found)
