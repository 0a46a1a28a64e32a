"""The limits that are used up the most are found among those of all keys and budgets."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, cast

import pytest

from agentd.gateway.keys.keyring import Keyring
from agentd.gateway.keys.limits import KeyLimits
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.limits.budgets import Budget
from agentd.gateway.limits.model_spend import ModelSpendCounter
from agentd.gateway.limits.nearest_limits import MAX_LINES, RANK_SECONDS, NearestLimits
from agentd.gateway.limits.spend_by_quarter_hour import SpendByQuarterHour
from tests.gateway.limits.test_request_limits import World, build_key

pytestmark = pytest.mark.gen_test

DOLLAR = KeyLimits(total=Decimal(10))


class NothingSpent:
    """A ledger without requests."""

    async def count_model_spend(self, _: Any) -> SpendByQuarterHour:
        return SpendByQuarterHour()


def build_search(world: World, keys: Iterable[AccessKey], *budgets: Budget) -> NearestLimits:
    ring, known = Keyring(keys), {one.name: one for one in budgets}
    counter = ModelSpendCounter(world.meters, cast("Any", NothingSpent()))
    return NearestLimits(lambda: ring, lambda: known, world.meters, counter, world.clock)


async def find(search: NearestLimits) -> list[tuple[str, str, Decimal]]:
    return [(one.scope, one.title, one.used) for one in await search.find()]


async def test_the_nearest_of_many_come_first_whatever_they_are_called() -> None:
    world = World()
    keys = [build_key(f"key {number:03}", limits=DOLLAR) for number in range(300)]
    for number in (150, 299):
        world.call(keys[number], "9")
    world.call(keys[299], "0.5")
    found = await find(build_search(world, keys))
    assert len(found) == MAX_LINES
    assert found[:2] == [("key", "key 299", Decimal("9.5")), ("key", "key 150", Decimal(9))]
    assert {used for _, _, used in found[2:]} == {0}


async def test_models_budgets_and_keys_are_compared_with_each_other() -> None:
    budgets = (
        Budget(name="team", tag="team", limits=DOLLAR),
        Budget(name="off", tag="off", limits=DOLLAR, enabled=False),
    )
    world = World(*budgets)
    tagged = build_key("tagged", tags=("team",))
    modelled = build_key("modelled", model_limits={"large": DOLLAR})
    disabled = build_key("disabled", limits=DOLLAR, enabled=False)
    search = build_search(world, (tagged, modelled, disabled), *budgets)
    world.call(tagged, "8")
    await search.find()
    world.call(modelled, "4")
    assert await find(search) == [
        ("tag", "team", Decimal(8)),
        ("model", "modelled", Decimal(4)),
    ]


async def test_what_was_found_is_of_now_and_what_was_not_is_looked_for_again_soon() -> None:
    world = World()
    keys = [build_key(f"key {number:03}", limits=DOLLAR) for number in range(MAX_LINES + 1)]
    for key in keys[:-1]:
        world.call(key, "1")
    search = build_search(world, keys)
    assert len(await find(search)) == MAX_LINES
    world.call(keys[3], "2")
    world.call(keys[-1], "9")
    assert (await find(search))[0] == ("key", "key 003", Decimal(3))
    world.clock.move(RANK_SECONDS + 1)
    assert (await find(search))[0] == ("key", keys[-1].name, Decimal(9))
