"""``mcp.yml`` of the configuration folder, and the secrets that it points to.

It is written by hand and by an administrator, and may hold secrets: nobody else may read it.
"""

from collections.abc import Mapping

from agentd.agent.mcp_servers.model import (
    PROJECT_FILE,
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
from agentd.system.process import INHERITED_VARIABLES


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
        what = f"the environment variable {_list(missing)} is not set"
        raise ConfigError([ConfigProblem(where, 0, what)])
    return filled


def prepare_project_server(
    server: McpServerSettings, settings: McpSettings, environ: Mapping[str, str]
) -> ReadyServer:
    """Return a server of a workspace's ``.mcp.json``, filled in; ``ConfigError``. Blocking.

    It sees the ``variables`` of ``mcp.yml`` and those that every program gets, no others.
    """
    variables = {
        name: resolve_secret(value, environ, f"mcp.yml: variables.{name}", "the server's")
        for name, value in settings.variables.items()
    }
    known = {name: environ[name] for name in INHERITED_VARIABLES if name in environ} | variables
    missing: list[str] = []
    values = {name: expand(value, known, missing) for name, value in server.secrets.items()}
    filled = fill_in(server, values, known, missing, configured=False)
    if missing:
        what = f"{_list(missing)} has no value: give it one under variables in mcp.yml"
        raise ConfigError([ConfigProblem(f"{PROJECT_FILE}: {server.name}", 0, what)])
    return filled


def _list(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(names))
