"""The gateway as it is composed: limits go on counting while days come to begin elsewhere."""

import asyncio
from decimal import Decimal
from itertools import count
from pathlib import Path

import pytest

from agentd.catalog.models import Models
from agentd.clock import SystemClock
from agentd.daemon.gateway import ModelGateway
from agentd.disk.access_key_book import AccessKeyBook
from agentd.disk.access_keys import AccessKeyFile
from agentd.events import Bus
from agentd.proxy.access_key import Limits, issue
from tests.conftest import until
from tests.proxy.entries import entry

pytestmark = pytest.mark.gen_test

CALLERS, CALLS = 8, 100
COUNTED = 5
"""How often all is counted anew while calls are booked."""
PACE = 0.001
"""Seconds between two calls of one caller, once there are many: a slow disk has less to count."""
COST = Decimal("0.25")


def made(layout):
    clock = SystemClock()
    keys = AccessKeyBook(AccessKeyFile(layout), clock)
    return ModelGateway(layout, {}, clock, keys, Models, "g", Bus())


async def test_a_change_of_the_time_zone_loses_and_doubles_no_call(layout):
    clock = SystemClock()
    key = issue("laptop", clock.now())[1]
    gateway = made(layout)
    spent = Decimal(0)

    async def call(caller):
        nonlocal spent
        for number in count():
            if number >= CALLS:
                if counts >= COUNTED:
                    return
                await asyncio.sleep(PACE)
            meter, at = gateway.meters.of(key), clock.now()
            held = meter.reserve(Limits(total=Decimal(10**6)), COST, 1)
            meter.settle(held, COST, 1, at)
            spent += COST
            await gateway.ledger.book(entry(caller + CALLERS * number, at, key=key.id, cost=COST))

    counts = 0
    async with gateway:
        calls = [asyncio.create_task(call(caller)) for caller in range(CALLERS)]
        while not all(one.done() for one in calls):
            await gateway.recount()
            assert gateway.meters.of(key).used.total == spent
            counts += 1
        await asyncio.gather(*calls)
        assert spent >= CALLERS * CALLS * COST


async def test_the_time_zone_in_force_is_the_one_that_was_written_last(layout, monkeypatch):
    gateway = made(layout)
    file = Path(layout.gateway_settings)
    async with gateway:
        chores = len(gateway._tasks)
        counted, go = asyncio.Event(), asyncio.Event()
        sums = gateway.ledger.sums

        async def slow(cuts):
            found = await sums(cuts)
            counted.set()
            await go.wait()
            return found

        monkeypatch.setattr(gateway.ledger, "sums", slow)
        file.parent.mkdir(parents=True, exist_ok=True)
        for zone in ("Asia/Kathmandu", "UTC"):
            file.write_text(f"time_zone: {zone}\n")
            file.chmod(0o600)
            await gateway.settings.refresh()
            await counted.wait()
        go.set()
        await until(lambda: len(gateway._tasks) == chores)
        assert str(gateway.meters.zone) == "UTC"
