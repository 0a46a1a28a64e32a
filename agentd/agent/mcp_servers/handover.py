"""MCP servers in the words of other engines: ACP, Codex and Claude Code. Pure.

What these return may have secrets in it: it goes over pipes or in a file of memory, never into
arguments, which everybody on the host can read.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import structs

from agentd.agent.engine import EngineEvent, ToolUsed
from agentd.agent.mcp_servers.model import ReadyServer
from agentd.agent.text import sanitize


def tell_failure(server: str, problem: str) -> ToolUsed:
    """Return what the history is told of a server that an engine cannot use."""
    return ToolUsed("mcp", server, f"failed: {sanitize(problem)}", ok=False)


def hide_in_failure(event: EngineEvent, servers: Sequence[ReadyServer]) -> EngineEvent:
    """Return an event; a failed use or start of a server without the server's secrets."""
    if not isinstance(event, ToolUsed) or event.ok:
        return event
    outcome = event.outcome
    for server in servers:
        if _is_about(event, server.name):
            outcome = server.hide_secrets(outcome)
    return structs.replace(event, outcome=outcome)


def _is_about(use: ToolUsed, server: str) -> bool:
    """Return whether a use is one of a server, as the programs name it."""
    if use.name == "mcp":
        return use.input == server
    # As Claude Code, Codex and codex-acp, and opencode name its tools.
    return use.name.startswith((f"mcp__{server}__", f"{server}.", f"{server}_"))


def render_for_acp(servers: Sequence[ReadyServer], *, http: bool) -> list[dict[str, object]]:
    """Return ``mcpServers`` of a session; without ``http`` the agent only starts programs."""
    return [_render_acp(server) for server in servers if http or not server.url]


def _render_acp(server: ReadyServer) -> dict[str, object]:
    if server.url:
        headers = _list_pairs(server.headers)
        return {"type": "http", "name": server.name, "url": server.url, "headers": headers}
    return {
        "name": server.name,
        "command": server.command[0],
        "args": list(server.command[1:]),
        "env": _list_pairs(server.env),
    }


def _list_pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def render_for_codex(servers: Sequence[ReadyServer]) -> dict[str, object]:
    """Return the settings of a thread of Codex, by their dotted names."""
    return {f"mcp_servers.{server.name}": _render_codex(server) for server in servers}


def _render_codex(server: ReadyServer) -> dict[str, object]:
    common: dict[str, object] = {
        "startup_timeout_sec": 60,
        "tool_timeout_sec": server.seconds,
        # By default it does not ask about tools that their server calls harmless.
        "default_tools_approval_mode": "prompt",
    }
    if server.url:
        return {"url": server.url, "http_headers": dict(server.headers), **common}
    command, *arguments = server.command
    return {"command": command, "args": arguments, "env": dict(server.env), **common}


def render_for_claude(servers: Sequence[ReadyServer]) -> str:
    """Return the file for ``--mcp-config``; empty without servers."""
    if not servers:
        return ""
    rendered = {server.name: _render_claude(server) for server in servers}
    return msgspec.json.encode({"mcpServers": rendered}).decode()


def _render_claude(server: ReadyServer) -> dict[str, object]:
    # Without it, a call may last for half an hour, and one of an address for five minutes at most.
    timeout = int(server.seconds * 1000)
    if server.url:
        headers = dict(server.headers)
        return {"type": "http", "url": server.url, "headers": headers, "timeout": timeout}
    command, *arguments = server.command
    return {
        "type": "stdio",
        "command": command,
        "args": arguments,
        "env": dict(server.env),
        "timeout": timeout,
    }
