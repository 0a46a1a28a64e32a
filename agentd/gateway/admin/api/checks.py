"""Parameters and responses of channel checks."""

from collections.abc import Awaitable
from decimal import Decimal
from typing import Literal, Protocol

from msgspec import Struct

from agentd.gateway.admin.check import ChannelCheck, CheckStepName
from agentd.gateway.channels.model import Channel
from agentd.http.routing import Parameter
from agentd.models.gateway_model import GatewayModel

PAID = Parameter(
    "paid",
    "query",
    "With true, the check ends with one small model request, which is billed.",
    {"type": "boolean"},
)
MODEL = Parameter(
    "model",
    "query",
    "The gateway's model to request; the first one by default.",
    {"type": "string"},
)


class CheckStepView(Struct, frozen=True):
    """A step of a check."""

    name: CheckStepName
    """Name of the step."""
    state: Literal["passed", "failed", "skipped"]
    """Its result."""
    ms: float
    """Duration in milliseconds."""
    detail: str
    """The finding, or the reason why the step failed or was skipped."""


class CheckView(Struct, frozen=True):
    """The steps in order, up to the first one that failed."""

    ok: bool
    """True if no step failed."""
    channel: str
    """Name of the channel that was checked."""
    steps: list[CheckStepView]
    """The steps, in order."""
    cost: Decimal | None
    """Cost of the model request in USD; null: its price is unknown."""


class CheckRequest(Struct, frozen=True):
    """The options of a channel's check."""

    model: GatewayModel | None
    paid: bool
    id: str
    """The request id."""
    remote: str
    """The caller's address."""


class ChannelChecker(Protocol):
    """Runs channel checks (``app.channel_checks``)."""

    def check(self, channel: Channel, request: CheckRequest) -> Awaitable[ChannelCheck]:
        """Check a channel and record the cost. ``Unavailable`` if that cannot be written."""
        ...


def to_check_view(found: ChannelCheck) -> CheckView:
    """Convert a result to its view."""
    steps = [CheckStepView(one.name, one.state, one.ms, one.detail) for one in found.steps]
    return CheckView(found.ok, found.channel, steps, found.cost)
