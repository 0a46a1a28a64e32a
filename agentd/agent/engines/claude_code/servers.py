"""The MCP servers that Claude Code was handed, and which of them it cannot use."""

from collections.abc import Iterator, Mapping, Sequence

from agentd.agent.engine import ToolUsed
from agentd.agent.engines.external.common import shorten
from agentd.agent.engines.external.json_rpc import get_path, get_text, iter_list
from agentd.agent.mcp_servers.handover import tell_failure
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.core.redaction import scrub

_UNUSABLE: Mapping[str, str] = {
    "failed": "Claude Code cannot start or reach it",
    "needs-auth": "it refuses Claude Code: give it an Authorization header",
}
"""Why a server cannot be used, by the status that Claude Code gives it."""


class HandedServers:
    """The servers of one turn; each that cannot be used enters the history once."""

    def __init__(self, servers: Sequence[ReadyServer]) -> None:
        self._untold = {server.name: server for server in servers}

    def has_failed(self, given: object) -> bool:
        """Return whether a session begins with a server that cannot be used."""
        return any(self._list_failed(given, "mcp_servers"))

    def report(self, response: object) -> Iterator[ToolUsed]:
        """Report each server that cannot be used, with the reason in the ``mcp_status``."""
        for one in list(self._list_failed(response, "mcpServers")):
            server = self._untold.pop(get_text(one, "name"))
            why = _UNUSABLE[get_text(one, "status")]
            if reason := get_text(one, "error"):
                why = f"{why} ({scrub(server.hide_secrets(reason))})"
            yield tell_failure(server.name, shorten(why))

    def _list_failed(self, given: object, member: str) -> Iterator[object]:
        for one in iter_list(given, member):
            if get_text(one, "name") in self._untold and get_path(one, "status") in _UNUSABLE:
                yield one
