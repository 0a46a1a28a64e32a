"""A turn of the native engine in a real folder, with the scripted supplier over real HTTP."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from agentd.agent.engine import (
    Answer,
    Assignment,
    Kept,
    Progress,
    Question,
    Replied,
    ToolStarted,
    ToolUsed,
    Wrote,
)
from agentd.agent.native.engine import NativeEngine
from agentd.agent.native.supplier import Patience, SupplierAccess
from agentd.agent.native.turn import Limits
from agentd.agent.protected import ProtectedPlaces
from agentd.agent.toolbox import Toolbox
from agentd.clock import Clock, SystemClock
from agentd.errors import NotFound
from agentd.outside.repository import GitRepository
from agentd.outside.terminal import ShellTerminal
from agentd.outside.upstream import HttpUpstream
from agentd.outside.workspace import FolderWorkspace
from agentd.proxy.dialects.conversation import DialectName
from agentd.proxy.price import Prices
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

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        if self.before:
            self.before()
        if question.kind in self.denied or ("protected" in self.denied and question.protected):
            return Answer(False, reason="Not while I am at lunch.")
        return Answer(True)


@dataclass
class Scene:
    """A workspace, a supplier and an engine between them."""

    root: Path
    supplier: Supplier
    dialect: DialectName = "openai-chat"
    person: Person = field(default_factory=Person)
    limits: Limits = field(default_factory=Limits)
    patience: Patience = field(default_factory=lambda: Patience(first=0.001, longest=0.01))
    clock: Clock = field(default_factory=SystemClock)
    prices: Prices | None = PRICES
    url: str = ""
    workspace: FolderWorkspace | None = None
    seconds: float = 120.0
    """What a turn may take by the loop's time: else it hangs."""
    so_far: list[Progress] = field(default_factory=list)
    """What the last turn has told, while it tells more."""

    def engine(self, upstream: HttpUpstream) -> NativeEngine:
        """The engine, as the daemon builds it."""
        protected = ProtectedPlaces(state=str(self.root / "state"))
        workspace = self.workspace or FolderWorkspace(str(self.root), protected=protected)
        root = str(self.root)
        tools = Toolbox(workspace, GitRepository(root), ShellTerminal(root))
        return NativeEngine(
            tools,
            upstream,
            self._access,
            lambda supplier, model: self.prices,
            limits=lambda: self.limits,
            patience=self.patience,
            clock=self.clock,
        )

    async def _access(self, name: str) -> SupplierAccess:
        if name != "acme":
            raise NotFound(f"No supplier is named {name}.")
        return SupplierAccess(name, self.dialect, self.url or self.supplier.url, KEY)

    def run(self, prompt: str = "Do it.", **more) -> list[Progress]:
        """All that is told of a turn."""
        return asyncio.run(self.told(prompt, **more))

    async def told(self, prompt: str = "Do it.", **more) -> list[Progress]:
        """All that is told of a turn."""
        assignment = Assignment(1, prompt, **{"model": "large", "supplier": "acme", **more})
        upstream = HttpUpstream()
        try:
            stream = self.engine(upstream).run(assignment, self.person)
            so_far: list[Progress] = []
            self.so_far = so_far
            async with asyncio.timeout(self.seconds), aclosing(stream) as told:
                async for progress in told:
                    so_far.append(progress)
            return so_far
        finally:
            await upstream.close()


def last(told: list[Progress]) -> Progress:
    """The last that is told, but for what is kept."""
    return [one for one in told if not isinstance(one, Kept)][-1]


def replies(told: list[Progress]) -> list[str]:
    """The texts of all replies."""
    return [progress.text for progress in told if isinstance(progress, Replied)]


def written(told: list[Progress]) -> str:
    """All that was shown as it grew."""
    return "".join(progress.text for progress in told if isinstance(progress, Wrote))


def used(told: list[Progress]) -> list[tuple[str, str]]:
    """Each tool's name and outcome."""
    return [
        (progress.name, progress.outcome) for progress in told if isinstance(progress, ToolUsed)
    ]


def started(told: list[Progress]) -> list[str]:
    """The names of the tools as they began."""
    return [progress.name for progress in told if isinstance(progress, ToolStarted)]
