"""``mcp.yml`` of the configuration folder, and the secrets that it points to.

It is written by hand and by an administrator, and may hold secrets: nobody else may read it.
"""

from collections.abc import Mapping

from agentd.agent.mcp_servers.model import (
    McpServerSettings,
    McpSettings,
    ReadyServer,
    expand,
    fill_in,
    validate,
)
from agentd.core.errors import ConfigError, ConfigProblem
from agentd.core.secret_text import is_reference
from agentd.storage import document
from agentd.storage.layout import Layout
from agentd.storage.secret_ref import resolve_secret
from agentd.storage.yaml import reader as yaml_reader
from agentd.storage.yaml.entries import NamedEntries


def load(layout: Layout) -> McpSettings:
    """Return the content of the file; without one there are no servers. Blocking.

    Raises ``ConfigError`` with every mistake, or ``Unavailable``.
    """
    path = layout.mcp_settings
    found = document.read_document(path, yaml_reader.MAX_FILE_SIZE, own=True, private=True)
    return (
        yaml_reader.load_yaml(path, found.data, McpSettings, validate) if found else (McpSettings())
    )


def open_entries(layout: Layout) -> NamedEntries[McpServerSettings]:
    """Return the servers of the file for edits."""
    path = layout.mcp_settings
    return NamedEntries(path, McpSettings, "servers", validate, "MCP server", private=True)


def prepare_server(server: McpServerSettings, environ: Mapping[str, str]) -> ReadyServer:
    """Return a server of the file with its secrets filled in; ``ConfigError``. Blocking."""
    where = f"mcp.yml: {server.name}"
    missing: list[str] = []
    values = {
        name: resolve_secret(value, environ, f"{where}.{name}", "the server's")
        if is_reference(value)
        else expand(value, environ, missing)
        for name, value in server.secrets.items()
    }
    filled = fill_in(server, values, environ, missing, configured=True)
    if missing:
        names = ", ".join(dict.fromkeys(missing))
        what = f"the environment variable {names} is not set"
        raise ConfigError([ConfigProblem(where, 0, what)])
    return filled
