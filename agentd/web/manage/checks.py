"""What a check of a channel is asked, and how its findings are told."""

from collections.abc import Awaitable
from decimal import Decimal
from typing import Literal, Protocol

from msgspec import Struct

from agentd.proxy.channel import Channel, ProxyModel
from agentd.proxy.management.check import Checked, RungName
from agentd.web.table import Parameter

PAID = Parameter(
    "paid",
    "query",
    "With true one small request is made in the end, which costs what it costs.",
    {"type": "boolean"},
)
MODEL = Parameter(
    "model", "query", "The gateway's model to ask for; else the first one.", {"type": "string"}
)


class RungView(Struct, frozen=True):
    """One step: how it ended, the milliseconds that it took, and why."""

    name: RungName
    """Which step it is."""
    state: Literal["passed", "failed", "skipped"]
    """How it ended."""
    ms: float
    """Milliseconds that it took."""
    detail: str
    """What came of it."""


class CheckView(Struct, frozen=True):
    """The steps in their order, up to the first that failed; ``ok``: none did.

    ``cost`` is what it cost in USD; null: the price of the model is not known.
    """

    ok: bool
    """Whether no step failed."""
    channel: str
    """The name of the channel that was asked."""
    rungs: list[RungView]
    """The steps, in order."""
    cost: Decimal | None
    """USD of the paid request; null: its price is not known."""


class Wish(Struct, frozen=True):
    """How a channel is to be tried."""

    model: ProxyModel | None
    paid: bool
    id: str
    """The request's."""
    remote: str
    """The address that it came from."""


class Checks(Protocol):
    """Who tries channels (``daemon.checking.Checking``)."""

    def check(self, channel: Channel, wish: Wish) -> Awaitable[Checked]:
        """What is found; what it cost is booked. ``Unavailable`` when that cannot be written."""
        ...


def checked(found: Checked) -> CheckView:
    """As it is told."""
    rungs = [RungView(one.name, one.state, one.ms, one.detail) for one in found.rungs]
    return CheckView(found.ok, found.channel, rungs, found.cost)
