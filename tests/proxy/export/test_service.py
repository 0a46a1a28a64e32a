"""The ledger in a real database: all of it, each row once, whatever fails on the way."""

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agentd.clock import FrozenClock
from agentd.disk import ledger_export
from agentd.disk.export_state import ExportFile
from agentd.disk.ledger import Ledger
from agentd.disk.ledger_export import LedgerDays
from agentd.disk.lines import seal
from agentd.errors import BadRequest, Conflict, DatabaseRefused, SupplierUnreachable
from agentd.outside.clickhouse import ClickHouses
from agentd.proxy.export import service, work
from agentd.proxy.export.service import Exporter, Standing
from agentd.proxy.price import Prices
from agentd.proxy.settings import Export
from tests.conftest import until
from tests.outside.clickhouse import Server, serving
from tests.proxy.entries import entry

DAYS = ["2026-01-01", "2026-01-02", "2026-01-03"]
NOW = "2026-01-04T12:00:00.000Z"

pytestmark = pytest.mark.gen_test


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("clickhouse")) as found:
        yield found


@pytest.fixture(autouse=True)
def _empty(server):
    yield
    server.ask("DROP TABLE IF EXISTS agentd_requests")
    server.ask("DROP TABLE IF EXISTS other")


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Chunks of two rows, and everything is looked at soon."""
    monkeypatch.setattr(ledger_export, "CHUNK_ROWS", 2)
    monkeypatch.setattr(service, "LOOK_SECONDS", 0.05)


async def password_of(to: Export) -> str:
    return to.password


class Databases(ClickHouses):
    """The real ones, with a way to fail: ``fails`` is told each step's name beforehand."""

    def __init__(self) -> None:
        super().__init__(password_of)
        self.steps: list[str] = []
        self.before: Any = lambda step: None
        self.after: Any = lambda step: None
        self.watched: type[_Watched] = _Watched

    @asynccontextmanager
    async def open(self, to):
        async with super().open(to) as database:
            yield self.watched(database, self)


class _Watched:
    def __init__(self, database, watching: Databases) -> None:
        self._database = database
        self._watching = watching

    def __getattr__(self, name):
        async def step(*values):
            self._watching.steps.append(name)
            self._watching.before(name)
            told = await getattr(self._database, name)(*values)
            self._watching.after(name)
            return told

        return step


@dataclass
class House:
    layout: Any
    to: Export
    clock: FrozenClock = field(default_factory=lambda: FrozenClock(NOW))
    databases: Databases = field(default_factory=Databases)
    exporter: Exporter = None  # type: ignore[assignment]

    async def book(self, *entries) -> None:
        ledger = Ledger(self.layout, self.clock)
        await ledger.open()
        await asyncio.gather(*map(ledger.book, entries))
        await ledger.close()

    @asynccontextmanager
    async def running(self):
        self.exporter = Exporter(
            lambda: self.to,
            self.databases,
            LedgerDays(self.layout),
            ExportFile(self.layout),
            self.clock,
        )
        await self.exporter.open()
        task = asyncio.create_task(self.exporter.run())
        try:
            yield self.exporter
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def when(self, true: Callable[[Standing], bool]) -> Standing:
        """The first standing of which this is true."""
        while not true(now := await self.exporter.standing()):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        return now

    async def waiting(self) -> Standing:
        """Once something failed."""
        return await self.when(lambda now: now.phase == "waiting")

    async def rest(self) -> dict[str, str]:
        """Once nothing is left to be sent: the state of each day."""
        now = await self.when(lambda now: bool(now.looked_at) and not now.lag_days)
        now = await self.when(lambda now: now.phase == "idle")
        return {day: one.state for day, one in now.days.items()}

    async def life(self) -> dict[str, str]:
        async with self.running():
            return await self.rest()


@pytest.fixture
def house(layout, server):
    return House(layout, server.settings())


def of(day: str, *numbers: int, **more):
    return [entry(number, f"{day}T00:00:{number % 60:02d}.000Z", **more) for number in numbers]


def found(server: Server) -> list[str]:
    """The ids of all rows, as any reader counts them: merged or not."""
    return [row["request_id"] for row in server.rows()]


async def test_closed_days_are_sent_and_the_present_one_is_not(house, server):
    await house.book(*of(DAYS[0], 1, 2, 3), *of(DAYS[1], 4), *of("2026-01-04", 5))
    assert await house.life() == {
        DAYS[0]: "done",
        DAYS[1]: "done",
        "2026-01-04": "pending",
    }
    assert found(server) == ["r-1", "r-2", "r-3", "r-4"]


async def test_twice_the_same_is_there_once_and_costs_no_request(house, server):
    await house.book(*of(DAYS[0], 1, 2, 3))
    await house.life()
    house.databases.steps.clear()
    assert await house.life() == {DAYS[0]: "done"}
    assert house.databases.steps == []
    assert found(server) == ["r-1", "r-2", "r-3"]


async def test_without_its_state_all_is_sent_in_the_place_of_what_was_sent(house, server):
    await house.book(*of(DAYS[0], 1, 2, 3))
    await house.life()
    Path(house.layout.export).unlink()
    assert await house.life() == {DAYS[0]: "done"}
    assert found(server) == ["r-1", "r-2", "r-3"]


async def test_a_new_price_makes_the_day_changed_and_it_is_sent_anew(house, server):
    await house.book(*of(DAYS[0], 1, 2, 3), *of(DAYS[1], 4))
    await house.life()
    before = server.rows()
    ledger = Ledger(house.layout, house.clock)
    await ledger.open()
    dear = Prices(input=Decimal(10**6), output=Decimal(0))
    await ledger.reprice(DAYS[0], DAYS[0], lambda _: (dear, "v2"))
    await ledger.close()
    house.clock.move(1)
    assert await house.life() == {DAYS[0]: "done", DAYS[1]: "done"}
    rows = server.rows()
    assert [row["cost"] for row in rows] == [10, 10, 10, 0.25]
    assert [row["first_cost"] for row in rows] == [0.25] * 4
    assert rows[0]["export_version"] > before[0]["export_version"]
    assert rows[3] == before[3]


async def test_a_late_line_is_sent_on_without_the_rest(house, server):
    await house.book(*of(DAYS[0], 1, 2, 3))
    await house.life()
    house.databases.steps.clear()
    await house.book(*of(DAYS[0], 4))
    assert await house.life() == {DAYS[0]: "done"}
    assert house.databases.steps == ["insert", "count"]
    assert found(server) == ["r-1", "r-2", "r-3", "r-4"]


class Gone(SupplierUnreachable):
    def __init__(self) -> None:
        super().__init__("gone", "connect", "h")


@pytest.mark.parametrize("step", ["drop", "insert", "count"])
@pytest.mark.parametrize("arrived", [False, True])
@pytest.mark.parametrize("nth", [1, 2])
async def test_whatever_fails_wherever_each_row_is_there_once(house, server, step, arrived, nth):
    """It fails before the server had it, or after: the answer is lost. Then the daemon dies."""
    await house.book(*of(DAYS[0], 1, 2, 3), *of(DAYS[1], 4, 5))
    left = [nth]

    def fail(name):
        if name == step:
            left[0] -= 1
            if left[0] == 0:
                raise Gone

    setattr(house.databases, "after" if arrived else "before", fail)
    async with house.running():
        await until(lambda: left[0] <= 0)
        standing = await house.waiting()
        assert standing.last_error == "gone"
        assert standing.lag_days
        assert standing.retry_seconds == 1
    assert await house.life() == {DAYS[0]: "done", DAYS[1]: "done"}
    assert found(server) == ["r-1", "r-2", "r-3", "r-4", "r-5"]


@pytest.mark.parametrize("arrived", [False, True])
async def test_only_what_did_not_arrive_is_sent_again(house, arrived):
    await house.book(*of(DAYS[0], 1, 2, 3, 4))
    left = [2]

    def fail(name):
        if name == "insert":
            left[0] -= 1
            if left[0] == 0:
                raise Gone

    setattr(house.databases, "after" if arrived else "before", fail)
    async with house.running():
        await house.waiting()
    house.databases.steps.clear()
    await house.life()
    assert house.databases.steps == ["count", *(["insert"] * (not arrived)), "count"]


async def test_a_day_that_is_priced_anew_while_it_is_sent_is_there_as_it_is_now(house, server):
    await house.book(*of(DAYS[0], 1, 2, 3, 4))
    path = Path(house.layout.ledger_day(DAYS[0]))
    left = [2]

    def reprice(name):
        if name == "insert":
            left[0] -= 1
            if left[0] == 0:
                beside = path.with_name("anew")
                beside.write_bytes(b"".join(map(seal, of(DAYS[0], 1, 2, 3, 4, cost=Decimal(7)))))
                beside.rename(path)

    house.databases.before = reprice
    assert await house.life() == {DAYS[0]: "done"}
    assert [row["cost"] for row in server.rows()] == [7] * 4


async def test_a_server_that_is_killed_in_the_middle_gets_the_rest_once_it_is_back(house, server):
    await house.book(*of(DAYS[0], *range(1, 8)))
    killed = []

    def kill(name):
        if name == "insert" and not killed:
            killed.append(name)
            server.kill()

    house.databases.after = kill
    async with house.running() as exporter:
        await until(lambda: killed)
        now = await house.waiting()
        assert (now.lag_days, now.lag_since) == (1, DAYS[0])
        assert "cannot be connected to" in now.last_error
        await asyncio.to_thread(server.start)
        exporter.wake()
        assert await house.rest() == {DAYS[0]: "done"}
    assert sorted(found(server)) == [f"r-{number}" for number in range(1, 8)]


async def test_the_waits_grow_and_end_when_the_settings_are_others(house, server):
    await house.book(*of(DAYS[0], 1))
    good = house.to
    house.to = structs.replace(good, url="http://127.0.0.1:1")
    async with house.running() as exporter:
        for wanted in (1, 2, 4):
            await house.when(lambda now, wanted=wanted: now.retry_seconds == wanted)
            exporter.wake()
        house.to = good
        assert await house.rest() == {DAYS[0]: "done"}
        assert (await exporter.standing()).last_error == ""
    assert found(server) == ["r-1"]


async def test_a_backfill_tells_and_sends_exactly_what_is_missed_and_changed(house, server):
    await house.book(*of(DAYS[0], 1), *of(DAYS[1], 2, 3), *of(DAYS[2], 4), *of("2026-01-04", 9))
    house.to = structs.replace(house.to, since=DAYS[2])
    async with house.running() as exporter:
        assert (await house.rest())[DAYS[2]] == "done"
        dry = await exporter.backfill("2025-01-01", "2026-12-31", dry_run=True)
        assert [(one.day, one.state, one.rows, one.exact) for one in dry] == [
            (DAYS[0], "pending", 1, True),
            (DAYS[1], "pending", 2, True),
        ]
        assert dry[1].bytes == 2 * dry[0].bytes > 0
        assert await house.rest()
        assert found(server) == ["r-4"]
        house.databases.steps.clear()
        assert await exporter.backfill(DAYS[1], DAYS[1]) == dry[1:]
        await until(lambda: "insert" in house.databases.steps)
        assert (await house.rest())[DAYS[1]] == "done"
        assert await exporter.backfill(DAYS[1], DAYS[2]) == []
        assert (await house.rest())[DAYS[0]] == "pending"
    assert house.databases.steps.count("insert") == 1
    assert found(server) == ["r-2", "r-3", "r-4"]


async def test_a_backfill_finds_the_days_that_the_table_has_lost(house, server):
    await house.book(*of(DAYS[0], 1, 2, 3), *of(DAYS[1], 4))
    async with house.running() as exporter:
        await house.rest()
        day = f"('{ExportFile(house.layout).source()}', '{DAYS[0]}')"
        server.ask(f"ALTER TABLE agentd_requests DROP PARTITION {day}")
        told = await exporter.backfill(DAYS[0], DAYS[1])
        assert [(one.day, one.state, one.rows) for one in told] == [(DAYS[0], "changed", 3)]
        await until(lambda: len(server.rows()) == 4)
        assert set((await house.rest()).values()) == {"done"}
    assert found(server) == ["r-1", "r-2", "r-3", "r-4"]


async def test_who_asks_for_a_backfill_does_not_wait_for_a_database_that_is_mute(
    house, monkeypatch
):
    class Mute(_Watched):
        async def count(self, *_):
            """Never answer."""
            self._watching.steps.append("count")
            await asyncio.Event().wait()

    await house.book(*of(DAYS[0], 1))
    await house.life()
    monkeypatch.setattr(service, "ASK_SECONDS", 1.0)
    house.databases.watched = Mute
    house.databases.steps.clear()
    async with house.running() as exporter:
        while "count" not in house.databases.steps:  # the machine may stand still before it asks
            assert await exporter.backfill(DAYS[0], DAYS[0]) == []


async def test_what_a_terminal_asks_for_is_sent_too_also_after_an_outage(house, server):
    await house.book(*of(DAYS[0], 1))
    good = structs.replace(house.to, since="2026-01-03")
    house.to = structs.replace(good, url="http://127.0.0.1:1")
    ExportFile(house.layout).ask(service.EVER)
    async with house.running():
        await house.waiting()
        house.to = good
        await until(lambda: not ExportFile(house.layout).asked())
        assert await house.rest() == {DAYS[0]: "done"}
    assert found(server) == ["r-1"]


async def test_another_table_gets_all_and_a_table_that_has_all_gets_nothing(house, server):
    await house.book(*of(DAYS[0], 1, 2, 3))
    first = house.to
    await house.life()
    house.to = structs.replace(first, table="other")
    assert await house.life() == {DAYS[0]: "done"}
    assert len(server.rows(table="other")) == 3
    house.databases.steps.clear()
    house.to = first
    assert await house.life() == {DAYS[0]: "done"}
    assert house.databases.steps == ["count"]


async def test_rows_of_another_ledger_are_left_alone(house, server, tmp_path):
    await house.book(*of(DAYS[0], 1))
    await house.life()
    other = House(type(house.layout)(str(tmp_path / "other"), str(tmp_path / "config")), house.to)
    await other.book(*of(DAYS[0], 2))
    await other.life()
    Path(house.layout.export).unlink()
    await house.life()
    assert found(server) == ["r-1", "r-2"]


async def test_the_present_day_is_sent_each_hour_where_that_is_set(house, server):
    day = "2026-01-04"
    house.to = structs.replace(house.to, today=True)
    await house.book(*of(day, 1, 2, 3))
    async with house.running() as exporter:
        await until(lambda: house.databases.steps.count("insert") == 2)
        await house.rest()
        assert len(server.rows()) == 3
        await house.book(*of(day, 4))
        exporter.wake()
        await house.rest()
        assert (await house.rest())[day] == "partial"
        assert len(server.rows()) == 3
        house.clock.move(3600)
        await until(lambda: len(server.rows()) == 4)
        house.clock.move(86400)
        await until(lambda: "count" in house.databases.steps)
        assert (await house.rest())[day] == "done"
    assert "drop" not in house.databases.steps[1:]
    assert found(server) == ["r-1", "r-2", "r-3", "r-4"]


async def test_a_day_is_closed_only_once_its_last_bookings_have_come(house):
    house.clock = FrozenClock("2026-01-02T00:01:59.000Z")
    await house.book(*of(DAYS[0], 1))
    async with house.running() as exporter:
        assert (await exporter.standing()).lag_days == 0
        house.clock.move(1)
        assert (await exporter.standing()).lag_days == 1


async def test_a_table_that_never_has_what_was_sent_is_told_and_not_filled_for_ever(house):
    await house.book(*of(DAYS[0], 1))

    class Lossy(_Watched):
        async def insert(self, packed, token):
            """Take the rows, and lose them."""
            self._watching.steps.append("insert")

    house.databases.watched = Lossy
    async with house.running():
        now = await house.waiting()
        assert "other rows" in now.last_error
        assert now.retry_seconds == 3600
        assert now.days[DAYS[0]].error == now.last_error
    assert house.databases.steps.count("insert") == work.TRIES


async def test_switched_off_nothing_is_sent_and_nothing_can_be_asked_for(house, server):
    await house.book(*of(DAYS[0], 1))
    house.to = structs.replace(house.to, enabled=False)
    async with house.running() as exporter:
        standing = await exporter.standing()
        assert (standing.phase, standing.lag_days) == ("off", 0)
        with pytest.raises(Conflict, match="switched off"):
            await exporter.backfill(DAYS[0], DAYS[0])
        (one,) = await exporter.backfill(DAYS[0], DAYS[0], dry_run=True)
        assert (one.day, one.rows) == (DAYS[0], 1)
    assert house.databases.steps == []


@pytest.mark.parametrize("span", [("x", DAYS[0]), (DAYS[0], "2026-02-30"), (DAYS[1], DAYS[0])])
async def test_what_are_no_days_are_refused(house, span):
    async with house.running() as exporter:
        with pytest.raises(BadRequest):
            await exporter.backfill(*span)


async def test_what_the_server_refuses_is_told_with_the_day(house):
    await house.book(*of(DAYS[0], 1))

    def refuse(name):
        if name == "insert":
            raise DatabaseRefused("Too many parts", 252)

    house.databases.before = refuse
    async with house.running() as exporter:
        now = await house.waiting()
        assert now.days[DAYS[0]].error == now.last_error == "Too many parts"
        assert now.retry_seconds == 60
        house.databases.before = lambda name: None
        exporter.wake()
        assert await house.rest() == {DAYS[0]: "done"}
        assert (await exporter.standing()).days[DAYS[0]].error == ""
