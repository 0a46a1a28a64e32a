"""How messages reach a server and come back: the interface of ``stdio`` and ``http``."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from agentd.agent.mcp_servers.messages import JsonMap, RpcId
from agentd.core.errors import AgentdError

OnMessage: TypeAlias = Callable[[JsonMap], None]
"""Called with each message of the server."""
OnClosed: TypeAlias = Callable[[str], None]
"""Called once with the reason, when no further message can come; not after ``close``."""

OnLost: TypeAlias = Callable[[RpcId, AgentdError], None]
"""Called with a request that was sent and whose answer cannot come any more, and the reason."""


class MessageTransport(Protocol):
    """A connection to one server."""

    async def open(self, on_message: OnMessage, on_closed: OnClosed, on_lost: OnLost) -> None:
        """Start the program, or do nothing; raises ``Unavailable``."""
        ...

    async def send(self, message: bytes, request: RpcId | None = None) -> None:
        """Send one message; ``request`` is its id if it is one. Raises ``Unavailable``."""
        ...

    def forget(self, request: RpcId) -> None:
        """Wait for the answer to a request no longer, if it has not come."""
        ...

    def on_initialized(self, revision: str) -> None:
        """Take up the revision that was agreed on."""
        ...

    async def close(self) -> None:
        """End the connection, and the program with everything that it started."""
        ...
