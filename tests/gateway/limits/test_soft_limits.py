"""Which limits warn, and which events tell of, read from the meters that enforce them."""

from collections.abc import Iterable
from datetime import UTC
from decimal import Decimal
from typing import Any

import pytest
from msgspec import structs

from agentd.core.clock import FrozenClock
from agentd.gateway.keys.limits import KeyLimits, SoftLimits
from agentd.gateway.keys.model import AccessKey, issue
from agentd.gateway.limits.budgets import Budget
from agentd.gateway.limits.meters import KeyMeters
from agentd.gateway.limits.model_spend import ModelSpendCounter
from agentd.gateway.limits.soft_limits import AT_ONCE, iter_told_limits, list_passed_soft_limits
from agentd.gateway.limits.spend_by_quarter_hour import SpendByQuarterHour

FIVE = KeyLimits(day=Decimal(5))
TWO = SoftLimits(week=Decimal(2))


class EmptyLedger:
    """Nothing was spent before the meters began to count."""

    async def count_model_spend(self, since: object) -> SpendByQuarterHour:
        return SpendByQuarterHour()


def build_key(name: str, **fields: object) -> AccessKey:
    return structs.replace(issue(name, "2026-01-01T00:00:00.000Z")[1], **fields)


def build_budget(tag: str, **fields: Any) -> Budget:
    return Budget(name=f"of {tag}", tag=tag, **fields)


class World:
    """Keys and budgets, and what they spend."""

    def __init__(self, keys: Iterable[AccessKey], budgets: Iterable[Budget] = ()) -> None:
        self.keys = list(keys)
        self.budgets = {one.name: one for one in budgets}
        self.clock = FrozenClock("2026-01-31T12:00:00.000Z")
        self.meters = KeyMeters(UTC, self.clock)
        self.meters.set_budgets(self.budgets.values())
        self.counter = ModelSpendCounter(self.meters, EmptyLedger())

    async def spend(self, key: AccessKey, cost: str) -> None:
        await self.counter.count_key(key)
        limits = self.meters.limit_request(key, "large")
        limits.reserve(Decimal(cost), 1)
        limits.settle(Decimal(cost), 1, self.clock.now())

    async def list_passed(self) -> list[tuple[str, str, str]]:
        found = await list_passed_soft_limits(self.keys, self.budgets, self.meters, self.counter)
        return [(one.name, one.model, one.window) for one in found]

    def list_told(self) -> list[tuple[str, str, str, str]]:
        told = iter_told_limits(self.keys, self.budgets, self.meters)
        return [(kind, one.name, one.model, one.window) for kind, one in told]


@pytest.mark.gen_test
async def test_the_soft_limits_that_are_passed_are_listed_of_enabled_keys_and_budgets():
    soft = build_key("soft", soft_limits=TWO)
    share = build_key("share", limits=FIVE, warn_at=Decimal("0.4"), tags=("team",))
    model = build_key("model", model_limits={"lar*": FIVE}, warn_at=Decimal("0.4"))
    off = build_key("off", soft_limits=TWO)
    plain = build_key("plain", limits=FIVE, model_limits={"lar*": FIVE})
    budgets = [
        build_budget("team", limits=FIVE, warn_at=Decimal("0.4")),
        build_budget("idle", soft_limits=TWO),
    ]
    world = World([soft, share, model, off, plain], budgets)
    for key in world.keys:
        await world.spend(key, "1.99")
    assert await world.list_passed() == []
    for key in world.keys:
        await world.spend(key, "0.01")
    world.keys[3] = structs.replace(off, enabled=False)
    assert await world.list_passed() == [
        ("team", "", "day"),
        ("soft", "", "week"),
        ("share", "", "day"),
        ("model", "lar*", "day"),
    ]
    world.budgets["of team"] = structs.replace(budgets[0], enabled=False)
    assert ("team", "", "day") not in await world.list_passed()


@pytest.mark.gen_test
async def test_events_tell_of_hard_and_soft_limits_in_usd_but_of_no_plain_keys_own():
    keys = [
        build_key("soft", soft_limits=TWO, limits=KeyLimits(day=Decimal(5), parallel=2)),
        build_key("model", model_limits={"lar*": FIVE}),
        build_key("plain", limits=FIVE),
        build_key("off", soft_limits=TWO, enabled=False),
    ]
    budgets = [
        build_budget("team", limits=FIVE, soft_limits=TWO),
        build_budget("off", limits=FIVE, enabled=False),
    ]
    world = World(keys, budgets)
    not_counted = world.list_told()
    assert not_counted == [
        ("limit_hit", "team", "", "day"),
        ("limit_near", "team", "", "week"),
        ("limit_hit", "soft", "", "day"),
        ("limit_near", "soft", "", "week"),
    ]
    await world.counter.count(keys)
    assert world.list_told() == [*not_counted, ("limit_hit", "model", "lar*", "day")]


@pytest.mark.gen_test
async def test_models_of_all_keys_with_soft_limits_are_counted_first_however_many():
    keys = [
        build_key(str(n), model_limits={"large": FIVE}, warn_at=Decimal("0.4"))
        for n in range(2 * AT_ONCE)
    ]
    world = World(keys)
    assert await world.list_passed() == []
    assert all(world.meters.has_counted_models(key) for key in keys)
