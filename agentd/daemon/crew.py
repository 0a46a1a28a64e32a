"""The agent as it is composed from the settings: engines, dispatcher, approvals.

A part of the composition root (``daemon``), apart because engines are many.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import get_args

from msgspec import Struct

from agentd.agent.approval import Policy
from agentd.agent.approvals import Approvals
from agentd.agent.assigning import Assigner
from agentd.agent.budget import Budget
from agentd.agent.engine import Engine
from agentd.agent.engines import Engines
from agentd.agent.foreign import Bounds, Endpoint
from agentd.agent.named_places import why_protected
from agentd.agent.protected import why_risky_workspace
from agentd.agent.service import Dispatcher
from agentd.catalog.models import EngineName, Model
from agentd.catalog.settings import Settings
from agentd.chats.service import ChatService
from agentd.chats.turns import Turns
from agentd.clock import Clock
from agentd.daemon.written import HandWritten
from agentd.disk.layout import Layout
from agentd.disk.protected import find_protected_places
from agentd.disk.suppliers import SupplierBook
from agentd.events import Bus
from agentd.outside.installed import missing
from agentd.outside.strays import end_strays
from agentd.outside.upstream import HttpUpstream

log = logging.getLogger(__name__)

_COMMANDS: Mapping[str, str] = {
    "codex": "codex_command",
    "claude-code": "claude_command",
    "acp": "acp_command",
}
"""The setting that starts an engine's program, when a model does not."""


class Agent(Struct):
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
        self._bounds = Bounds(written.settings.current.workspace)

    async def start(self, generation: str) -> None:
        """End what a killed daemon of this state folder left behind."""
        self._generation = generation
        protected = await asyncio.to_thread(find_protected_places, self._layout)
        self._bounds = Bounds(self._bounds.folder, os.path.realpath, protected)
        if why := why_risky_workspace(os.path.realpath(self._bounds.folder), protected.home):
            log.warning("%s", why)
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
        approvals = Approvals(
            turns, clock, self._policy, self._budget, partial(why_protected, bounds=self._bounds)
        )
        engines = Engines(self._engines, lambda: now().engine, lambda: written.models.current)
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

    def _engines(self) -> Mapping[str, Engine]:
        if self._engine:
            return dict.fromkeys(get_args(EngineName), self._engine)
        from agentd.daemon.engines import engines  # noqa: PLC0415 - the start does not wait for it

        return engines(self._bounds, self._now, self._book, self._upstream)
