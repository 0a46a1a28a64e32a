"""Results of channel checks: what passed, how long it took and what it cost."""

from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.gateway.channels.model import Channel
from agentd.llm.conversation import Conversation, ModelMessage, TextPart
from agentd.llm.price import NO_USAGE, Prices, Usage
from agentd.models.gateway_model import GatewayModel, ModelRoute

SECONDS = 10.0
"""Maximum duration of a check in seconds."""

CheckStepName: TypeAlias = Literal["secret", "name", "connect", "tls", "models", "request"]
"""Read the channel's secret; resolve the host; connect, through the channel's proxy or VPN if it
has one; negotiate TLS; list the models with the key; send a request."""


class CheckStep(Struct, frozen=True):
    """A step of a check."""

    name: CheckStepName
    state: Literal["passed", "failed", "skipped"]
    ms: float = 0.0
    """Duration in milliseconds."""
    detail: str = ""
    """Why it failed or was skipped, or what was found."""


class PaidRequest(Struct, frozen=True):
    """The small model request of a check, and its prices."""

    model: str
    """The gateway's name of the model."""
    supplier_model: str
    prices: Prices | None


class CheckReport(Struct, frozen=True):
    """The outcome of a check's steps."""

    steps: tuple[CheckStep, ...]
    usage: Usage = NO_USAGE
    """Usage of the model request."""
    status: int = 0
    """HTTP status of the model request; 0: not made or no response."""

    @property
    def ok(self) -> bool:
        """True if no step failed."""
        return all(step.state != "failed" for step in self.steps)


class ChannelCheck(Struct, frozen=True):
    """The result of a channel check."""

    ok: bool
    """True if no step failed."""
    channel: str
    steps: tuple[CheckStep, ...]
    cost: Decimal | None
    """Cost of the model request in USD; None: its price is unknown."""


def find_paid_request(channel: Channel, model: GatewayModel) -> PaidRequest | None:
    """Return the request that tests a model through a channel; None if it has no such route."""
    for route in model.routes:
        if route.channel == channel.name:
            return PaidRequest(model.name, route.model or model.name, route.prices or model.prices)
    return None


def get_first_route(model: GatewayModel) -> ModelRoute:
    """Return the route that is tried first."""
    return min(model.routes, key=lambda route: (route.priority, -route.weight))


def build_smallest_request(channel: Channel) -> Conversation:
    """Build the smallest possible request: one word in, as few tokens out as allowed."""
    least = 16 if channel.dialects[0] == "openai-responses" else 1
    return Conversation(messages=(ModelMessage("user", (TextPart("Hi"),)),), max_output=least)
