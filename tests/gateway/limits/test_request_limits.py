"""The limits of a key, its models, owner and tags are reserved together, or none of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import structs

from agentd.core.clock import FrozenClock
from agentd.core.events import Event
from agentd.gateway.keys.limits import KeyLimits, LimitRaise, SoftLimits
from agentd.gateway.keys.model import AccessKey, issue
from agentd.gateway.limits.budgets import Budget
from agentd.gateway.limits.events import HardLimitReached, SoftLimitReached
from agentd.gateway.limits.meters import KeyMeters, iter_accounts
from agentd.gateway.limits.request_limits import RequestLimits
from agentd.gateway.limits.spend import OverLimit
from agentd.gateway.limits.spend_by_quarter_hour import KeySpend, SpendByQuarterHour, SpendRow

USD = st.decimals(0, 20, places=6)
NOON = "2026-01-31T12:00:00.000Z"
EVENING = "2026-01-31T20:00:00.000Z"


def build_key(name: str = "ann", **fields) -> AccessKey:
    return structs.replace(issue(name, "2026-01-01T00:00:00.000Z")[1], **fields)


class World:
    """Meters and their clock, and the events that they published."""

    def __init__(self, *budgets: Budget) -> None:
        self.clock = FrozenClock(NOON)
        self.events: list[SoftLimitReached | HardLimitReached] = []
        self.meters = KeyMeters(UTC, self.clock, self.note_event)
        self.meters.set_budgets(budgets)

    def note_event(self, event: Event) -> None:
        assert isinstance(event, SoftLimitReached | HardLimitReached)
        self.events.append(event)

    def limit(self, key: AccessKey, model: str = "large") -> RequestLimits:
        if not self.meters.has_counted_models(key):
            self.meters.set_model_spend(key, SpendByQuarterHour())
        return self.meters.limit_request(key, model)

    def call(self, key: AccessKey, cost: str, model: str = "large") -> None:
        limits = self.limit(key, model)
        limits.reserve(Decimal(cost), 1)
        limits.settle(Decimal(cost), 1, self.clock.now())

    def refuse(self, key: AccessKey, upper: str = "1", model: str = "large") -> OverLimit:
        with pytest.raises(OverLimit) as refused:
            self.limit(key, model).reserve(Decimal(upper), 1)
        self.meters.announcer.on_refused(refused.value)
        return refused.value

    def get_reserved(self, key: AccessKey) -> list[Decimal | int]:
        meters = self.meters
        every = (
            meters.describe_key(key),
            *meters.describe_models(key),
            *meters.describe_shared(key),
        )
        return [limit.reserved for status in every for limit in status.limits]


def test_keys_of_one_owner_spend_one_budget() -> None:
    world = World(Budget(name="ann", owner="ann", limits=KeyLimits(day=Decimal(3))))
    laptop, server = build_key("laptop", owner="ann"), build_key("server", owner="ann")
    world.call(laptop, "1")
    world.call(server, "2")
    assert world.refuse(laptop).code == "limit_owner_day"
    assert 'limit of the owner "ann"' in world.refuse(server).message
    world.call(build_key("other", owner="bob"), "5")


def test_a_removed_key_is_forgotten_unless_a_call_was_counted() -> None:
    """An undo may restore it, with all that it spent."""
    world = World()
    used, unused, kept = (build_key(name, limits=KeyLimits(day=Decimal(2))) for name in "abc")
    world.call(used, "2")
    meters = {key.id: world.meters.for_key(key) for key in (used, unused, kept)}
    world.meters.forget_removed({kept.id: kept}.get)
    assert world.meters.for_key(used) is meters[used.id]
    assert world.meters.for_key(kept) is meters[kept.id]
    assert world.meters.for_key(unused) is not meters[unused.id]
    assert world.refuse(used, "0.1").code == "limit_day"
    under_way = world.limit(unused)
    under_way.reserve(Decimal(2), 1)
    world.meters.forget_removed({}.get)
    assert world.refuse(unused, "0.1").code == "limit_day"


def test_every_tag_of_a_key_counts_and_limits() -> None:
    world = World(
        Budget(name="a", tag="a", limits=KeyLimits(total=Decimal(5))),
        Budget(name="b", tag="b", limits=KeyLimits(total=Decimal(3))),
    )
    both, one = build_key("both", tags=("a", "b")), build_key("one", tags=("a",))
    world.call(both, "3")
    assert world.refuse(both, "0.1").holder.name == "b"
    world.call(one, "2")
    assert world.refuse(one, "0.1").holder.name == "a"


def test_a_key_shares_with_those_of_its_owner_if_it_has_one_and_of_its_tags() -> None:
    assert list(iter_accounts(build_key())) == []
    assert list(iter_accounts(build_key(tags=("a", "b")))) == [("tag", "a"), ("tag", "b")]
    assert list(iter_accounts(build_key(owner="ann"))) == [("owner", "ann")]


def test_models_within_a_key_have_limits_of_their_own() -> None:
    world = World()
    key = build_key(
        model_limits={"gpt-*": KeyLimits(day=Decimal(2)), "large": KeyLimits(parallel=1)}
    )
    world.call(key, "1", "gpt-5")
    world.call(key, "1", "gpt-6")
    refused = world.refuse(key, "0.1", "gpt-5")
    assert (refused.code, refused.holder.model) == ("limit_model_day", "gpt-*")
    first = world.limit(key)
    first.reserve(Decimal(1), 1)
    assert world.refuse(key).code == "limit_model_parallel"
    world.call(key, "50", "small")


def test_what_is_under_way_counts_in_limits_on_models_that_come_meanwhile() -> None:
    world, key = World(), build_key()
    running, other = world.limit(key), world.limit(key, "small")
    for one in (running, other):
        one.reserve(Decimal(4), 1)
    limited = structs.replace(key, model_limits={"lar*": KeyLimits(day=Decimal(5))})
    world.call(limited, "1")
    for one in (running, running, other):  # the second time is nothing
        one.settle(Decimal(3), 1, NOON)
    (status,) = world.meters.describe_models(limited)
    assert status.used.day == status.used.total == 4
    assert world.refuse(limited, "2").code == "limit_model_day"


def test_limits_on_models_that_were_removed_and_put_back_count_what_was_spent_between() -> None:
    world, free = World(), build_key()
    limited = structs.replace(free, model_limits={"large": KeyLimits(day=Decimal(5))})
    world.call(limited, "1")
    world.call(free, "2")
    world.call(limited, "1")
    (status,) = world.meters.describe_models(limited)
    assert status.used.day == 4
    assert world.meters.describe_key(limited).used.day == 4


def test_models_are_counted_again_once_a_limit_on_them_never_resets() -> None:
    world = World()
    key = build_key(model_limits={"large": KeyLimits(day=Decimal(5))})
    world.call(key, "1")
    assert world.meters.has_counted_models(key)
    lasting = structs.replace(key, model_limits={"large": KeyLimits(total=Decimal(5))})
    assert not world.meters.has_counted_models(lasting), "only recent days were counted"
    world.call(lasting, "1")
    assert world.meters.has_counted_models(lasting)
    assert world.meters.has_counted_models(key), "more than is needed was counted"


def test_models_that_are_counted_again_keep_what_calls_under_way_have_reserved() -> None:
    world, key = World(), build_key(model_limits={"large": KeyLimits(day=Decimal(5))})
    running = world.limit(key)
    running.reserve(Decimal(4), 1)
    world.meters.set_model_spend(key, SpendByQuarterHour())
    assert world.refuse(key, "2").code == "limit_model_day"
    running.settle(Decimal(1), 1, NOON)
    world.call(key, "4")


def test_what_one_limit_refuses_is_reserved_of_none() -> None:
    world = World(
        Budget(name="b", tag="b", limits=KeyLimits(total=Decimal(1), requests_per_minute=1))
    )
    key = build_key(
        tags=("b",),
        limits=KeyLimits(total=Decimal(10), requests_per_minute=5, parallel=5),
        model_limits={"*": KeyLimits(total=Decimal(10))},
    )
    world.refuse(key, "2")
    assert set(world.get_reserved(key)) == {0}
    assert [one.used for one in world.meters.describe_key(key).limits] == [0, 0, 0]
    world.call(key, "1")


def test_what_a_call_needs_more_is_reserved_of_all_or_none() -> None:
    world = World(Budget(name="b", tag="b", limits=KeyLimits(total=Decimal(5))))
    key = build_key(tags=("b",), limits=KeyLimits(total=Decimal(10)))
    limits = world.limit(key)
    limits.reserve(Decimal(1), 1)
    with pytest.raises(OverLimit):
        limits.reserve(Decimal(6), 1)
    assert world.get_reserved(key) == [1, 1]
    limits.reserve(Decimal(5), 1)
    assert world.get_reserved(key) == [5, 5]
    limits.settle(Decimal(2), 1, world.clock.now())
    limits.settle(Decimal(2), 1, world.clock.now())
    assert world.get_reserved(key) == [0, 0]
    assert world.meters.describe_shared(key)[0].used.total == 2


def test_200_calls_of_many_keys_never_pass_what_they_share() -> None:
    world = World(Budget(name="b", tag="b", limits=KeyLimits(day=Decimal(10))))
    keys = [build_key(f"k{number}", tags=("b",)) for number in range(20)]
    under_way = []
    for number in range(200):
        limits = world.limit(keys[number % 20])
        try:
            limits.reserve(Decimal(1), 1)
        except OverLimit:
            continue
        under_way.append(limits)
    assert len(under_way) == 10
    for one in under_way:
        one.settle(Decimal(1), 1, world.clock.now())
    assert world.meters.describe_shared(keys[0])[0].used.day == 10


def test_a_disabled_budget_limits_nothing_and_counts_on() -> None:
    budget = Budget(name="b", tag="b", limits=KeyLimits(day=Decimal(1)))
    world = World(structs.replace(budget, enabled=False))
    key = build_key(tags=("b",))
    world.call(key, "5")
    assert world.meters.describe_shared(key) == ()
    world.meters.set_budgets([budget])
    assert world.refuse(key, "0").status.used == 5


def test_a_raise_holds_until_it_ends_and_then_the_old_limit_by_itself() -> None:
    raised = LimitRaise(
        limits=KeyLimits(day=Decimal(3)), models={"*": KeyLimits(day=Decimal(3))}, until=EVENING
    )
    day = KeyLimits(day=Decimal(1))
    world = World(Budget(name="b", tag="b", limits=day, raised=structs.replace(raised, models={})))
    key = build_key(tags=("b",), limits=day, model_limits={"*": day}, raised=raised)
    world.call(key, "2.5")
    assert {limit.limit for limit in world.meters.describe_limits(key)} == {3}
    world.clock.move(8 * 3600)
    refused = world.refuse(key, "0")
    assert (refused.holder.scope, refused.status.limit) == ("key", 1)
    budget_alone = build_key(tags=("b",))
    assert world.refuse(budget_alone, "0").status.limit == 1


def test_a_soft_limit_warns_once_in_its_period_and_refuses_nothing() -> None:
    world = World(
        Budget(name="b", tag="b", limits=KeyLimits(day=Decimal(10)), warn_at=0.8),
    )
    key = build_key(tags=("b",), soft_limits=SoftLimits(month=Decimal(9)))
    world.call(key, "7")
    assert world.events == []
    world.call(key, "1")
    (event,) = world.events
    assert isinstance(event, SoftLimitReached)
    reached = event.reached
    assert (reached.scope, reached.name, reached.budget, reached.window) == ("tag", "b", "b", "day")
    assert (reached.limit, reached.spent) == (8, 8)
    world.call(key, "1")
    assert [one.reached.window for one in world.events] == ["day", "month"]
    world.call(key, "0.5")
    assert len(world.events) == 2, "once in a period"
    world.clock.move(86400)
    world.call(key, "8.5")
    assert [one.reached.window for one in world.events] == ["day", "month", "day"]


def test_a_soft_limit_that_was_passed_before_a_start_does_not_warn_again() -> None:
    key = build_key(soft_limits=SoftLimits(total=Decimal(1)))
    world = World()
    world.meters.for_key(key).settle(
        world.meters.for_key(key).take(Decimal(5), 1), Decimal(5), 1, NOON
    )
    world.call(key, "1")
    assert world.events == []
    lower = structs.replace(key, soft_limits=SoftLimits(total=Decimal(6)))
    world.call(lower, "1")
    assert [one.reached.limit for one in world.events] == [6], "another amount warns again"


def test_limits_that_reset_by_the_minute_or_with_a_call_are_not_announced() -> None:
    world = World()
    for limits in (
        KeyLimits(requests_per_minute=1),
        KeyLimits(tokens_per_minute=1),
        KeyLimits(parallel=1),
    ):
        key = build_key(limits=limits)
        world.limit(key).reserve(Decimal(0), 1)
        world.refuse(key)
    assert world.events == []


def test_a_request_that_was_refused_settles_nothing() -> None:
    world = World(Budget(name="ann", owner="ann", soft_limits=SoftLimits(day=Decimal(1))))
    key = build_key(owner="ann", limits=KeyLimits(day=Decimal(1)))
    limits = world.limit(key)
    with pytest.raises(OverLimit):
        limits.reserve(Decimal(2), 1)
    limits.settle(Decimal(2), 1, world.clock.now())
    assert world.meters.for_key(key).used.total == 0
    assert world.events == []


def test_new_sums_replace_those_of_keys_and_of_what_they_share() -> None:
    budget = Budget(name="ann", owner="ann", limits=KeyLimits(day=Decimal(9)))
    world, key = World(budget), build_key(owner="ann")
    world.call(key, "1")
    start = datetime(2026, 1, 31, 10, tzinfo=UTC)
    rows = (
        SpendRow(key.id, start, KeySpend(Decimal(5))),
        SpendRow("owner:ann", start, KeySpend(Decimal(7))),
    )
    world.meters.reset_to(SpendByQuarterHour(rows), UTC)
    assert world.meters.for_key(key).used.day == 5
    assert world.meters.describe_budget(budget).used.day == 7


def test_sums_are_of_another_day_once_a_clock_that_was_wrong_is_right() -> None:
    world = World()
    meters, clock = world.meters, world.clock
    assert not meters.is_counted_for_another_day
    clock.jump(-86400)
    assert meters.is_counted_for_another_day, "it was ahead"
    clock.jump(86400)
    assert not meters.is_counted_for_another_day
    known = SpendByQuarterHour([SpendRow("k", datetime(2026, 2, 1, tzinfo=UTC), KeySpend())])
    meters.reset_to(known, ZoneInfo("Asia/Tokyo"))
    assert meters.zone == ZoneInfo("Asia/Tokyo")
    meters.reset_to(known, UTC)
    clock.jump(12 * 3600 - 1)
    assert not meters.is_counted_for_another_day
    clock.jump(1)
    assert meters.is_counted_for_another_day, "it was behind: something was spent on that day"
    meters.reset_to(known, UTC)
    assert not meters.is_counted_for_another_day
    clock.jump(86400)
    assert not meters.is_counted_for_another_day, "nothing was spent on that day"


def test_the_windows_of_another_zone_begin_at_its_midnights() -> None:
    meters = World().meters
    day, week, month = meters.iter_window_starts(ZoneInfo("Asia/Tokyo"))
    assert (day, week, month) == (
        datetime(2026, 1, 30, 15, tzinfo=UTC),
        datetime(2026, 1, 25, 15, tzinfo=UTC),
        datetime(2025, 12, 31, 15, tzinfo=UTC),
    )
    assert next(meters.iter_window_starts()) == datetime(2026, 1, 31, tzinfo=UTC)


def test_limits_reset_at_the_midnight_of_the_zone_that_was_counted_last() -> None:
    world = World()
    old, new = (build_key(name, limits=KeyLimits(day=Decimal(9))) for name in ("old", "new"))
    world.call(old, "1")
    start = datetime(2026, 1, 31, 10, tzinfo=UTC)
    rows = [SpendRow(key.id, start, KeySpend(Decimal(5))) for key in (old, new)]
    world.meters.reset_to(SpendByQuarterHour(rows), ZoneInfo("Asia/Tokyo"))
    for key in (old, new):
        (day,) = world.meters.describe_limits(key)
        assert (day.used, day.resets) == (5, "2026-01-31T15:00:00.000Z")
    world.clock.move(3 * 3600)
    assert [world.meters.for_key(key).used.day for key in (old, new)] == [0, 0]
    assert world.meters.windows.day.start == "2026-01-31T15:00:00.000Z"


def test_the_meters_of_a_key_are_its_own_and_those_of_its_models() -> None:
    owner, tag = Budget(name="ann", owner="ann"), Budget(name="night", tag="night")
    world = World(owner, tag)
    limited = {"large": KeyLimits(day=Decimal(9))}
    key = build_key(owner="ann", tags=("night",), model_limits=limited)
    world.call(key, "1")
    world.call(key, "2", "small")
    found = [
        [meter.used.day for meter in world.meters.iter_meters(one)] for one in (key, owner, tag)
    ]
    assert found == [[3, 1], [3], [3]]


def test_a_hard_limit_is_announced_once_until_it_resets() -> None:
    world = World()
    key = build_key(limits=KeyLimits(day=Decimal(1), requests_per_minute=50))
    world.call(key, "1")
    for _ in range(3):
        world.refuse(key)
    (event,) = world.events
    assert isinstance(event, HardLimitReached)
    assert (event.reached.scope, event.reached.key, event.reached.spent) == ("key", key.id, 1)
    world.clock.move(86400)
    world.call(key, "1")
    world.refuse(key)
    assert len(world.events) == 2


class SharedCalls(RuleBasedStateMachine):
    """Calls of keys with owners and tags begin, grow, end and fail in any order."""

    KEYS = (
        {"limits": KeyLimits(day=Decimal(30))},
        {"owner": "ann", "tags": ("a", "b")},
        {"owner": "ann", "model_limits": {"gpt-*": KeyLimits(day=Decimal(9))}},
        {"tags": ("b",), "limits": KeyLimits(total=Decimal(40))},
    )

    @initialize(limits=st.lists(USD, min_size=3, max_size=3))
    def begin(self, limits: list[Decimal]) -> None:
        ann, a, b = limits
        self.world = World(
            Budget(name="ann", owner="ann", limits=KeyLimits(day=ann * 2)),
            Budget(name="a", tag="a", limits=KeyLimits(total=a * 3)),
            Budget(name="b", tag="b", limits=KeyLimits(month=b, day=b)),
        )
        self.keys = [build_key(f"k{n}", **fields) for n, fields in enumerate(self.KEYS)]
        self.under_way: list[tuple[RequestLimits, Decimal]] = []

    @rule(which=st.integers(0, 3), model=st.sampled_from(["gpt-5", "large"]), upper=USD)
    def reserve(self, which: int, model: str, upper: Decimal) -> None:
        limits = self.world.limit(self.keys[which], model)
        with self._all_or_none():
            limits.reserve(upper, 1)
            self.under_way.append((limits, upper))

    @rule(which=st.integers(0), upper=USD)
    def extend(self, which: int, upper: Decimal) -> None:
        if self.under_way:
            number = which % len(self.under_way)
            limits, before = self.under_way[number]
            with self._all_or_none():
                limits.reserve(upper, 1)
                self.under_way[number] = limits, max(upper, before)

    @rule(which=st.integers(0), share=st.sampled_from([0, 1, 2, 4]))
    def settle(self, which: int, share: int) -> None:
        if self.under_way:
            limits, upper = self.under_way.pop(which % len(self.under_way))
            limits.settle(upper * share / 4, 1, self.world.clock.now())

    @rule(seconds=st.floats(0, 100_000))
    def wait(self, seconds: float) -> None:
        self.world.clock.move(seconds)

    @invariant()
    def no_limit_is_passed(self) -> None:
        for status in self._describe():
            for limit in status.limits:
                assert limit.used + limit.reserved <= limit.limit

    @invariant()
    def nothing_stays_reserved(self) -> None:
        if not getattr(self, "under_way", True):
            reserved = {limit.reserved for status in self._describe() for limit in status.limits}
            assert reserved <= {0}

    @contextmanager
    def _all_or_none(self) -> Iterator[None]:
        before = [status.limits for status in self._describe()]
        try:
            yield
        except OverLimit:
            assert [status.limits for status in self._describe()] == before

    def _describe(self):
        if not hasattr(self, "world"):
            return
        meters = self.world.meters
        for key in self.keys:
            self.world.limit(key)
            yield from (
                meters.describe_key(key),
                *meters.describe_models(key),
                *meters.describe_shared(key),
            )


TestSharedCalls = SharedCalls.TestCase


@given(costs=st.lists(USD, max_size=8))
def test_a_budget_counts_before_it_exists(costs: list[Decimal]) -> None:
    world, key = World(), build_key(owner="ann")
    for cost in costs:
        world.call(key, str(cost))
    budget = Budget(name="late", owner="ann")
    assert world.meters.describe_budget(budget).used.total == sum(costs)
