"""A turn of the native engine in a real folder, with the scripted supplier over real HTTP."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path

from agentd.agent.custom_commands.expansion import CommandEngine
from agentd.agent.custom_commands.model import CustomCommand
from agentd.agent.custom_commands.store import CommandDirectory
from agentd.agent.engine import (
    ApprovalAnswer,
    Engine,
    EngineEvent,
    Question,
    ReplyCompleted,
    ReplyDelta,
    ToolStarted,
    ToolUsed,
    TurnRequest,
)
from agentd.agent.engines.native.engine import NativeEngine
from agentd.agent.engines.native.supplier import RetryPolicy
from agentd.agent.engines.native.transcript_file import TranscriptFiles
from agentd.agent.engines.native.turn import TurnLimits
from agentd.agent.hooks.directory import HookDirectory, open_no_hooks
from agentd.agent.mcp_servers.turn_tools import open_no_tools
from agentd.agent.tools.files import FolderWorkspace
from agentd.agent.tools.shell import ShellTerminal
from agentd.agent.tools.toolbox import OpenMcpTools, Toolbox
from agentd.core.clock import Clock, SystemClock
from agentd.core.errors import NotFound
from agentd.llm.conversation import DialectName
from agentd.llm.endpoint import SupplierAccess
from agentd.llm.price import Prices
from agentd.llm.upstream.client import HttpUpstream
from agentd.storage.layout import Layout
from agentd.system.protected_paths import ProtectedPlaces
from agentd.workspace.git.repository import GitRepository
from agentd.workspace.uploads.named import read_named_images
from tests.supplier.supplier import Supplier

KEY = "sk-canary-0123456789"
PRICES = Prices(input=Decimal(2), output=Decimal(10))
"""USD for a million tokens."""


class Person:
    """An approver: allows all but the kinds in ``denied``; ``before`` is done before it answers."""

    def __init__(self, *denied: str, before: Callable[[], None] | None = None) -> None:
        self.denied = denied
        self.before = before
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> ApprovalAnswer:
        self.asked.append(question)
        if self.before:
            self.before()
        if question.kind in self.denied or ("protected" in self.denied and question.protected):
            return ApprovalAnswer(False, reason="Not while I am at lunch.")
        return ApprovalAnswer(True)


@dataclass
class Scene:
    """A workspace, a supplier and an engine between them."""

    root: Path
    supplier: Supplier
    dialect: DialectName = "openai-chat"
    person: Person = field(default_factory=Person)
    limits: TurnLimits = field(default_factory=TurnLimits)
    patience: RetryPolicy = field(default_factory=lambda: RetryPolicy(first=0.001, longest=0.01))
    clock: Clock = field(default_factory=SystemClock)
    prices: Prices | None = PRICES
    url: str = ""
    workspace: FolderWorkspace | None = None
    kept: Path | None = None
    """The state folder in which conversations are kept; None: nowhere."""
    open_mcp: OpenMcpTools = open_no_tools
    hooks: HookDirectory | None = None
    commands: CommandDirectory | None = None
    seconds: float = 120.0
    """The most seconds that a turn may take: else it hangs."""
    so_far: list[EngineEvent] = field(default_factory=list)
    """The events of the last turn so far, while more are coming."""

    def build_tools(self) -> Toolbox:
        """Build the tools as the daemon builds them."""
        protected = ProtectedPlaces(state=str(self.root / "state"))
        workspace = self.workspace or FolderWorkspace(str(self.root), protected=protected)
        root = str(self.root)
        terminal = ShellTerminal(root)
        hooks = self.hooks and partial(self.hooks.open_turn, root, terminal.run_hook)
        return Toolbox(
            workspace,
            GitRepository(root),
            terminal,
            open_mcp=self.open_mcp,
            open_hooks=hooks or open_no_hooks,
            read_images=partial(read_named_images, root),
        )

    def build_engine(self, upstream: HttpUpstream) -> NativeEngine:
        """Build the engine as the daemon builds it, without its commands."""
        return NativeEngine(
            self.build_tools(),
            upstream,
            self._find_access,
            lambda supplier, model: self.prices,
            transcripts=self._open_transcripts(),
            limits=lambda: self.limits,
            retry_policy=self.patience,
            clock=self.clock,
        )

    def _open_transcripts(self) -> TranscriptFiles | None:
        if self.kept is None:
            return None
        (self.kept / "chats" / "1").mkdir(parents=True, exist_ok=True)
        return TranscriptFiles(Layout(str(self.kept), str(self.root / "config")))

    async def _find_command(self, given: TurnRequest) -> CustomCommand | None:
        return await self.commands.find_called(given.prompt, str(self.root))

    async def _find_access(self, name: str, model: str) -> SupplierAccess:
        if name != "acme":
            raise NotFound(f"No supplier is named {name}.")
        return SupplierAccess(name, self.dialect, self.url or self.supplier.url, KEY)

    def run(self, prompt: str = "Do it.", **more) -> list[EngineEvent]:
        """Run a turn and return all its events."""
        return asyncio.run(self.collect_events(prompt, **more))

    async def collect_events(self, prompt: str = "Do it.", **more) -> list[EngineEvent]:
        """Run a turn and return all its events."""
        assignment = TurnRequest(1, prompt, **{"model": "large", "supplier": "acme", **more})
        upstream = HttpUpstream()
        try:
            engine: Engine = self.build_engine(upstream)
            if self.commands:
                engine = CommandEngine(engine, self.build_tools(), self._find_command)
            stream = engine.run(assignment, self.person)
            so_far: list[EngineEvent] = []
            self.so_far = so_far
            async with asyncio.timeout(self.seconds), aclosing(stream) as told:
                async for progress in told:
                    so_far.append(progress)
            return so_far
        finally:
            await upstream.close()


def read_replies(told: list[EngineEvent]) -> list[str]:
    """Return the texts of all replies."""
    return [progress.text for progress in told if isinstance(progress, ReplyCompleted)]


def join_deltas(told: list[EngineEvent]) -> str:
    """Return all text that was shown as it grew."""
    return "".join(progress.text for progress in told if isinstance(progress, ReplyDelta))


def list_used_tools(told: list[EngineEvent]) -> list[tuple[str, str]]:
    """Return each tool's name and outcome."""
    return [
        (progress.name, progress.outcome) for progress in told if isinstance(progress, ToolUsed)
    ]


def list_started_tools(told: list[EngineEvent]) -> list[str]:
    """Return the names of the tools as they began."""
    return [progress.name for progress in told if isinstance(progress, ToolStarted)]
