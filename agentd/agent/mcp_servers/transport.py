"""How messages reach a server and come back: the interface of ``stdio`` and ``http``."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from agentd.agent.mcp_servers.messages import JsonMap

OnMessage: TypeAlias = Callable[[JsonMap], None]
"""Called with each message of the server."""
OnClosed: TypeAlias = Callable[[str], None]
"""Called once with the reason, when no further message can come; not after ``close``."""


class MessageTransport(Protocol):
    """A connection to one server."""

    async def open(self, on_message: OnMessage, on_closed: OnClosed) -> None:
        """Start the program, or do nothing; raises ``Unavailable``."""
        ...

    async def send(self, message: bytes, *, is_request: bool) -> None:
        """Send one message; raises ``Unavailable``."""
        ...

    def on_initialized(self, revision: str) -> None:
        """Take up the revision that was agreed on."""
        ...

    async def close(self) -> None:
        """End the connection, and the program with everything that it started."""
        ...
