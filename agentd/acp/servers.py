"""The MCP servers that an editor names in a session, as the daemon takes them.

Source: https://agentclientprotocol.com/protocol/session-setup
"""

import logging
import re
from collections.abc import Mapping
from uuid import uuid4

from agentd.acp.daemon import DaemonApi
from agentd.acp.messages import AcpJson, get_list, get_text
from agentd.core.errors import AgentdError

log = logging.getLogger(__name__)

_ODD = re.compile("[^A-Za-z0-9_-]+")
_LONGEST_NAME = 32


def read_servers(params: AcpJson) -> dict[str, dict[str, object]]:
    """Return the servers by names that the daemon accepts; of equal names, the last has it."""
    servers: dict[str, dict[str, object]] = {}
    for one in get_list(params, "mcpServers"):
        name = _ODD.sub("-", get_text(one, "name")).strip("-_")[:_LONGEST_NAME] or "server"
        servers[name] = _read_server(one)
    return servers


def _read_server(one: AcpJson) -> dict[str, object]:
    if url := get_text(one, "url"):
        return {"url": url, "headers": _read_pairs(one, "headers")}
    given = one.get("args")
    words = [str(word) for word in given] if isinstance(given, list) else []
    return {"command": get_text(one, "command"), "args": words, "env": _read_pairs(one, "env")}


def _read_pairs(one: AcpJson, member: str) -> dict[str, str]:
    return {get_text(pair, "name"): get_text(pair, "value") for pair in get_list(one, member)}


class SessionServers:
    """The servers of one session's chat, which the daemon remembers until it ends."""

    def __init__(self, daemon: DaemonApi, chat_id: int) -> None:
        self._daemon = daemon
        self._path = f"/api/chat/{chat_id}/mcp-servers"
        self._named: Mapping[str, object] = {}

    def name(self, servers: Mapping[str, object]) -> None:
        """Have the chat use these servers; raises what the daemon says."""
        if servers or self._named:
            self._daemon.call("PUT", self._path, {"mcpServers": servers}, once=uuid4().hex)
        self._named = servers

    def repeat(self) -> None:
        """Name them again: a daemon that was restarted has forgotten them."""
        self.name(self._named)

    def forget(self) -> None:
        """End their use; without a daemon that has happened."""
        if not self._named:
            return
        try:
            self._daemon.call("PUT", self._path, {"mcpServers": {}})
        except AgentdError as error:
            log.info("%s: %s", self._path, error.message)
