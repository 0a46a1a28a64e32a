"""The agent as it is composed from the settings: engines, dispatcher, approvals.

A part of the composition root (``daemon``), apart because engines are many.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import get_args

from agentd.agent.acp.conversation import AcpConversation
from agentd.agent.acp.launch import launch as acp_launch
from agentd.agent.approval import Policy
from agentd.agent.approvals import Approvals
from agentd.agent.assigning import Assigner
from agentd.agent.budget import Budget
from agentd.agent.claude_code.conversation import ClaudeConversation
from agentd.agent.claude_code.launch import launch as claude_launch
from agentd.agent.codex.conversation import CodexConversation
from agentd.agent.codex.launch import launch as codex_launch
from agentd.agent.conversation import Conversation, Launch
from agentd.agent.engine import Assignment, Engine
from agentd.agent.engines import Engines
from agentd.agent.foreign import Bounds, Endpoint
from agentd.agent.native.engine import NativeEngine
from agentd.agent.native.turn import Limits
from agentd.agent.offline.engine import OfflineEngine
from agentd.agent.service import Dispatcher
from agentd.agent.toolbox import Toolbox
from agentd.catalog.models import EngineName, Model
from agentd.catalog.settings import Settings
from agentd.chats.service import ChatService
from agentd.chats.turns import Turns
from agentd.clock import Clock
from agentd.daemon.written import HandWritten
from agentd.disk.layout import Layout
from agentd.disk.suppliers import SupplierBook
from agentd.events import Bus
from agentd.outside.installed import missing
from agentd.outside.repository import GitRepository
from agentd.outside.stdio_engine import Make, StdioEngine
from agentd.outside.stdio_turn import Patience
from agentd.outside.strays import end_strays
from agentd.outside.terminal import ShellTerminal
from agentd.outside.upstream import HttpUpstream
from agentd.outside.workspace import FolderWorkspace

_COMMANDS: Mapping[str, str] = {
    "codex": "codex_command",
    "claude-code": "claude_command",
    "acp": "acp_command",
}
"""The setting that starts an engine's program, when a model does not."""


@dataclass(slots=True)
class Agent:
    """What works on the chats."""

    dispatcher: Dispatcher
    approvals: Approvals
    trouble: Callable[[Model], Awaitable[str]]
    """Why a model cannot be used now; empty: nothing is seen that hinders."""


class Crew:
    """The engines that the settings and models name; ``engine`` stands in for all of them.

    What it does follows the files as ``written`` has them at each turn.
    """

    def __init__(
        self,
        written: HandWritten,
        layout: Layout,
        environ: Mapping[str, str],
        engine: Engine | None = None,
    ) -> None:
        self._written = written
        self._layout = layout
        self._generation = ""
        self._engine = engine
        self._book = SupplierBook(lambda: written.models.current, environ)
        self._upstream = HttpUpstream()
        self._root = written.settings.current.workspace
        self._bounds = Bounds(self._root, os.path.realpath)

    async def start(self, generation: str) -> None:
        """End what a killed daemon of this state folder left behind."""
        self._generation = generation
        await end_strays(generation, orphans=True)

    def reach_gateway(self, url: str, key: str) -> None:
        """The daemon's own gateway is up: the engines find their models there, too."""
        self._book.gateway = Endpoint(url, key)

    async def stop(self) -> None:
        """Cut every connection to a supplier."""
        await self._upstream.close()

    def hired(self, chats: ChatService, turns: Turns, clock: Clock, bus: Bus) -> Agent:
        """The agent that works on these chats."""
        now, written = self._now, self._written
        approvals = Approvals(turns, clock, self._policy, self._budget)
        engines = Engines(self._engines(), lambda: now().engine, lambda: written.models.current)
        mark = self._generation
        all_chats, skills = chats.summaries, written.skills
        assigner = Assigner(turns, engines, skills, clock, all_chats, self._budget, mark)
        dispatcher = Dispatcher(
            turns, assigner, approvals, clock, bus, lambda: now().max_parallel_turns
        )
        return Agent(dispatcher, approvals, self._trouble)

    async def _trouble(self, model: Model) -> str:
        """Why a model cannot be used now, by cheap checks; empty: nothing is seen that hinders."""
        command = model.command or getattr(self._now(), _COMMANDS.get(model.engine, ""), ())
        if command and (why := await asyncio.to_thread(missing, command[0])):
            return why
        return await self._book.trouble(model.supplier)

    def _now(self) -> Settings:
        return self._written.settings.current

    def _policy(self) -> Policy:
        now = self._now()
        return Policy(now.approvals, now.approval_rules, now.approval_seconds)

    def _budget(self) -> Budget:
        now = self._now()
        return Budget(now.budget_per_chat, now.budget_per_day)

    def _limits(self) -> Limits:
        now = self._now()
        return Limits(now.turn_steps, now.turn_seconds, now.turn_cost)

    def _engines(self) -> dict[str, Engine]:
        if self._engine:
            return dict.fromkeys(get_args(EngineName), self._engine)
        tools = self._toolbox()
        return {
            "offline": OfflineEngine(tools),
            "native": self._native(tools),
            "codex": self._program("codex", self._codex, "Install it, then run: codex login"),
            "claude-code": self._program(
                "claude-code", self._claude, "Install it, then run: claude, and sign in."
            ),
            "acp": self._program("acp", self._acp, "Name an ACP agent: acp_command, or a model's."),
        }

    def _native(self, tools: Toolbox) -> NativeEngine:
        access, prices = self._book.access, self._book.prices
        return NativeEngine(tools, self._upstream, access, prices, limits=self._limits)

    def _program(self, name: str, make: Make, advice: str) -> StdioEngine:
        def patience() -> Patience:
            return Patience(silence=self._now().silence_seconds)

        return StdioEngine(name, self._root, make, advice=advice, patience=patience)

    async def _codex(self, given: Assignment) -> tuple[Launch, Conversation]:
        endpoint = await self._book.endpoint(given.supplier)
        command = self._now().codex_command
        return codex_launch(given, command, endpoint), CodexConversation(given, self._bounds)

    async def _claude(self, given: Assignment) -> tuple[Launch, Conversation]:
        endpoint = await self._book.endpoint(given.supplier)
        launched = claude_launch(given, self._now().claude_command, endpoint)
        return launched, ClaudeConversation(given, self._bounds, launched)

    async def _acp(self, given: Assignment) -> tuple[Launch, Conversation]:
        endpoint = await self._book.endpoint(given.supplier)
        command = self._now().acp_command
        prices = self._book.prices(given.supplier, given.model)
        launched = acp_launch(given, command, endpoint, prices)
        return launched, AcpConversation(given, self._bounds)

    def _toolbox(self) -> Toolbox:
        root = self._root
        ours = self._layout
        secret = (ours.state, ours.settings, ours.models, os.path.join(root, ".env"))
        workspace = FolderWorkspace(root, closed=secret)
        return Toolbox(workspace, GitRepository(root), ShellTerminal(root))
