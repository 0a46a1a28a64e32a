"""The tools of MCP servers as a turn of the native engine uses them."""

from typing import Protocol

import msgspec
from msgspec import Struct

from agentd.agent.engine import Approver
from agentd.agent.mcp_servers.messages import JsonMap, RemoteResult
from agentd.agent.text import sanitize
from agentd.core.errors import NotFound
from agentd.llm.conversation import ToolDefinition


class McpToolUse(Struct, frozen=True):
    """A call of the model: a server's tool, or one of the two for resources."""

    name: str
    arguments: JsonMap

    @property
    def shown(self) -> str:
        """The arguments as a person reads them."""
        return sanitize(msgspec.json.encode(self.arguments).decode())


class McpTools(Protocol):
    """The tools of MCP servers during one turn."""

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What the model is offered."""
        ...

    @property
    def failures(self) -> tuple[tuple[str, str], ...]:
        """The servers that cannot be used in this turn, each with the reason."""
        ...

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """The servers that are used in part, each with what the chat is told of it."""
        ...

    def has(self, name: str) -> bool:
        """Return whether this is the name of one of these tools."""
        ...

    def reads_unasked(self, name: str) -> bool:
        """Return whether a tool only reads, as its server says, and the settings allow it."""
        ...

    async def refresh(self) -> bool:
        """Take up lists that changed; return whether the definitions did."""
        ...

    async def use(self, use: McpToolUse, approver: Approver, why: str) -> RemoteResult:
        """Ask for approval where needed, and run it; raises an ``AgentdError``."""
        ...

    async def get_prompt(self, server: str, name: str, arguments: str) -> str | None:
        """Return the text of a server's prompt; None if there is none of this name.

        ``arguments`` is what was typed after the name. Raises an ``AgentdError``.
        """
        ...

    def close(self) -> None:
        """End the turn."""
        ...


class NoMcpTools:
    """For turns without servers."""

    definitions: tuple[ToolDefinition, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    notes: tuple[tuple[str, str], ...] = ()

    def has(self, name: str) -> bool:
        """Return that there is none."""
        return False

    def reads_unasked(self, name: str) -> bool:
        """Return that there is none."""
        return False

    async def refresh(self) -> bool:
        """Return that nothing changed."""
        return False

    async def use(self, use: McpToolUse, approver: Approver, why: str) -> RemoteResult:
        """Raise ``NotFound``."""
        raise NotFound(f"There is no tool named {use.name}")

    async def get_prompt(self, server: str, name: str, arguments: str) -> str | None:
        """Return that there is none."""
        return None

    def close(self) -> None:
        """Do nothing."""


async def open_no_tools(chat_id: int, approver: Approver) -> McpTools:
    """Return the tools of a turn without servers."""
    return NoMcpTools()
