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


async def test_what_is_used_up_soon_or_nearly_comes_before_what_lasts() -> None:
    """A limit at 80 % may last longer than one of which little is used, in an hour."""
    world = World()
    an_hour_ago = "2026-01-31T11:00:00.000Z"
    slow = [build_key(f"slow {number:02}", limits=DOLLAR) for number in range(MAX_LINES)]
    near = build_key("near", limits=DOLLAR)
    fast = [build_key(f"fast {n:02}", limits=DOLLAR, created=an_hour_ago) for n in range(2)]
    for key in slow:
        world.call(key, "7.9")
    world.call(near, "8")
    for key in fast:
        world.call(key, "1")
    found = await find(build_search(world, (*slow, near, *fast)))
    titles = [title for _, title, _ in found]
    assert titles[0] == "near"
    assert titles[-2:] == ["fast 00", "fast 01"]
    assert len(found) == MAX_LINES
    many = [build_key(f"many {n:02}", limits=DOLLAR, created=an_hour_ago) for n in range(MAX_LINES)]
    for key in many:
        world.call(key, "1")
    found = await find(build_search(world, (*slow, *many, near)))
    assert [title for _, title, _ in found][:2] == ["near", "many 00"]


async def test_what_lasts_until_it_resets_is_not_used_up_soon() -> None:
    world = World()
    daily = build_key("daily", limits=KeyLimits(day=Decimal(10)))
    slow = [build_key(f"slow {number:02}", limits=DOLLAR) for number in range(MAX_LINES)]
    world.call(daily, "1")
    for key in slow:
        world.call(key, "2")
    assert {used for _, _, used in await find(build_search(world, (daily, *slow)))} == {2}


async def test_what_is_reserved_counts_and_a_limit_of_nothing_is_used_up() -> None:
    world = World()
    nothing = build_key("nothing", limits=KeyLimits(total=Decimal(0)))
    spent, busy = build_key("spent", limits=DOLLAR), build_key("busy", limits=DOLLAR)
    world.call(spent, "5")
    world.call(busy, "1")
    world.limit(busy).reserve(Decimal(6), 1)
    found = await find(build_search(world, (spent, busy, nothing)))
    assert [title for _, title, _ in found] == ["nothing", "busy", "spent"]


async def test_only_limits_of_money_are_listed_also_of_one_model_among_others() -> None:
    limits = {"small": KeyLimits(parallel=1), "large": DOLLAR}
    busy = KeyLimits(parallel=1, requests_per_minute=10)
    budget = Budget(name="busy", tag="night", limits=busy)
    world = World(budget)
    models, key = build_key("models", model_limits=limits), build_key("key", limits=busy)
    search = build_search(world, (models, key), budget)
    assert await find(search) == [("model", "models", Decimal(0))]


async def test_a_key_is_as_near_as_the_nearest_of_its_limits() -> None:
    world = World()
    both = build_key("both", limits=KeyLimits(day=Decimal(10), total=Decimal(1000)))
    others = [build_key(f"key {number:02}", limits=DOLLAR) for number in range(MAX_LINES)]
    world.call(both, "9")
    for key in others:
        world.call(key, "5")
    assert (await find(build_search(world, (*others, both))))[0] == ("key", "both", Decimal(9))


async def test_keys_and_budgets_that_change_are_looked_at_at_once() -> None:
    one, other = build_key("one", limits=DOLLAR), build_key("other", limits=DOLLAR)
    budget = Budget(name="team", tag="team", limits=DOLLAR)
    world, known = World(budget), {"keys": Keyring((one,)), "budgets": {}}
    counter = ModelSpendCounter(world.meters, cast("Any", NothingSpent()))
    search = NearestLimits(
        lambda: cast("Any", known["keys"]),
        lambda: cast("Any", known["budgets"]),
        world.meters,
        counter,
        world.clock,
    )
    assert await find(search) == [("key", "one", Decimal(0))]
    known["keys"] = Keyring((other,))
    assert await find(search) == [("key", "other", Decimal(0))]
    known["budgets"] = {"team": budget}
    assert {title for _, title, _ in await find(search)} == {"other", "team"}
