"""The callers' side of a dialect: their requests parsed, our responses rendered.

``dialects.dialect`` is the suppliers' side. A request whose channel speaks the caller's dialect is
only peeked at and passed through; any other is parsed, encoded in the channel's dialect, and the
reply's events are rendered in the caller's.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from agentd.core.errors import BadRequest
from agentd.llm.conversation import ErrorKind, ReplyEvent, ReplyFinished
from agentd.llm.conversation import SupplierError as Failed
from agentd.llm.price import Usage

GatewayErrorKind: TypeAlias = (
    ErrorKind
    | Literal["limit", "no_licence", "blocked", "too_large", "timeout", "unavailable"]
    | Literal["address", "method", "misdirected"]
)
"""A supplier's errors, and our own. ``limit``: the key has spent what it may; ``blocked``: a secret
stands in the request that may not leave, whoever asks; ``timeout``: the supplier did not answer;
``unavailable``: it cannot be served as things stand, such as with every channel disabled;
``address``: nothing is there; ``method``: it has not that one; ``misdirected``: it was meant for
another host."""


class UnsupportedRequest(BadRequest):
    """A request that has no equivalent at the supplier, with error fields that clients react to."""

    def __init__(self, message: str, facts: Mapping[str, object]) -> None:
        super().__init__(message)
        self.facts = facts


class RequestSummary(Struct, frozen=True):
    """The fields needed of every request; cheap to read, because the messages are skipped."""

    model: str
    stream: bool = False
    max_output: int = 0
    """Tokens of the reply, thinking included; 0: the caller does not say."""
    replies: int = 1
    """The number of requested replies (``n``)."""
    wants_usage: bool = True
    """True if a stream should report its usage (``stream_options.include_usage``)."""
    tool_namespaces: frozenset[str] = frozenset()
    """The groups of the caller's tools (Responses); see ``openai_responses.tool_namespaces``."""
    freeform_tools: frozenset[str] = frozenset()
    """The tools whose input is bare text (OpenAI's dialects); see ``dialects.custom_tools``."""
    stores_reply: bool = False
    """True if later requests may refer to its items (Responses); see ``item_references``."""
    service_tier: str = ""
    """The kind of service that is asked for; empty: the usual one (``dialects.service_tier``)."""
    uses_paid_tools: bool = False
    """True if tools are on offer that the supplier runs itself, for a fee."""
    has_audio: bool = False
    """True if the request has audio, for whose tokens no rate is known."""


class UsageObserver(Protocol):
    """Watches a supplier's stream that is passed through unchanged; never raises.

    ``feed`` returns the bytes to pass on: all of them except for what the caller did not ask for
    (the usage chunk that the gateway asked for), however the stream is split into chunks. An event
    is passed on once it is whole, or very long.
    """

    usage: Usage | None
    """The usage counted up to now; the last value counts."""
    end: ReplyFinished | Failed | None
    """Set by the piece that ends the reply, before that piece is passed on."""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to pass on now."""
        ...

    def close(self) -> bytes:
        """Return the bytes held back at the end. Without a proper end, ``end`` becomes an error."""
        ...


class StreamWriter(Protocol):
    """Renders a reply, event by event, as one stream of the caller's dialect."""

    @property
    def items(self) -> Sequence[Mapping[str, object]]:
        """The items rendered so far whose ids a later request may refer to."""
        ...

    def write(self, event: ReplyEvent) -> bytes:
        """Return the bytes for this event; empty when there is nothing to send yet.

        ``SupplierError`` becomes the dialect's error event, without a success terminator.
        """
        ...
