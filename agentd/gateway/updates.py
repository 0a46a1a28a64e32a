"""Events for administrators: recorded requests, changed files, and the steps of checks."""

import asyncio
from decimal import Decimal
from typing import ClassVar

from msgspec import Struct

from agentd.core.events import Event, EventBus
from agentd.gateway.admin.check import CheckStep
from agentd.gateway.ledger.record import RequestRecord
from agentd.llm.price import sum_amounts

INTERVAL_SECONDS = 1.0
"""The least time between two of these events, however many requests there are."""

_ZERO = Decimal(0)


class GatewayUpdateView(Struct, frozen=True):
    """The records added since the last such event."""

    requests: int
    failed: int
    """The number of failed requests among them."""
    cost: Decimal


class GatewayUpdate(Event, frozen=True):
    """Requests were recorded: ``{requests, failed, cost}``. Not stored, so it has no ``seq``."""

    name: ClassVar[str] = "gatewayUpdate"
    for_administrators: ClassVar[bool] = True
    recorded: GatewayUpdateView

    def build_arguments(self, run: str) -> list[object]:
        """Return the arguments of the event, as clients receive them."""
        return [self.recorded]


class CheckStepUpdateView(Struct, frozen=True):
    """A step of a channel's check that has just ended."""

    channel: str
    """Name of the channel."""
    step: CheckStep
    """The step as in the response of the check."""


class CheckStepUpdate(Event, frozen=True):
    """A step of a check ended: ``{channel, step}``; the check's response has all of them."""

    name: ClassVar[str] = "checkStep"
    for_administrators: ClassVar[bool] = True
    ended: CheckStepUpdateView

    def build_arguments(self, run: str) -> list[object]:
        """Return the arguments of the event, as clients receive them."""
        return [self.ended]


class GatewayConfigUpdate(Event, frozen=True):
    """A file of the gateway's configuration, or of its keys, was changed: its name. Not stored."""

    name: ClassVar[str] = "gatewayConfigUpdate"
    for_administrators: ClassVar[bool] = True
    file: str

    def build_arguments(self, run: str) -> list[object]:
        """Return the arguments of the event, as clients receive them."""
        return [self.file]


class GatewayAlertUpdate(Event, frozen=True):
    """An alert was raised, resolved or delivered: the number that are firing. Not stored."""

    name: ClassVar[str] = "gatewayAlertUpdate"
    for_administrators: ClassVar[bool] = True
    firing: int

    def build_arguments(self, run: str) -> list[object]:
        """Return the arguments of the event, as clients receive them."""
        return [self.firing]


class GatewayUpdatePublisher:
    """Gathers what was recorded and publishes it once an interval; on the loop only."""

    def __init__(self, bus: EventBus, interval: float = INTERVAL_SECONDS) -> None:
        self._bus = bus
        self._interval = interval
        self._requests = self._failed = 0
        self._cost = _ZERO
        self._timer: asyncio.TimerHandle | None = None

    def add(self, record: RequestRecord) -> None:
        """Count a recorded request."""
        self._requests += 1
        self._failed += record.outcome != "ok"
        self._cost = sum_amounts((self._cost, record.cost))
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._interval, self._publish)

    def close(self) -> None:
        """Publish nothing any more."""
        if self._timer:
            self._timer.cancel()

    def _publish(self) -> None:
        recorded = GatewayUpdateView(self._requests, self._failed, self._cost)
        self._timer, self._requests, self._failed, self._cost = None, 0, 0, _ZERO
        self._bus.publish(GatewayUpdate(recorded))
