"""The servers of a workspace's ``.mcp.json``: a person is asked before one is used.

What was decided is kept in ``mcp-decisions.json`` of the state folder.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial

from agentd.agent.engine import Approver, Question
from agentd.agent.mcp_servers.model import (
    PROJECT_FILE,
    McpServerSettings,
    ProjectServer,
    describe_launch,
    parse_project_file,
)
from agentd.agent.workspace_decisions import (
    DecisionMaker,
    WorkspaceDecision,
    open_server_decisions,
)
from agentd.core.errors import AgentdError, ConfigError
from agentd.storage import document
from agentd.storage.layout import Layout

LARGEST_FILE = 256 * 1024
TOOL = "mcp_server"
"""The tool in the question about a server."""


class ProjectServers:
    """Finds the allowed servers of a folder's ``.mcp.json``, and asks about the others.

    A folder is the ``workspace``, in which decisions count, or a work tree of it.
    """

    def __init__(
        self, layout: Layout, on_change: Callable[[], None] = lambda: None, workspace: str = ""
    ) -> None:
        self._workspace = workspace
        self._decisions = DecisionMaker(open_server_decisions(layout), on_change=on_change)

    async def find_allowed(
        self, folder: str, chat_id: int, approver: Approver | None
    ) -> tuple[tuple[McpServerSettings, ...], tuple[tuple[str, str], ...]]:
        """Return the servers that may be used, and others with the reason.

        Without an ``approver`` nobody is asked.
        """
        servers, problems = await asyncio.to_thread(read_project_file, folder)
        allowed, failures = await self.select_allowed(
            servers, chat_id, approver, describe=_ask_about
        )
        return allowed, (*((PROJECT_FILE, problem) for problem in problems), *failures)

    async def select_allowed(
        self,
        servers: Sequence[ProjectServer],
        chat_id: int,
        approver: Approver | None,
        *,
        describe: Callable[[McpServerSettings], Question],
    ) -> tuple[tuple[McpServerSettings, ...], tuple[tuple[str, str], ...]]:
        """Return those of the servers that may be used, and others with the reason."""
        failures: list[tuple[str, str]] = []
        allowed: list[McpServerSettings] = []
        for one in await asyncio.to_thread(self._bind, servers):
            name, ask = one.server.name, partial(describe, one.server)
            why = await self._decisions.decide(name, one.digest, chat_id, approver, ask)
            if why is None:
                allowed.append(one.server)
            elif why:
                failures.append((name, f"it was not allowed: {why}"))
        return tuple(allowed), tuple(failures)

    def read(
        self, folder: str
    ) -> tuple[tuple[ProjectServer, ...], tuple[WorkspaceDecision, ...], tuple[str, ...]]:
        """Return the servers of a folder, all decisions, and what is wrong. Blocking."""
        unbound, problems = read_project_file(folder)
        servers = self._bind(unbound)
        try:
            return servers, self._decisions.file.load(), problems
        except AgentdError as error:
            return servers, (), (*problems, error.details or error.message)

    async def withdraw(self, digest: str) -> WorkspaceDecision:
        """Forget and return a decision, so that the server is asked about again; ``NotFound``."""
        return await self._decisions.withdraw(digest)

    def _bind(self, servers: Sequence[ProjectServer]) -> tuple[ProjectServer, ...]:
        """Return the servers with digests that count in the workspace alone. Blocking."""
        workspace = os.path.realpath(self._workspace)
        return tuple(one.bind(workspace) for one in servers)


def read_project_file(folder: str) -> tuple[tuple[ProjectServer, ...], tuple[str, ...]]:
    """Return the servers of a folder's ``.mcp.json``, and what is wrong with it. Blocking."""
    try:
        found = document.read_document(os.path.join(folder, PROJECT_FILE), LARGEST_FILE)
    except ConfigError as error:
        return (), tuple(problem.what for problem in error.problems)
    except AgentdError as error:
        return (), (error.message,)
    return parse_project_file(found.data) if found else ((), ())


def _ask_about(server: McpServerSettings) -> Question:
    why = (
        f"The workspace's {PROJECT_FILE} names the MCP server {server.name}. If you allow it, it is"
        " used in every chat without another question until its entry changes."
    )
    return Question("other", TOOL, describe_launch(server), protected=why)


def ask_about_editors(server: McpServerSettings) -> Question:
    """Return the question about a server of a chat's editor; its secrets are not in it."""
    why = (
        f"The editor of this chat names the MCP server {server.name}. If you allow it, it is used"
        " without another question wherever an editor names it in the same way for this workspace."
    )
    return Question("other", TOOL, describe_launch(server, masked=True), protected=why)
