"""The servers of a workspace's ``.mcp.json``: a person is asked before one is used.

Once for each server and content: what was allowed is started without another question until its
entry changes. What was decided is kept in ``mcp-decisions.json`` of the state folder. Where nobody
answers it is denied, and not asked again in this chat by this run of the daemon.
"""

import asyncio
import os
from typing import Literal

import msgspec
from msgspec import Struct

from agentd.agent.approvals import BY_NOBODY
from agentd.agent.engine import Approver, Question
from agentd.agent.mcp_servers.model import (
    PROJECT_FILE,
    McpServerSettings,
    ProjectServer,
    describe_launch,
    parse_project_file,
)
from agentd.core.clock import Clock, SystemClock, Timestamp
from agentd.core.errors import AgentdError, ConfigError, ConfigProblem
from agentd.storage import document
from agentd.storage.layout import Layout

LARGEST_FILE = 256 * 1024
MOST_DECISIONS = 500
"""The oldest ones are forgotten, and asked about again."""
TOOL = "mcp_server"
"""The tool in the question about a server."""


class ServerDecision(Struct, frozen=True):
    """A person's decision about a server with this content."""

    name: str
    digest: str
    allowed: bool
    at: Timestamp


class DecisionsFile(Struct, frozen=True):
    """The content of ``mcp-decisions.json``."""

    decisions: tuple[ServerDecision, ...] = ()
    format: Literal[1] = 1


def load_decisions(layout: Layout) -> tuple[ServerDecision, ...]:
    """Return what was decided, the oldest first; ``ConfigError`` if the file is damaged.

    Blocking.
    """
    path = layout.mcp_decisions
    found = document.read_document(path, 2**20, own=True)
    if found is None:
        return ()
    try:
        return msgspec.json.decode(found.data, type=DecisionsFile).decisions
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = f"is damaged: {error}; delete it, and each server is asked about again"
        raise ConfigError([ConfigProblem(path, 0, what)]) from error


class ProjectServers:
    """Finds the allowed servers of a folder's ``.mcp.json``, and asks about the others."""

    def __init__(self, layout: Layout, clock: Clock | None = None) -> None:
        self._layout = layout
        self._clock = clock or SystemClock()
        self._unanswered: set[tuple[int, str]] = set()
        self._deciding = asyncio.Lock()

    async def find_allowed(
        self, folder: str, chat_id: int, approver: Approver | None
    ) -> tuple[tuple[McpServerSettings, ...], tuple[tuple[str, str], ...]]:
        """Return the servers that may be used, and others with the reason.

        Without an ``approver`` nobody is asked.
        """
        servers, problems = await asyncio.to_thread(_read, folder)
        failures = [(PROJECT_FILE, problem) for problem in problems]
        allowed: list[McpServerSettings] = []
        for one in servers:
            why = await self._decide(one, chat_id, approver)
            if why is None:
                allowed.append(one.server)
            elif why:
                failures.append((one.server.name, why))
        return tuple(allowed), tuple(failures)

    async def _decide(
        self, one: ProjectServer, chat_id: int, approver: Approver | None
    ) -> str | None:
        """Return None if it may be used; else what the history is told, empty for nothing."""
        async with self._deciding:
            known = await asyncio.to_thread(self._find, one.digest)
        if known:
            return None if known.allowed else ""
        if approver is None or (chat_id, one.digest) in self._unanswered:
            return ""
        answer = await approver.ask(_ask_about(one.server))
        if not answer.allowed and not answer.by_person:
            if answer.reason == BY_NOBODY:
                self._unanswered.add((chat_id, one.digest))
            return f"it was not allowed: {answer.reason}"
        decision = ServerDecision(one.server.name, one.digest, answer.allowed, self._clock.now())
        async with self._deciding:
            await asyncio.to_thread(self._keep, decision)
        return None if answer.allowed else f"it was not allowed: {answer.reason}"

    def _find(self, digest: str) -> ServerDecision | None:
        try:
            known = load_decisions(self._layout)
        except AgentdError:  # the health check reports it; until then it is asked again
            return None
        return next((one for one in known if one.digest == digest), None)

    def _keep(self, decision: ServerDecision) -> None:
        others = [one for one in load_decisions(self._layout) if one.digest != decision.digest]
        kept = DecisionsFile((*others, decision)[-MOST_DECISIONS:])
        document.replace_document(self._layout.mcp_decisions, msgspec.json.encode(kept) + b"\n")


def _read(folder: str) -> tuple[tuple[ProjectServer, ...], tuple[str, ...]]:
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
