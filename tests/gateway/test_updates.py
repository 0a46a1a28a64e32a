"""``gatewayUpdate``: every recorded request is in one, and they do not come too often."""

import asyncio
from decimal import Decimal

import pytest

from agentd.core.events import EventBus
from agentd.gateway.ledger.record import Outcome, RequestRecord
from agentd.gateway.updates import GatewayUpdate, GatewayUpdatePublisher, GatewayUpdateView


def build_record(outcome: Outcome = "ok", cost: str = "0.25") -> RequestRecord:
    return RequestRecord(
        id="r",
        at="2026-01-01T00:00:00.000Z",
        key="k",
        endpoint="/v1/messages",
        status=200,
        outcome=outcome,
        cost=Decimal(cost),
    )


@pytest.mark.gen_test
async def test_what_comes_within_an_interval_is_one_event() -> None:
    bus, events = EventBus(), asyncio.Queue[GatewayUpdate]()
    bus.subscribe(events.put_nowait)  # type: ignore[arg-type]
    updates = GatewayUpdatePublisher(bus, 0.01)
    for outcome in ("ok", "failed", "ok"):
        updates.add(build_record(outcome))
    assert events.empty(), "not before the interval is over"
    first = await events.get()
    assert first.build_arguments("") == [GatewayUpdateView(3, 1, Decimal("0.75"))]
    updates.add(build_record(cost="1"))
    second = await events.get()
    assert second.recorded == GatewayUpdateView(1, 0, Decimal(1)), "nothing is counted twice"
    updates.close()
