"""The engines as they are composed from the settings, a module apart because each is much code.

``crew`` imports it when the first turn begins: a daemon starts sooner without them.
"""

from collections.abc import Callable

from agentd.agent.acp.conversation import AcpConversation
from agentd.agent.acp.launch import launch as acp_launch
from agentd.agent.claude_code.conversation import ClaudeConversation
from agentd.agent.claude_code.launch import launch as claude_launch
from agentd.agent.codex.conversation import CodexConversation
from agentd.agent.codex.launch import launch as codex_launch
from agentd.agent.conversation import Conversation, Launch
from agentd.agent.engine import Assignment, Engine
from agentd.agent.foreign import Bounds
from agentd.agent.native.engine import NativeEngine
from agentd.agent.native.turn import Limits
from agentd.agent.offline.engine import OfflineEngine
from agentd.agent.toolbox import Toolbox
from agentd.catalog.settings import Settings
from agentd.disk.suppliers import SupplierBook
from agentd.outside.repository import GitRepository
from agentd.outside.stdio_engine import Make, StdioEngine
from agentd.outside.stdio_turn import Patience
from agentd.outside.terminal import ShellTerminal
from agentd.outside.upstream import HttpUpstream
from agentd.outside.workspace import FolderWorkspace


def engines(
    bounds: Bounds,
    now: Callable[[], Settings],
    book: SupplierBook,
    upstream: HttpUpstream,
) -> dict[str, Engine]:
    """All of them, working within ``bounds``; they follow the settings of each turn."""
    root, protected = bounds.folder, bounds.protected
    workspace = FolderWorkspace(root, protected=protected)
    tools = Toolbox(workspace, GitRepository(root, protected), ShellTerminal(root))

    def limits() -> Limits:
        return Limits(now().turn_steps, now().turn_seconds, now().turn_cost)

    return {
        "offline": OfflineEngine(tools),
        "native": NativeEngine(tools, upstream, book.access, book.prices, limits=limits),
        **program_engines(bounds, now, book),
    }


def program_engines(
    bounds: Bounds, now: Callable[[], Settings], book: SupplierBook
) -> dict[str, StdioEngine]:
    """Return the engines that are programs of their own, by name."""
    programs = _Programs(bounds, now, book)
    return {
        "codex": programs.engine("codex", programs.codex, "Install it, then run: codex login"),
        "claude-code": programs.engine(
            "claude-code", programs.claude, "Install it, then run: claude, and sign in."
        ),
        "acp": programs.engine(
            "acp", programs.acp, "Name an ACP agent: acp_command, or a model's."
        ),
    }


class _Programs:
    """Engines that are programs: how each is started and spoken with."""

    def __init__(self, bounds: Bounds, now: Callable[[], Settings], book: SupplierBook) -> None:
        self._now = now
        self._book = book
        self._bounds = bounds

    def engine(self, name: str, make: Make, advice: str) -> StdioEngine:
        """One of them; ``advice`` tells what to do when its program is not there."""

        def patience() -> Patience:
            return Patience(silence=self._now().silence_seconds)

        return StdioEngine(name, self._bounds.folder, make, advice=advice, patience=patience)

    async def codex(self, given: Assignment) -> tuple[Launch, Conversation]:
        """Codex, by its app server."""
        endpoint = await self._book.endpoint(given.supplier)
        command = self._now().codex_command
        return codex_launch(given, command, endpoint), CodexConversation(given, self._bounds)

    async def claude(self, given: Assignment) -> tuple[Launch, Conversation]:
        """Claude Code, by its stream of JSON."""
        endpoint = await self._book.endpoint(given.supplier)
        launched = claude_launch(given, self._now().claude_command, endpoint)
        return launched, ClaudeConversation(given, self._bounds, launched)

    async def acp(self, given: Assignment) -> tuple[Launch, Conversation]:
        """Any agent that speaks the Agent Client Protocol."""
        endpoint = await self._book.endpoint(given.supplier)
        command = self._now().acp_command
        prices = self._book.prices(given.supplier, given.model)
        launched = acp_launch(given, command, endpoint, prices)
        return launched, AcpConversation(given, self._bounds)
