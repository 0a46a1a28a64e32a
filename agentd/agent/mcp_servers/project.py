"""The servers of a workspace's ``.mcp.json``: a person is asked before one is used.

Once for each server and content: what was allowed is started without another question until its
entry changes. What was decided is kept in ``mcp-decisions.json`` of the state folder. Where nobody
answers it is denied, and not asked again in this chat by this run of the daemon.
"""

import asyncio
import os
from collections.abc import Callable, Sequence

from agentd.agent.approvals import BY_NOBODY
from agentd.agent.engine import Approver, Question
from agentd.agent.mcp_servers.decisions import (
    ServerDecision,
    keep_decision,
    load_decisions,
    withdraw_decision,
)
from agentd.agent.mcp_servers.model import (
    PROJECT_FILE,
    McpServerSettings,
    ProjectServer,
    describe_launch,
    parse_project_file,
)
from agentd.core.clock import Clock, SystemClock
from agentd.core.errors import AgentdError, ConfigError
from agentd.storage import document
from agentd.storage.layout import Layout

LARGEST_FILE = 256 * 1024
TOOL = "mcp_server"
"""The tool in the question about a server."""


class ProjectServers:
    """Finds the allowed servers of a folder's ``.mcp.json``, and asks about the others."""

    def __init__(
        self,
        layout: Layout,
        clock: Clock | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._layout = layout
        self._on_change = on_change
        self._clock = clock or SystemClock()
        self._unanswered: set[tuple[int, str]] = set()
        self._deciding = asyncio.Lock()

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
        for one in servers:
            why = await self._decide(one, chat_id, approver, describe)
            if why is None:
                allowed.append(one.server)
            elif why:
                failures.append((one.server.name, why))
        return tuple(allowed), tuple(failures)

    def read(
        self, folder: str
    ) -> tuple[tuple[ProjectServer, ...], tuple[ServerDecision, ...], tuple[str, ...]]:
        """Return the servers of a folder, all decisions, and what is wrong. Blocking."""
        servers, problems = read_project_file(folder)
        try:
            return servers, load_decisions(self._layout), problems
        except AgentdError as error:
            return servers, (), (*problems, error.details or error.message)

    async def withdraw(self, digest: str) -> ServerDecision:
        """Forget and return a decision, so that the server is asked about again; ``NotFound``."""
        async with self._deciding:
            decision = await asyncio.to_thread(withdraw_decision, self._layout, digest)
        self._unanswered = {one for one in self._unanswered if one[1] != digest}
        self._on_change()
        return decision

    async def _decide(
        self,
        one: ProjectServer,
        chat_id: int,
        approver: Approver | None,
        describe: Callable[[McpServerSettings], Question],
    ) -> str | None:
        """Return None if it may be used; else what the history is told, empty for nothing."""
        async with self._deciding:
            known = await asyncio.to_thread(self._find, one.digest)
        if known:
            return None if known.allowed else ""
        if approver is None or (chat_id, one.digest) in self._unanswered:
            return ""
        answer = await approver.ask(describe(one.server))
        if not answer.allowed and not answer.by_person:
            if answer.reason == BY_NOBODY:
                self._unanswered.add((chat_id, one.digest))
            return f"it was not allowed: {answer.reason}"
        decision = ServerDecision(one.server.name, one.digest, answer.allowed, self._clock.now())
        async with self._deciding:
            await asyncio.to_thread(keep_decision, self._layout, decision)
        self._on_change()
        return None if answer.allowed else f"it was not allowed: {answer.reason}"

    def _find(self, digest: str) -> ServerDecision | None:
        try:
            known = load_decisions(self._layout)
        except AgentdError:  # the health check reports it; until then it is asked again
            return None
        return next((one for one in known if one.digest == digest), None)


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
        " without another question wherever an editor names it in the same way."
    )
    return Question("other", TOOL, describe_launch(server, masked=True), protected=why)
