"""Which MCP servers a turn has: those of ``mcp.yml``, and allowed ones of the workspace."""

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from agentd.agent.engine import Approver
from agentd.agent.mcp_servers import store
from agentd.agent.mcp_servers.chat_servers import ChatServers
from agentd.agent.mcp_servers.messages import RemoteTool, ServerPrompt
from agentd.agent.mcp_servers.model import (
    McpServerSettings,
    McpSettings,
    ProjectServer,
    ReadyServer,
    for_engine,
    merge_servers,
)
from agentd.agent.mcp_servers.project import ProjectServers, ask_about_editors
from agentd.agent.mcp_servers.states import ServerStates
from agentd.agent.mcp_servers.turn_tools import McpTools, NoMcpTools
from agentd.agent.workspace_decisions import WorkspaceDecision
from agentd.core.errors import AgentdError, ConfigError
from agentd.storage.layout import Layout
from agentd.storage.watched_file import WatchedFile

Failures: TypeAlias = tuple[tuple[str, str], ...]
"""Servers that cannot be used, each with the reason."""

if TYPE_CHECKING:
    from agentd.agent.mcp_servers.pool import McpPool


class McpDirectory:
    """The servers as ``mcp.yml`` has them now.

    ``generation`` marks the programs of this state folder's daemon. ``on_change`` is called when
    the file, a decision, or what is known of a server is another. Decisions count in the
    ``workspace`` and in work trees of it.
    """

    def __init__(
        self,
        layout: Layout,
        environ: Mapping[str, str],
        generation: str,
        on_change: Callable[[], None] = lambda: None,
        workspace: str = "",
    ) -> None:
        self.file = WatchedFile(
            layout.mcp_settings, partial(store.load, layout), McpSettings(), on_change
        )
        """The current content of ``mcp.yml``."""
        self.states = ServerStates(on_change)
        """What came of the last use of each server."""
        self.chats = ChatServers()
        """The servers that clients of single chats name."""
        self._environ = environ
        self._project = ProjectServers(layout, on_change, workspace)
        self._generation = generation
        self._pool: McpPool | None = None

    def _get_pool(self) -> "McpPool":
        if self._pool is None:
            from agentd.agent.mcp_servers.pool import McpPool  # noqa: PLC0415 - few need it

            self._pool = McpPool(self._generation, states=self.states)
        return self._pool

    def count_running(self, name: str) -> int:
        """Return in how many chats a server of this name works, started by the daemon itself."""
        return self._pool.count_running(name) if self._pool else 0

    def list_prompts(self, chat_id: int) -> list[tuple[str, ServerPrompt]]:
        """Return the prompts of the servers that work for a chat now, each with its server."""
        return self._pool.list_prompts(chat_id) if self._pool else []

    async def list_project(
        self, folder: str
    ) -> tuple[tuple[ProjectServer, ...], tuple[WorkspaceDecision, ...], tuple[str, ...]]:
        """Return the servers of a folder's ``.mcp.json``, all decisions, and the problems."""
        return await asyncio.to_thread(self._project.read, folder)

    async def withdraw(self, digest: str) -> None:
        """Forget a decision, and end the server; ``NotFound``."""
        decision = await self._project.withdraw(digest)
        if self._pool:
            self._pool.end_project_server(decision.name)

    async def close(self) -> None:
        """End all servers."""
        if self._pool:
            await self._pool.close()

    async def open_turn(self, folder: str, chat_id: int, approver: Approver) -> "McpTools":
        """Return the tools of a native engine's turn, whose servers have been started."""
        servers, problems = await self.list_servers("native", folder, chat_id, approver)
        if not servers and not problems:
            return NoMcpTools()
        from agentd.agent.mcp_servers.toolset import McpToolset  # noqa: PLC0415 - few need it

        pool = self._get_pool()
        pool.begin_turn(chat_id, folder)
        toolset = McpToolset(pool, chat_id, servers, approver, self._is_in_use)
        toolset.failures = problems
        try:
            await toolset.open()
        except BaseException:
            toolset.close()
            raise
        return toolset

    async def _is_in_use(self, server: ReadyServer) -> bool:
        """Return whether the native engine may use a server still, as far as ``mcp.yml`` says."""
        await self.file.ensure_current()
        own = for_engine(self.file.current.all, "native")
        return not server.configured or any(one.name == server.name for one in own)

    async def list_servers(
        self, engine: str, folder: str, chat_id: int = 0, approver: Approver | None = None
    ) -> tuple[tuple[ReadyServer, ...], Failures]:
        """Return the servers that an engine gets, and those that lack something, with what.

        A person is asked about new ones of the folder's ``.mcp.json``, if there is an approver.
        While ``mcp.yml`` was never valid, it is reported like a server that cannot be used, and
        those of ``.mcp.json``, which it may exclude, are left out.
        """
        await self.file.ensure_current()
        settings = self.file.current
        own = for_engine(settings.all, engine)
        theirs: tuple[McpServerSettings, ...] = ()
        failures: Failures = ()
        if not self.file.was_valid:
            failures = ((os.path.basename(self.file.path), str(self.file.problems[0])),)
        elif settings.project_servers:
            theirs, failures = await self._project.find_allowed(folder, chat_id, approver)
        if named := self.chats.get(chat_id):
            more, problems = await self._project.select_allowed(
                named, chat_id, approver, describe=ask_about_editors
            )
            theirs, failures = (*more, *theirs), (*failures, *problems)
        if not own and not theirs:
            return (), failures
        ready, problems = await asyncio.to_thread(self._prepare_all, own, theirs, settings)
        for name, problem in problems:
            self.states.note_problem(name, problem)
        return ready, (*failures, *problems)

    async def list_tools(self, server: McpServerSettings, folder: str) -> tuple[RemoteTool, ...]:
        """Start or call a server for a moment, and return its tools; an ``AgentdError`` if not."""
        try:
            ready = await asyncio.to_thread(store.prepare_server, server, self._environ)
            connection = self._get_pool().build(ready, folder)
            await connection.open()
        except AgentdError as error:
            self.states.note_problem(server.name, error.message)
            raise
        try:
            self.states.note_started(server.name, len(connection.tools))
            return connection.tools
        finally:
            await connection.close()

    def _prepare_all(
        self,
        own: tuple[McpServerSettings, ...],
        theirs: tuple[McpServerSettings, ...],
        settings: McpSettings,
    ) -> tuple[tuple[ReadyServer, ...], Failures]:
        environ = self._environ
        ready, problems = _prepare(own, lambda one: store.prepare_server(one, environ))
        others, more = _prepare(
            theirs, lambda one: store.prepare_project_server(one, settings, environ)
        )
        return merge_servers(ready, others), (*problems, *more)


def _prepare(
    servers: tuple[McpServerSettings, ...],
    prepare: Callable[[McpServerSettings], ReadyServer],
) -> tuple[tuple[ReadyServer, ...], Failures]:
    ready: list[ReadyServer] = []
    problems: list[tuple[str, str]] = []
    for server in servers:
        try:
            ready.append(prepare(server))
        except ConfigError as error:
            problems.append((server.name, error.problems[0].what))
        except AgentdError as error:
            problems.append((server.name, error.message))
    return tuple(ready), tuple(problems)
