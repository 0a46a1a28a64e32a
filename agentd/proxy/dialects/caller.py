"""The callers' side of a dialect: their requests read, our answers written.

``dialects.dialect`` is the suppliers' side. A request whose channel speaks the caller's dialect is
only glanced at and passed on; any other is understood, said in the channel's dialect, and the
reply's events are told again in the caller's.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from agentd.errors import BadRequest
from agentd.proxy.dialects.conversation import ErrorKind, Event, Finished
from agentd.proxy.dialects.conversation import SupplierError as Failed
from agentd.proxy.price import Usage

GatewayError: TypeAlias = (
    ErrorKind
    | Literal["limit", "no_licence", "blocked", "too_large", "timeout"]
    | Literal["address", "method", "misdirected"]
)
"""A supplier's errors, and our own. ``limit``: the key has spent what it may; ``blocked``: a secret
stands in the request that may not leave, whoever asks; ``timeout``: the supplier did not answer;
``address``: nothing is there; ``method``: it has not that one; ``misdirected``: it was meant for
another host."""


class Unsupported(BadRequest):
    """A request that cannot be said to the supplier, with what the client's library acts upon."""

    def __init__(self, message: str, facts: Mapping[str, object]) -> None:
        super().__init__(message)
        self.facts = facts


class Glance(Struct, frozen=True):
    """What must be known of every request, cheaply: its messages are not looked at."""

    model: str
    stream: bool = False
    max_output: int = 0
    """Tokens of the reply, thinking included; 0: the caller does not say."""
    replies: int = 1
    """How many replies are asked for (``n``)."""
    wants_usage: bool = True
    """Whether a stream is to tell its usage (``stream_options.include_usage``)."""
    groups: frozenset[str] = frozenset()
    """The groups of tools that the caller has (Responses); see ``callers.groups``."""
    freeform: frozenset[str] = frozenset()
    """The tools whose input is bare text (Responses); see ``callers.freeform``."""
    stores: bool = False
    """Whether later requests may refer to the reply's items (Responses); see ``references``."""
    tier: str = ""
    """The kind of service that is asked for; empty: the usual one. See ``callers.extras``."""
    fees: bool = False
    """Whether tools are on offer that the supplier runs itself, for a fee."""


class Tap(Protocol):
    """Listens to a supplier's stream that is passed on as it came, and never raises.

    ``feed`` gives the bytes to pass on: all of them, but for what the caller did not ask for (the
    usage that we asked for instead of him), never anything else, whatever the split.
    """

    usage: Usage | None
    """What was counted up to now; the last word holds."""
    end: Finished | Failed | None
    """Set by the piece that ends the reply, before that piece is passed on."""

    def feed(self, data: bytes) -> bytes:
        """The bytes to pass on now."""
        ...

    def close(self) -> bytes:
        """The stream ended: what was held back. Without a proper end, ``end`` is a failure."""
        ...


class Writer(Protocol):
    """Tells a reply, event by event, as one stream of the caller's dialect."""

    @property
    def items(self) -> Sequence[Mapping[str, object]]:
        """What was told up to now that has an id by which a later request may refer to it."""
        ...

    def write(self, event: Event) -> bytes:
        """The bytes that tell this event; empty when there is nothing to tell yet.

        ``SupplierError`` becomes the dialect's error event, without a success terminator.
        """
        ...
