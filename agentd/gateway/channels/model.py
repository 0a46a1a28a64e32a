"""A channel: one supplier of models, how it is reached, and with what secret.

The same structs are the schema of ``channels.yml`` and what the daemon runs with.
"""

from decimal import Decimal
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, structs

from agentd.core.clock import Timestamp
from agentd.core.secret_text import SecretText
from agentd.llm.endpoint import ChannelDialect, ChannelTransport, SupplierUrl
from agentd.llm.parameters import ParameterChanges
from agentd.models.gateway_model import ChannelName

MAX_FURTHER_KEYS = 50
"""The number of keys that a channel may have beside its first one."""
MAX_LOW = 1_000_000_000
"""The highest balance of which one can be warned."""


class AutomaticDisabling(Struct, frozen=True):
    """When and why agentd disabled a channel by itself."""

    at: Annotated[Timestamp, Meta(max_length=40)]
    """When it was disabled."""
    reason: Annotated[str, Meta(max_length=500)]
    """Why, in English."""


BalanceSource: TypeAlias = Literal[
    "auto", "off", "openrouter", "deepseek", "siliconflow", "moonshot", "novita", "new-api"
]


class BalanceReading(Struct, frozen=True, omit_defaults=True):
    """Whether and how the balance of the supplier's account is read.

    Raises ``ValueError`` for what is no amount.
    """

    source: BalanceSource = "auto"
    """The supplier whose way of telling it is used; ``auto``: by the address, ``off``: never."""
    low: Decimal | None = None
    """The amount, in the currency that the supplier tells, below which there is an alert; null:
    there is none."""

    def __post_init__(self) -> None:
        if self.low is not None and not (self.low.is_finite() and 0 <= self.low <= MAX_LOW):
            raise ValueError(f"low: expected an amount from 0 to {MAX_LOW}")


class Channel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A supplier's connection. ``dialects``: those it supports, the preferred one first."""

    name: ChannelName
    """The name by which models and keys refer to the channel."""
    dialects: Annotated[tuple[ChannelDialect, ...], Meta(min_length=1)]
    """The dialects the supplier supports, the preferred one first."""
    url: SupplierUrl
    """The supplier's address, to which each dialect's paths are added."""
    key: SecretText = ""
    """The supplier's secret; in the file also `env:NAME` or `file:PATH`. Shown masked."""
    keys: Annotated[tuple[SecretText, ...], Meta(max_length=MAX_FURTHER_KEYS)] = ()
    """Further keys, in the same form: all are used in turn, and each cools down by itself."""
    enabled: bool = True
    """True if it is used."""
    auto_disabled: AutomaticDisabling | None = None
    """When and why agentd disabled it by itself; null: it did not. Enabling clears it."""
    local: bool = False
    """True if the address may be one of this machine or its network."""
    transport: ChannelTransport = ChannelTransport()
    """The transport to the supplier."""
    headers: dict[str, str] = {}
    """Sent with every call, beside the key's."""
    parameters: ParameterChanges | None = None
    """Changes of the parameters of its requests; a model's own come after them."""
    on_leave: Literal["cut", "drain"] = "cut"
    """The treatment of a call whose caller disconnected: aborted, or read on for its usage."""
    cool_down: Annotated[float, Meta(ge=0, le=86400)] = 30.0
    """Seconds for which the channel is not called after it failed."""
    timeout: Annotated[float, Meta(gt=0, le=3600)] = 600.0
    """Seconds to wait for the supplier's response to begin."""
    balance: BalanceReading = BalanceReading()
    """How the balance of its account is read."""

    def __post_init__(self) -> None:
        if self.parameters is not None and self.parameters.is_empty:
            structs.force_setattr(self, "parameters", None)  # as it is in the file then

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The fields with its keys, such as ``key`` and ``keys[0]``; ``key`` if it has none."""
        further = tuple(f"keys[{number}]" for number in range(len(self.keys)))
        return ("key", *further) if self.key or not further else further

    def get_key(self, field: str) -> str:
        """Return the key in one of ``key_fields``, as it stands in the file."""
        return self.key if field == "key" else self.keys[int(field[5:-1])]

    def clear_outdated(self) -> "Channel":
        """Return the channel without the note of a disabling that is over."""
        outdated = self.enabled and self.auto_disabled
        return structs.replace(self, auto_disabled=None) if outdated else self

    def __repr__(self) -> str:
        """Return a representation without the keys and the headers, for logs and tracebacks."""
        return f"Channel({self.name!r}, {self.url!r})"
