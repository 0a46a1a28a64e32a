"""Wires the agent: engines, dispatcher and approvals, as the settings say."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from agentd.agent.approval_rules import ApprovalPolicy, ApprovalRule, find_place
from agentd.agent.approvals import ApprovalService
from agentd.agent.budget import SpendBudget
from agentd.agent.command_paths import explain_protection
from agentd.agent.custom_commands.store import CommandDirectory
from agentd.agent.dispatcher import Dispatcher
from agentd.agent.engine import Engine, Question
from agentd.agent.engine_selection import EngineRegistry
from agentd.agent.engines.external.common import ModelEndpoint, WorkspaceBounds
from agentd.agent.hooks.directory import HookDirectory
from agentd.agent.mcp_servers.directory import McpDirectory
from agentd.agent.planner import ChatFolders, NoChatFolders, TurnPlanner
from agentd.agent.processes.table import ProcessTable
from agentd.agent.protected_folders import ProtectionRefreshingFolders, find_protected_places
from agentd.agent.suppliers import SupplierDirectory
from agentd.app.config_files import ConfigFiles
from agentd.chats.service import ChatService
from agentd.chats.turns import TurnRecorder
from agentd.core.clock import Clock
from agentd.core.events import EventBus
from agentd.llm.endpoint import ChannelDialect
from agentd.llm.upstream.client import HttpUpstream
from agentd.models.model import EngineName, Model
from agentd.models.program_state import ProgramStates
from agentd.settings.model import Settings
from agentd.storage.layout import Layout
from agentd.system.installed import find_missing_program
from agentd.system.orphans import kill_orphans
from agentd.system.protected_paths import ProtectedFiles, explain_risky_workspace

log = logging.getLogger(__name__)

_COMMANDS: Mapping[str, str] = {
    "codex": "codex_command",
    "claude-code": "claude_command",
    "acp": "acp_command",
}
"""The setting that starts an engine's program, when a model does not."""


class Agent(Struct):
    """The components that run prompts."""

    dispatcher: Dispatcher
    approvals: ApprovalService
    find_problem: Callable[[Model], Awaitable[str]]
    """Explain why a model cannot be used now, by cheap checks; empty if nothing prevents it."""
    programs: ProgramStates
    """The modes and usage limits of the engines' programs."""
    engines: EngineRegistry
    """Knows what models can do: be held to an output schema, work in a mode."""


class EngineComponent:
    """The engines that the settings and models name; ``engine`` replaces all of them.

    What it does follows the files as ``written`` has them at each turn.
    """

    def __init__(
        self,
        written: ConfigFiles,
        layout: Layout,
        environ: Mapping[str, str],
        mcp: McpDirectory,
        processes: ProcessTable,
        engine: Engine | None = None,
        on_hooks_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._mcp = mcp
        self._processes = processes
        self._config_files = written
        self._layout = layout
        self._generation = ""
        self._engine = engine
        self._book = SupplierDirectory(lambda: written.models.current, environ)
        self._upstream = HttpUpstream()
        self._bounds = WorkspaceBounds(written.settings.current.workspace)
        self._protected_files = ProtectedFiles()
        self.commands = CommandDirectory(layout, written.settings.current.workspace)
        """The custom commands."""
        self.hooks = HookDirectory(layout, on_hooks_change, written.settings.current.workspace)
        """The hooks of the native engine."""

    async def start(self, generation: str) -> None:
        """End what a killed daemon of this state folder left behind."""
        self._generation = generation
        protected = await asyncio.to_thread(find_protected_places, self._layout)
        self._protected_files.paths = tuple(protected.files)
        protected = replace(protected, files=self._protected_files)
        self._bounds = WorkspaceBounds(self._bounds.folder, os.path.realpath, protected)
        self.commands.protect(protected)
        await self.hooks.file.refresh()
        if why := explain_risky_workspace(os.path.realpath(self._bounds.folder), protected.home):
            log.warning("%s", why)
        if not await asyncio.to_thread(os.path.isdir, self._bounds.folder):
            log.warning(
                "the workspace %s is not there: prompts fail until it is", self._bounds.folder
            )
        await kill_orphans(generation, dead_owner=True)

    def use_gateway(
        self, url: str, key: str, find_dialects: Callable[[str], Sequence[ChannelDialect]]
    ) -> None:
        """Let the engines also use the models of the daemon's own gateway, which is up now.

        ``find_dialects`` returns those in which it reaches a model without translation.
        """
        self._book.gateway = ModelEndpoint(url, key)
        self._book.find_gateway_dialects = find_dialects

    async def stop(self) -> None:
        """Cut every connection to a supplier."""
        await self.hooks.file.stop()
        await self._upstream.close()

    def build_agent(
        self,
        chats: ChatService,
        turns: TurnRecorder,
        clock: Clock,
        bus: EventBus,
        folders: ChatFolders | None = None,
    ) -> Agent:
        """Return the agent that works on these chats."""
        now, written = self._get_settings, self._config_files
        approvals = ApprovalService(
            turns,
            clock,
            self._get_policy,
            self._get_budget,
            self._store_rule,
            self._explain_command,
            os.path.realpath(self._bounds.folder),
        )
        programs = ProgramStates(clock, bus)
        build_engines = EngineRegistry(
            self._build_engines, lambda: now().engine, lambda: written.models.current, programs
        )
        mark = self._generation
        all_chats, skills = chats.list_all_summaries, written.skills
        planner = TurnPlanner(
            turns,
            build_engines,
            skills,
            clock,
            all_chats,
            self._get_budget,
            mark,
            ProtectionRefreshingFolders(
                folders or NoChatFolders(), self._layout, self._protected_files
            ),
            self.commands,
        )
        dispatcher = Dispatcher(
            turns,
            planner,
            approvals,
            clock,
            bus,
            programs,
            lambda: now().max_parallel_turns,
            lambda: now().on_interrupted == "retry",
        )
        return Agent(dispatcher, approvals, self._explain_unavailable, programs, build_engines)

    def _explain_command(self, command: str, folder: str) -> str:
        """Explain why a path in a command line is protected; empty when none is. Blocking."""
        bounds = self._bounds.move_to(folder) if folder else self._bounds
        return explain_protection(command, bounds)

    async def _explain_unavailable(self, model: Model) -> str:
        """Explain why a model cannot be used now, by cheap checks; empty if nothing prevents it."""
        command = model.command or getattr(
            self._get_settings(), _COMMANDS.get(model.engine, ""), ()
        )
        if command and (why := await asyncio.to_thread(find_missing_program, command[0])):
            return why
        return await self._book.find_problem(model.supplier)

    def _get_settings(self) -> Settings:
        return self._config_files.settings.current

    def _get_policy(self) -> ApprovalPolicy:
        now = self._get_settings()
        return ApprovalPolicy(now.approvals, now.approval_rules, now.approval_seconds)

    async def _store_rule(self, rule: ApprovalRule, question: Question) -> None:
        """Add a rule to the settings, where it decides the question."""
        place = partial(find_place, rule, question)
        await self._config_files.settings.add_approval_rule(rule, place)

    def _get_budget(self) -> SpendBudget:
        now = self._get_settings()
        return SpendBudget(now.budget_per_chat, now.budget_per_day)

    def _build_engines(self) -> Mapping[str, Engine]:
        if self._engine:
            return dict.fromkeys(get_args(EngineName), self._engine)

        # The start does not wait for it.
        from agentd.app.engines import build_engines  # noqa: PLC0415

        return build_engines(
            self._bounds,
            self._get_settings,
            self._book,
            self._upstream,
            self._layout,
            self._mcp,
            self.commands,
            self._processes,
            self.hooks,
        )
