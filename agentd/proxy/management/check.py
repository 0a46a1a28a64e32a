"""Whether a channel works, found out step by step: what passed, how long it took, what it cost."""

from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.proxy.channel import Channel, ProxyModel, Way
from agentd.proxy.dialects.conversation import Conversation, Message, Text
from agentd.proxy.price import NOTHING, Prices, Usage

SECONDS = 10.0
"""What a check may take in all."""

RungName: TypeAlias = Literal["secret", "name", "connect", "tls", "models", "request"]
"""The channel's secrets are to be had; the host's name is resolved; it is connected to, through
the channel's proxy or VPN if there is one; TLS is agreed on; it tells its models, by its key; it
answers a request."""


class Rung(Struct, frozen=True):
    """One step of a check."""

    name: RungName
    state: Literal["passed", "failed", "skipped"]
    ms: float = 0.0
    """How long it took."""
    detail: str = ""
    """Why it failed or was skipped, or what was found."""


class Paid(Struct, frozen=True):
    """One small request that may be made, and what its tokens cost."""

    model: str
    """The gateway's name."""
    supplier_model: str
    prices: Prices | None


class Climbed(Struct, frozen=True):
    """How far a check came."""

    rungs: tuple[Rung, ...]
    usage: Usage = NOTHING
    """Of the paid request."""
    status: int = 0
    """It was answered with; 0: it was not made, or not answered."""

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return all(rung.state != "failed" for rung in self.rungs)


class Checked(Struct, frozen=True):
    """What a check found."""

    ok: bool
    """Whether nothing failed."""
    channel: str
    rungs: tuple[Rung, ...]
    cost: Decimal | None
    """USD of the paid request; None: its price is not known."""


def request_by(channel: Channel, model: ProxyModel) -> Paid | None:
    """The request by which a model is tried through a channel; None when it has no way so."""
    for way in model.ways:
        if way.channel == channel.name:
            return Paid(model.name, way.model or model.name, way.prices or model.prices)
    return None


def first_way(model: ProxyModel) -> Way:
    """The one that is tried first."""
    return min(model.ways, key=lambda way: (way.priority, -way.weight))


def smallest(channel: Channel) -> Conversation:
    """The least that can be asked: a word, for one token, or as few as the dialect has it."""
    least = 16 if channel.dialects[0] == "openai-responses" else 1
    return Conversation(messages=(Message("user", (Text("Hi"),)),), max_output=least)
