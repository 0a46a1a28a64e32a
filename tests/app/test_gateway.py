"""The gateway as it is composed: limits go on counting while days come to begin elsewhere."""

import asyncio
import json
from decimal import Decimal
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from msgspec import structs

from agentd.app import background
from agentd.app.gateway import ModelGateway
from agentd.core.clock import FrozenClock, SystemClock
from agentd.core.events import EventBus
from agentd.gateway.channels.secrets import ChannelSecrets
from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.keys.limits import KeyLimits
from agentd.gateway.keys.model import issue
from agentd.gateway.keys.store import AccessKeyRepository
from agentd.gateway.limits.budgets import Budget
from agentd.gateway.updates import GatewayConfigUpdate
from agentd.models.model import Models
from agentd.storage.settled_clock import SettledClock
from tests.conftest import until
from tests.gateway.ledger.entries import build_record

pytestmark = pytest.mark.gen_test

CALLERS, CALLS = 8, 100
COUNTED = 5
"""The number of full recounts of all calls while calls are recorded."""
PACE = 0.001
"""Seconds between two calls of one caller, once there are many: a slow disk has less to count."""
COST = Decimal("0.25")
BUDGET = Budget(name="b", tag="t")


def make_gateway(layout, bus=None, keys=None, clock=None):
    clock = clock or SystemClock()
    keys = keys or AccessKeyRepository(AccessKeyFile(layout), clock)
    settled = SettledClock(layout.clock, clock)
    return ModelGateway(layout, {}, clock, keys, Models, "g", bus or EventBus(), settled)


async def test_a_change_of_the_time_zone_loses_and_doubles_no_call(layout):
    clock = SystemClock()
    limits = KeyLimits(total=Decimal(10**6))
    key = structs.replace(issue("laptop", clock.now())[1], limits=limits, tags=("t",))
    gateway = make_gateway(layout)
    spent = Decimal(0)

    async def call(caller):
        nonlocal spent
        for number in count():
            if number >= CALLS:
                if counts >= COUNTED:
                    return
                await asyncio.sleep(PACE)
            limits, at = gateway.meters.limit_request(key, "large"), clock.now()
            limits.reserve(COST, 1)
            limits.settle(COST, 1, at)
            spent += COST
            await gateway.ledger.add_record(
                build_record(caller + CALLERS * number, at, key=key.id, tags=key.tags, cost=COST)
            )

    counts = 0
    async with gateway:
        calls = [asyncio.create_task(call(caller)) for caller in range(CALLERS)]
        while not all(one.done() for one in calls):
            await gateway.recount()
            assert gateway.meters.for_key(key).used.total == spent
            assert gateway.meters.describe_budget(BUDGET).used.total == spent
            counts += 1
        await asyncio.gather(*calls)
        assert spent >= CALLERS * CALLS * COST


@pytest.mark.parametrize("goes_on", [False, True])
async def test_a_start_while_the_clock_is_ahead_forgives_nothing_once_it_is_set_right(
    layout, monkeypatch, goes_on
):
    monkeypatch.setattr(background, "RECOUNT_SECONDS", 0.01)
    clock = FrozenClock("2026-01-31T18:00:00.000Z")
    _, key = issue("laptop", clock.now())
    async with make_gateway(layout, clock=clock) as gateway:
        await gateway.ledger.add_record(build_record(1, clock.now(), key=key.id, cost=COST))
    clock.jump(8 * 3600)  # as if the hardware clock had the time of another zone
    async with make_gateway(layout, clock=clock) as gateway:
        meter = gateway.meters.for_key(key)
        assert (meter.used.day, meter.used.month) == (0, 0)
        if goes_on:
            meter.add(COST, 1, clock.now())
            await gateway.ledger.add_record(build_record(2, clock.now(), key=key.id, cost=COST))
        clock.jump(-7 * 3600)
        await until(lambda: meter.used.day == meter.used.month == COST * (1 + goes_on))


async def test_a_start_while_the_clock_is_behind_forgives_nothing_once_it_is_set_right(
    layout, monkeypatch
):
    """A machine without a battery has its last known time until the network tells it."""
    monkeypatch.setattr(background, "RECOUNT_SECONDS", 0.01)
    clock = FrozenClock("2026-02-01T18:00:00.000Z")
    limits = {"large": KeyLimits(day=Decimal(9))}
    key = structs.replace(issue("laptop", clock.now())[1], tags=("t",), model_limits=limits)
    one = build_record(1, clock.now(), key=key.id, tags=key.tags, model="large", cost=COST)
    async with make_gateway(layout, clock=clock) as gateway:
        await gateway.ledger.add_record(one)
    clock.jump(-20 * 3600)
    async with make_gateway(layout, clock=clock) as gateway:
        await gateway.model_spend.count_key(key)
        meters = gateway.meters.for_key(key), *gateway.meters.iter_meters(BUDGET)
        assert [meter.used.day for meter in meters] == [COST, COST], "it is behind that time"
        clock.jump(21 * 3600)
        await until(lambda: all(meter.used.day == meter.used.month == COST for meter in meters))
        assert not gateway.meters.is_counted_for_another_day
        await gateway.model_spend.count_key(key)
        (models,) = gateway.meters.describe_models(key)
        assert models.used.day == COST
        clock.jump(86400)
        assert not gateway.meters.is_counted_for_another_day, "nothing was spent on that day"
        assert [meter.used.day for meter in meters] == [0, 0]


async def test_the_time_zone_in_force_is_the_one_that_was_written_last(layout, monkeypatch):
    gateway = make_gateway(layout)
    file = Path(layout.gateway_settings)
    async with gateway:
        chores = len(gateway._tasks)
        counted, go = asyncio.Event(), asyncio.Event()
        sums = gateway.ledger.count_spend

        async def sum_slowly(cuts):
            found = await sums(cuts)
            counted.set()
            await go.wait()
            return found

        monkeypatch.setattr(gateway.ledger, "count_spend", sum_slowly)
        file.parent.mkdir(parents=True, exist_ok=True)
        for zone in ("Asia/Kathmandu", "UTC"):
            file.write_text(f"time_zone: {zone}\n")
            file.chmod(0o600)
            await gateway.settings.refresh()
            await counted.wait()
        go.set()
        await until(lambda: len(gateway._tasks) == chores)
        assert str(gateway.meters.zone) == "UTC"


async def test_a_removed_key_leaves_nothing_in_memory(layout):
    """Somebody may make a key for each job of theirs, for years."""
    bus, keys = EventBus(), AccessKeyRepository(AccessKeyFile(layout), SystemClock())
    keys.on_changed = partial(bus.publish, GatewayConfigUpdate(Path(layout.access_keys).name))
    async with make_gateway(layout, bus, keys) as gateway:
        _, kept = await keys.add("kept")
        _, gone = await keys.add("gone")
        meters = {key.id: gateway.meters.for_key(key) for key in (kept, gone)}
        await keys.remove(gone.id)
        assert gateway.meters.for_key(kept) is meters[kept.id]
        assert gateway.meters.for_key(gone) is not meters[gone.id]
    await keys.stop()


async def test_the_keys_of_the_channels_that_were_written_last_are_masked(layout, monkeypatch):
    may_go_on, fetch = asyncio.Event(), ChannelSecrets.fetch

    async def fetch_slowly(self, channel, field="key"):
        if channel.name == "old":
            await may_go_on.wait()
        return await fetch(self, channel, field)

    def get_masked():
        return {one.text for one in gateway.active_rules.values}

    monkeypatch.setattr(ChannelSecrets, "fetch", fetch_slowly)
    path, gateway = Path(layout.channels), make_gateway(layout)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o600)
    async with gateway:
        chores = len(gateway._tasks)
        for name in ("old", "new"):
            channel = {"name": name, "dialects": ["anthropic"], "url": "https://a.example"}
            path.write_text(json.dumps({"channels": [{**channel, "key": f"sk-{name}-0123456789"}]}))
            await gateway.channels.refresh()
            assert list(gateway.channels.current) == [name]
        await until(lambda: get_masked() == {"sk-new-0123456789"})
        may_go_on.set()
        await until(lambda: len(gateway._tasks) == chores)
        assert get_masked() == {"sk-new-0123456789"}


async def test_a_supplier_s_key_that_is_replaced_in_its_file_is_masked_once_it_is_used(
    layout, tmp_path
):
    def get_masked():
        return {one.text for one in gateway.active_rules.values}

    secret, channels = tmp_path / "key", Path(layout.channels)
    secret.write_text("sk-first-0123456789")
    secret.chmod(0o600)
    channel = {"name": "c", "dialects": ["anthropic"], "url": "https://a.example"}
    channels.parent.mkdir(parents=True, exist_ok=True)
    channels.write_text(json.dumps({"channels": [{**channel, "key": f"file:{secret}"}]}))
    channels.chmod(0o600)
    gateway = make_gateway(layout)
    async with gateway:
        assert get_masked() == {"sk-first-0123456789"}
        secret.write_text("sk-second-0123456789")
        _, key = await gateway.suppliers.reach(gateway.channels.current["c"])
        assert key == "sk-second-0123456789"
        await until(lambda: get_masked() == {key})
