"""What a caller asks of the gateway, and what becomes of it."""

from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Literal, Protocol

from msgspec import Struct

from agentd.errors import AgentdError
from agentd.proxy.access_key import AccessKey
from agentd.proxy.channel import ChannelDialect
from agentd.proxy.dialects.caller import GatewayError

LEFT = 499
"""The status of a call whose caller did not wait for the answer; nobody reads it but the ledger."""

DISMISSED = 401
"""The status of a call that waited for its answer when its key was taken away."""

REVOKED = "revoked"
"""The error of what was ended with its key, as the ledger has it."""


class Endpoint(Struct, frozen=True):
    """An address of the gateway: the dialect spoken there, and what is asked for."""

    path: str
    """As it stands in the routes table."""
    dialect: ChannelDialect
    kind: Literal["reply", "embeddings", "count"] = "reply"


class Asked(Struct, frozen=True, kw_only=True):
    """One request, let in by its key."""

    id: str
    """The request's, unlike every other's."""
    endpoint: Endpoint
    key: AccessKey
    body: bytes
    headers: Mapping[str, str] = {}
    """Those that a supplier of the same dialect is to have, too."""
    model: str = ""
    """Where the address names it (Gemini)."""
    stream: bool = False
    """Where the address tells it (Gemini)."""


class Portions(Protocol):
    """An answer's body, as it is made."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The portions, in their order."""
        ...

    def aclose(self) -> Awaitable[None]:
        """No more is wanted: to be called in any case, at the end too."""
        ...


class Answered(Struct, frozen=True):
    """The answer to the caller: a ``body``, or ``portions`` of one."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    portions: Portions | None = None


class Refused(AgentdError):
    """The gateway's own no, or a supplier's in our words; told in the caller's dialect.

    ``ours`` tells that no supplier was asked. ``retry_after`` seconds is a good time to wait.
    """

    def __init__(
        self,
        kind: GatewayError,
        message: str,
        *,
        retry_after: float | None = None,
        name: str = "",
        ours: bool = True,
        facts: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after = retry_after
        self.name = name or kind
        """As the ledger has it: more exact than the kind where there is more to tell."""
        self.ours = ours
        self.facts = facts or {}
        """What the client's library acts upon, where its dialect has a place for such."""
