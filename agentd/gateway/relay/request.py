"""Requests to the gateway, and their responses."""

from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from agentd.core.errors import AgentdError
from agentd.gateway.keys.model import AccessKey
from agentd.llm.dialects.caller import GatewayErrorKind
from agentd.llm.endpoint import ChannelDialect

STATUS_CLIENT_LEFT = 499
"""The status of a call whose caller did not wait for the answer; nobody reads it but the ledger."""

STATUS_KEY_REVOKED = 401
"""The status of a request that waited for its reply when its key was revoked."""

ERROR_KEY_REVOKED = "revoked"
"""The error of what was ended with its key, as the ledger has it."""


EndpointKind: TypeAlias = Literal["reply", "completion", "embeddings", "count"]
"""The purposes of the gateway's addresses: a reply in a conversation, the continuation of a text,
vectors, or a number of tokens."""


class GatewayEndpoint(Struct, frozen=True):
    """An address of the gateway: the dialect spoken there, and what is asked for."""

    path: str
    """The path as in the table of routes."""
    dialect: ChannelDialect
    kind: EndpointKind = "reply"

    @property
    def is_generation(self) -> bool:
        """True if the model writes tokens, which are streamed and paid."""
        return self.kind in ("reply", "completion")


class GatewayRequest(Struct, frozen=True, kw_only=True):
    """A request admitted by its key."""

    id: str
    """The request's, unlike every other's."""
    endpoint: GatewayEndpoint
    key: AccessKey
    body: bytes
    headers: Mapping[str, str] = {}
    """The headers that are forwarded to a supplier of the same dialect."""
    model: str = ""
    """The model, if the address names it (Gemini)."""
    stream: bool = False
    """True if the path asks for a stream (Gemini)."""
    is_batch: bool = False
    """True if the path asks for the embeddings of several texts (Gemini)."""
    trace_context: Mapping[str, str] = {}
    """The caller's headers ``traceparent`` and ``tracestate``, if spans are sent."""


class StreamedReply(Protocol):
    """An answer's body, as it is made."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the portions, in their order."""
        ...

    def aclose(self) -> Awaitable[None]:
        """Close the stream; to be called in any case, at its end too."""
        ...


class GatewayResponse(Struct, frozen=True):
    """The answer to the caller: a ``body``, or a ``stream`` of one."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    stream: StreamedReply | None = None


def build_id_headers(dialect: ChannelDialect, request_id: str) -> dict[str, str]:
    """Return the headers with the request's id, among them that of which the vendor's client tells.

    OpenAI's reads ``X-Request-Id``, which every response of the daemon has.
    """
    named = {"request-id": request_id} if dialect == "anthropic" else {}
    return {"x-agentd-request-id": request_id, **named}


class GatewayError(AgentdError):
    """An error of the gateway or of a supplier, to be rendered in the caller's dialect.

    ``by_gateway``: no supplier was asked. ``retry_after``: suggested wait in seconds.
    ``resets_at``: when a spent limit resets, in seconds since 1970.
    """

    def __init__(
        self,
        kind: GatewayErrorKind,
        message: str,
        *,
        retry_after: float | None = None,
        resets_at: int | None = None,
        code: str = "",
        by_gateway: bool = True,
        facts: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after = retry_after
        self.resets_at = resets_at
        self.code = code or kind
        """The error in the ledger: the code, or the kind if there is none."""
        self.by_gateway = by_gateway
        self.facts = facts or {}
        """The facts that the client's library acts upon, if its dialect has a place for them."""
