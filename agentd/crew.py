"""The agent as it is composed from the settings: engines, dispatcher, approvals.

A part of the composition root (``daemon``), apart because engines are many.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
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
from agentd.agent.foreign import Bounds
from agentd.agent.native.engine import NativeEngine
from agentd.agent.native.turn import Limits
from agentd.agent.offline.engine import OfflineEngine
from agentd.agent.service import Dispatcher
from agentd.agent.toolbox import Toolbox
from agentd.catalog.models import EngineName, Models
from agentd.catalog.settings import Settings
from agentd.chats.service import ChatService
from agentd.chats.turns import Turns
from agentd.clock import Clock
from agentd.disk.layout import Layout
from agentd.disk.models import load as load_models
from agentd.disk.reload import Reloaded
from agentd.disk.skills import SkillFolder
from agentd.disk.suppliers import SupplierBook
from agentd.events import Bus
from agentd.outside.repository import GitRepository
from agentd.outside.stdio_engine import Make, StdioEngine
from agentd.outside.stdio_turn import Patience
from agentd.outside.strays import end_strays
from agentd.outside.terminal import ShellTerminal
from agentd.outside.upstream import HttpUpstream
from agentd.outside.workspace import FolderWorkspace


@dataclass(slots=True)
class Agent:
    """What works on the chats."""

    dispatcher: Dispatcher
    approvals: Approvals


class Crew:
    """The engines that the settings and models name; ``engine`` stands in for all of them."""

    def __init__(
        self,
        settings: Settings,
        layout: Layout,
        environ: Mapping[str, str],
        engine: Engine | None = None,
    ) -> None:
        self.models = Reloaded(layout.models, partial(load_models, layout), Models())
        """What ``models.yml`` says now."""
        self._settings = settings
        self._layout = layout
        self._generation = ""
        self._engine = engine
        self._book = SupplierBook(lambda: self.models.current, environ)
        self._upstream = HttpUpstream()
        self._bounds = Bounds(settings.workspace, os.path.realpath)

    async def start(self, generation: str) -> None:
        """End what a killed daemon of this state folder left behind, and read the models."""
        self._generation = generation
        await end_strays(generation)
        await self.models.refresh()

    async def stop(self) -> None:
        """Cut every connection to a supplier."""
        await self.models.stop()
        await self._upstream.close()

    def hired(self, chats: ChatService, turns: Turns, clock: Clock, bus: Bus) -> Agent:
        """The agent that works on these chats."""
        settings = self._settings
        policy = Policy(settings.approvals, settings.approval_rules, settings.approval_seconds)
        budget = Budget(settings.budget_per_chat, settings.budget_per_day)
        approvals = Approvals(turns, clock, policy, budget)
        engines = Engines(self._engines(), settings.engine, lambda: self.models.current)
        skills = SkillFolder(self._layout)
        mark = self._generation
        assigner = Assigner(turns, engines, skills, clock, chats.summaries, budget, mark)
        parallel = settings.max_parallel_turns
        dispatcher = Dispatcher(turns, assigner, approvals, clock, bus, parallel)
        return Agent(dispatcher, approvals)

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
        settings = self._settings
        limits = Limits(settings.turn_steps, settings.turn_seconds, settings.turn_cost)
        access = self._book.access
        return NativeEngine(tools, self._upstream, access, self._book.prices, limits=limits)

    def _program(self, name: str, make: Make, advice: str) -> StdioEngine:
        patience = Patience(silence=self._settings.silence_seconds)
        root = self._settings.workspace
        return StdioEngine(name, root, make, advice=advice, patience=patience)

    async def _codex(self, given: Assignment) -> tuple[Launch, Conversation]:
        endpoint = await self._book.endpoint(given.supplier)
        command = self._settings.codex_command
        return codex_launch(given, command, endpoint), CodexConversation(given, self._bounds)

    async def _claude(self, given: Assignment) -> tuple[Launch, Conversation]:
        endpoint = await self._book.endpoint(given.supplier)
        launched = claude_launch(given, self._settings.claude_command, endpoint)
        return launched, ClaudeConversation(given, self._bounds, launched)

    async def _acp(self, given: Assignment) -> tuple[Launch, Conversation]:
        endpoint = await self._book.endpoint(given.supplier)
        command = self._settings.acp_command
        prices = self._book.prices(given.supplier, given.model)
        launched = acp_launch(given, command, endpoint, prices)
        return launched, AcpConversation(given, self._bounds)

    def _toolbox(self) -> Toolbox:
        root = self._settings.workspace
        ours = self._layout
        secret = (ours.state, ours.settings, ours.models, os.path.join(root, ".env"))
        workspace = FolderWorkspace(root, closed=secret)
        return Toolbox(workspace, GitRepository(root), ShellTerminal(root))
