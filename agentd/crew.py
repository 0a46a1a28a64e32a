"""The agent as it is composed from the settings: engines, dispatcher, approvals.

A part of the composition root (``daemon``), apart because engines are many.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import get_args

from agentd.agent.approval import Policy
from agentd.agent.approvals import Approvals
from agentd.agent.assigning import Assigner
from agentd.agent.budget import Budget
from agentd.agent.engine import Engine
from agentd.agent.engines import Engines
from agentd.agent.offline.engine import OfflineEngine
from agentd.agent.service import Dispatcher
from agentd.agent.toolbox import Toolbox
from agentd.catalog.models import EngineName, Models
from agentd.catalog.settings import Settings
from agentd.chats.service import ChatService
from agentd.chats.turns import Turns
from agentd.clock import Clock
from agentd.disk.layout import Layout
from agentd.disk.skills import SkillFolder
from agentd.events import Bus
from agentd.outside.repository import GitRepository
from agentd.outside.terminal import ShellTerminal
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
        models: Callable[[], Models],
        engine: Engine | None = None,
    ) -> None:
        self._settings = settings
        self._layout = layout
        self._environ = environ
        self._models = models
        self._engine = engine

    def hired(
        self, chats: ChatService, turns: Turns, clock: Clock, bus: Bus, generation: str
    ) -> Agent:
        """The agent of a daemon whose state folder has this ``generation``."""
        settings = self._settings
        policy = Policy(settings.approvals, settings.approval_rules, settings.approval_seconds)
        budget = Budget(settings.budget_per_chat, settings.budget_per_day)
        approvals = Approvals(turns, clock, policy, budget)
        engines = Engines(self._engines(), settings.engine, self._models)
        skills = SkillFolder(self._layout)
        assigner = Assigner(turns, engines, skills, clock, chats.summaries, budget, generation)
        parallel = settings.max_parallel_turns
        dispatcher = Dispatcher(turns, assigner, approvals, clock, bus, parallel)
        return Agent(dispatcher, approvals)

    def _engines(self) -> dict[str, Engine]:
        if self._engine:
            return dict.fromkeys(get_args(EngineName), self._engine)
        return {"offline": OfflineEngine(self._toolbox())}

    def _toolbox(self) -> Toolbox:
        root = self._settings.workspace
        ours = self._layout
        secret = (ours.state, ours.settings, ours.models, os.path.join(root, ".env"))
        workspace = FolderWorkspace(root, closed=secret)
        return Toolbox(workspace, GitRepository(root), ShellTerminal(root))
