"""Balances are read the channel's own way, at intervals, and without telling a key."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest
from msgspec import structs

from agentd.core.clock import FrozenClock
from agentd.core.errors import BadRequest, Unavailable
from agentd.gateway.channels import balances
from agentd.gateway.channels.balances import BalanceService, read_channel_balance
from agentd.gateway.channels.check import Reach
from agentd.gateway.channels.egress import Egress
from agentd.gateway.channels.model import BalanceReading, Channel
from agentd.llm.upstream.client import HttpUpstream
from tests.supplier.supplier import Supplier

KEYS = {"key": "sk-canary-0123456789", "keys[0]": "sk-second-0123456789"}
PATH = "/user/balance"


@pytest.fixture(scope="module")
def supplier() -> Iterator[Supplier]:
    with Supplier() as made:
        yield made


@pytest.fixture(autouse=True)
def _anew(supplier: Supplier) -> None:
    supplier.others.clear()
    supplier.documents = {PATH: tell(5)}


def tell(amount: float) -> dict[str, Any]:
    return {"balance_infos": [{"currency": "USD", "total_balance": str(amount)}]}


def build_channel(supplier: Supplier, **more: Any) -> Channel:
    known: dict[str, Any] = {
        "name": "deep",
        "dialects": ("openai-chat",),
        "url": f"{supplier.url}/v1",
        "key": "env:FIRST",
        "local": True,
        "balance": BalanceReading(source="deepseek"),
    }
    return Channel(**{**known, **more})


@asynccontextmanager
async def connect() -> AsyncIterator[Reach]:
    egress = Egress()

    async def reach(channel: Channel, field: str) -> tuple[HttpUpstream, str]:
        return egress.get_upstream(channel, channel.transport), KEYS[field]

    try:
        yield reach
    finally:
        await egress.close()


def test_each_key_is_asked_with_the_channels_headers(supplier: Supplier) -> None:
    async def run() -> None:
        channel = build_channel(supplier, keys=("env:SECOND",), headers={"x-team": "blue"})
        async with connect() as reach:
            found = await read_channel_balance(reach, channel, FrozenClock())
        assert [(one.field, one.amount, one.error) for one in found.keys] == [
            ("key", Decimal(5), ""),
            ("keys[0]", Decimal(5), ""),
        ]
        assert [one.path for one in supplier.others] == [PATH, PATH]
        sent = [(one.headers["authorization"], one.headers["x-team"]) for one in supplier.others]
        assert sent == [(f"Bearer {key}", "blue") for key in KEYS.values()]
        assert found.list_low(Decimal(5)) == []
        assert len(found.list_low(Decimal("5.01"))) == 2

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((401, {"error": KEYS["key"]}), "does not accept its key"),
        ((404, b"nothing"), "is the source right?"),
        ((405, b""), "is the source right?"),
        ((501, b""), "is the source right?"),
        ((302, b""), "HTTP 302"),
        ((500, KEYS["key"].encode()), "HTTP 500"),
        (b"<html>", "tells no balance"),
        (tell(float("nan")), "is not an amount"),
        (b"1" * (300 * 1024), "too long"),
    ],
)
def test_what_cannot_be_read_is_told_without_the_key_and_keeps_the_amount(
    supplier: Supplier, answer: Any, why: str
) -> None:
    async def run() -> None:
        channel, clock = build_channel(supplier), FrozenClock()
        async with connect() as reach:
            known = await read_channel_balance(reach, channel, clock)
            supplier.documents[PATH] = answer
            found = await read_channel_balance(reach, channel, clock, known)
        (one,) = found.keys
        assert (one.amount, one.read_at) == (Decimal(5), known.keys[0].read_at)
        assert why in one.error
        assert "canary" not in one.error

    asyncio.run(run())


def test_an_address_of_this_machine_is_not_asked_unless_it_may_be(supplier: Supplier) -> None:
    async def run() -> None:
        channel = build_channel(supplier, local=False)
        async with connect() as reach:
            (one,) = (await read_channel_balance(reach, channel, FrozenClock())).keys
        assert one.error
        assert one.amount is None
        assert supplier.others == []

    asyncio.run(run())


def test_an_error_of_the_way_holds_no_key(supplier: Supplier) -> None:
    class Failing:
        def send(self, request: Any) -> Any:
            raise Unavailable(f"refused {KEYS['key']}\x1b")

    async def reach(channel: Channel, field: str) -> tuple[Any, str]:
        return Failing(), KEYS[field]

    found = asyncio.run(read_channel_balance(reach, build_channel(supplier), FrozenClock()))
    assert found.keys[0].error.startswith("refused ***")
    assert "\x1b" not in found.keys[0].error


def test_a_supplier_that_does_not_answer_is_given_up(
    supplier: Supplier, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def reach(channel: Channel, field: str) -> tuple[Any, str]:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(balances, "SECONDS", 0.01)
    found = asyncio.run(read_channel_balance(reach, build_channel(supplier), FrozenClock()))
    assert found.keys[0].error == "it takes longer than 0.01 s"


def test_a_supplier_that_tells_nothing_is_not_asked(supplier: Supplier) -> None:
    async def run() -> None:
        channel = build_channel(supplier, balance=BalanceReading())
        async with connect() as reach:
            with pytest.raises(BadRequest, match="not known to report"):
                await read_channel_balance(reach, channel, FrozenClock())
            service = BalanceService(reach, lambda: {"deep": channel}, FrozenClock())
            assert service.get(channel) is None
            await service.read_due()
        assert supplier.others == []

    asyncio.run(run())


def test_balances_are_read_at_intervals_and_at_once_for_another_key(supplier: Supplier) -> None:
    async def run() -> None:
        clock, channel = FrozenClock(), build_channel(supplier)
        channels = {"deep": channel}
        async with connect() as reach:
            service = BalanceService(reach, lambda: channels, clock)
            assert list(service.iter_known()) == []
            for _ in range(2):
                await service.read_due()
                service.on_channels_changed()
            assert len(supplier.others) == 1
            clock.move(balances.INTERVAL)
            supplier.documents[PATH] = tell(4)
            await service.read_due()
            known = service.get(channel)
            assert known is not None
            assert known.keys[0].amount == 4

            other = channels["deep"] = structs.replace(channel, key="env:OTHER")
            unread = service.get(other)
            assert unread is not None
            assert unread.keys[0].amount is None
            await service.read_due()
            assert len(supplier.others) == 3
            assert [one.name for one, _ in service.iter_known()] == ["deep"]

            channels["deep"] = structs.replace(other, enabled=False)
            clock.move(balances.INTERVAL)
            await service.read_due()
            assert (len(supplier.others), list(service.iter_known())) == (3, [])
            channels.clear()
            service.on_channels_changed()
            assert service.get(other).keys[0].amount is None  # type: ignore[union-attr]

    asyncio.run(run())


def test_a_running_service_reads_a_new_channel_before_its_interval_is_over(
    supplier: Supplier, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        monkeypatch.setattr(balances, "DELAY", 0.0)
        channels = {"deep": build_channel(supplier)}
        asked: asyncio.Queue[str] = asyncio.Queue()
        async with connect() as reach:

            async def note(channel: Channel, field: str) -> tuple[HttpUpstream, str]:
                asked.put_nowait(channel.name)
                return await reach(channel, field)

            service = BalanceService(note, lambda: channels, FrozenClock())
            running = asyncio.create_task(service.run())
            assert await asyncio.wait_for(asked.get(), 60) == "deep"
            channels["other"] = build_channel(supplier, name="other")
            service.on_channels_changed()
            assert await asyncio.wait_for(asked.get(), 60) == "other"
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


def test_the_usage_at_another_gateway_is_asked_of_days_around_today(supplier: Supplier) -> None:
    billing = "/v1/dashboard/billing"
    supplier.documents = {
        f"{billing}/subscription": {"hard_limit_usd": 20},
        f"{billing}/usage": {"total_usage": 150},
    }

    async def run() -> None:
        channel = build_channel(supplier, balance=BalanceReading(source="new-api"))
        async with connect() as reach:
            (one,) = (await read_channel_balance(reach, channel, FrozenClock())).keys
        assert (one.amount, one.error) == (Decimal("18.5"), "")

    asyncio.run(run())


def test_a_running_service_reads_by_itself(
    supplier: Supplier, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        monkeypatch.setattr(balances, "DELAY", 0.0)
        monkeypatch.setattr(balances, "INTERVAL", 0.0)
        channels: dict[str, Channel] = {}
        asked: asyncio.Queue[str] = asyncio.Queue()
        async with connect() as reach:

            async def count(channel: Channel, field: str) -> tuple[HttpUpstream, str]:
                asked.put_nowait(field)
                return await reach(channel, field)

            service = BalanceService(count, lambda: channels, FrozenClock())
            running = asyncio.create_task(service.run())
            await asyncio.sleep(0)
            channels["deep"] = build_channel(supplier)
            service.on_channels_changed()
            for _ in range(3):
                await asyncio.wait_for(asked.get(), 60)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())
