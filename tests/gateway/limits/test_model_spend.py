"""What keys spent on models is asked of the ledger once, and for no more days than are needed."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from msgspec import structs

from agentd.core.clock import FrozenClock
from agentd.gateway.keys.limits import KeyLimits
from agentd.gateway.keys.model import AccessKey, issue
from agentd.gateway.limits.meters import KeyMeters
from agentd.gateway.limits.model_spend import ModelSpendCounter
from agentd.gateway.limits.spend_by_quarter_hour import KeySpend, SpendByQuarterHour, SpendRow

pytestmark = pytest.mark.gen_test

DAILY, LASTING = KeyLimits(day=Decimal(5)), KeyLimits(total=Decimal(50))
EARLIER, RECENT = (datetime(2026, *day, tzinfo=UTC) for day in ((2, 9, 23, 45), (2, 10)))


class SlowLedger:
    """A ledger that takes its time, and notes what it was asked."""

    def __init__(self, *rows: SpendRow) -> None:
        self.asked: list[Mapping[str, str]] = []
        self._rows = rows

    async def count_model_spend(self, since: Mapping[str, str]) -> SpendByQuarterHour:
        self.asked.append(dict(since))
        await asyncio.sleep(0)
        return SpendByQuarterHour(self._rows)


def build_key(
    name: str, limits: KeyLimits, model: str = "large", created: str = "2026-01-05T10:00:00.000Z"
) -> AccessKey:
    return structs.replace(issue(name, created)[1], model_limits={model: limits})


def build_meters(now: str = "2026-02-10T12:00:00.000Z") -> KeyMeters:
    return KeyMeters(UTC, FrozenClock(now))


@pytest.mark.parametrize(
    ("now", "recent"),
    [
        ("2026-02-10T12:00:00.000Z", "2026-01-31"),
        ("2026-03-01T12:00:00.000Z", "2026-02-22"),  # a Sunday: the week began before the month
    ],
)
async def test_as_many_days_are_counted_as_the_windows_and_what_never_resets_need(now, recent):
    ledger = SlowLedger()
    counter = ModelSpendCounter(build_meters(now), ledger)
    daily, lasting = build_key("daily", DAILY), build_key("lasting", LASTING)
    young = build_key("young", LASTING, created=now)
    await counter.count((daily, lasting, young))
    assert ledger.asked == [{daily.id: recent, lasting.id: "2026-01-05", young.id: recent}]


async def test_nobody_is_asked_about_what_is_known():
    ledger, meters = SlowLedger(), build_meters()
    counter = ModelSpendCounter(meters, ledger)
    one, other = build_key("one", DAILY), build_key("other", DAILY)
    await counter.count((structs.replace(one, model_limits={}),))
    assert not ledger.asked
    await asyncio.gather(*(counter.count((one, other)) for _ in range(3)))
    assert [asked.keys() for asked in ledger.asked] == [{one.id, other.id}]
    await counter.count_key(one)
    third = build_key("third", DAILY)
    await asyncio.gather(counter.count((one, third)), counter.count((other, third)))
    assert [asked.keys() for asked in ledger.asked[1:]] == [{third.id}]


async def test_a_pattern_counts_the_models_of_its_key_alone_in_their_windows():
    key, other = build_key("key", LASTING, "gpt-*"), build_key("other", LASTING, "gpt-*")
    places = ((key.id, "gpt-5", RECENT), (key.id, "gpt-6", EARLIER), (key.id, "large", RECENT))
    rows = [
        SpendRow(f"{key_id}/{model}", start, KeySpend(Decimal(10**number)))
        for number, (key_id, model, start) in enumerate((*places, (other.id, "gpt-5", RECENT)))
    ]
    meters = build_meters()
    await ModelSpendCounter(meters, SlowLedger(*rows)).count((key, other))
    (spent,), (others,) = meters.describe_models(key), meters.describe_models(other)
    assert (spent.used.total, spent.used.month, spent.used.day) == (11, 11, 1)
    assert others.used.total == 1000
    assert spent.has_total


async def test_another_limited_model_or_a_recount_of_all_is_counted_again():
    ledger, meters = SlowLedger(), build_meters()
    counter, key = ModelSpendCounter(meters, ledger), build_key("key", DAILY)
    await counter.count_key(key)
    assert not meters.describe_models(key)[0].has_total, "only recent days were counted"
    more = structs.replace(key, model_limits={"large": DAILY, "small": DAILY})
    await counter.count_key(more)
    assert len(ledger.asked) == 2
    meters.reset_to(SpendByQuarterHour(), UTC)
    await counter.count_key(more)
    assert len(ledger.asked) == 3
