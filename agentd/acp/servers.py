"""The MCP servers that an editor names in a session, as the daemon takes them. Pure.

Source: https://agentclientprotocol.com/protocol/session-setup
"""

import re

from agentd.acp.messages import AcpJson, get_list, get_text

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
