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

from agentd.core.clock import FrozenClock
from agentd.core.errors import BadRequest, Conflict, DatabaseError, SupplierUnreachable
from agentd.gateway.export import day_exporter, service
from agentd.gateway.export.clickhouse import ClickHouseConnector
from agentd.gateway.export.service import Exporter, ExportStatus
from agentd.gateway.export.state_store import ExportStateFile
from agentd.gateway.ledger import export_reader
from agentd.gateway.ledger.export_reader import LedgerFileReader
from agentd.gateway.ledger.ledger import Ledger
from agentd.gateway.settings.model import ExportSettings
from agentd.llm.price import Prices
from agentd.storage.checksummed_json import encode_checksummed
from tests.conftest import until
from tests.gateway.ledger.entries import build_record
from tests.support.clickhouse import Server, running_clickhouse

DAYS = ["2026-01-01", "2026-01-02", "2026-01-03"]
NOW = "2026-01-04T12:00:00.000Z"

pytestmark = pytest.mark.gen_test


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_clickhouse(tmp_path_factory.mktemp("clickhouse")) as found:
        yield found


@pytest.fixture(autouse=True)
def _empty(server):
    yield
    server.ask("DROP TABLE IF EXISTS agentd_requests")
    server.ask("DROP TABLE IF EXISTS other")


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Limit chunks to two rows, and poll often."""
    monkeypatch.setattr(export_reader, "CHUNK_ROWS", 2)
    monkeypatch.setattr(service, "POLL_SECONDS", 0.05)


async def get_password(to: ExportSettings) -> str:
    return to.password


class Databases(ClickHouseConnector):
    """The real databases, with a way to fail: ``fails`` is called with each step's name first."""

    def __init__(self) -> None:
        super().__init__(get_password)
        self.steps: list[str] = []
        self.before: Any = lambda step: None
        self.after: Any = lambda step: None
        self.watched: type[_WatchedDatabase] = _WatchedDatabase

    @asynccontextmanager
    async def open(self, to):
        async with super().open(to) as database:
            yield self.watched(database, self)


class _WatchedDatabase:
    def __init__(self, database, watching: Databases) -> None:
        self._database = database
        self._watching = watching

    def __getattr__(self, name):
        async def step(*values):
            self._watching.steps.append(name)
            self._watching.before(name)
            result = await getattr(self._database, name)(*values)
            self._watching.after(name)
            return result

        return step


@dataclass
class ExportSetup:
    layout: Any
    to: ExportSettings
    clock: FrozenClock = field(default_factory=lambda: FrozenClock(NOW))
    databases: Databases = field(default_factory=Databases)
    reader: type[LedgerFileReader] = LedgerFileReader
    exporter: Exporter = None  # type: ignore[assignment]

    async def add_records(self, *entries) -> None:
        ledger = Ledger(self.layout, self.clock)
        await ledger.open()
        await asyncio.gather(*map(ledger.add_record, entries))
        await ledger.close()

    @asynccontextmanager
    async def running(self):
        self.exporter = Exporter(
            lambda: self.to,
            self.databases,
            self.reader(self.layout),
            ExportStateFile(self.layout),
            self.clock,
        )
        await self.exporter.open()
        task = asyncio.create_task(self.exporter.run())
        try:
            yield self.exporter
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def wait_for_status(self, true: Callable[[ExportStatus], bool]) -> ExportStatus:
        """Return the first status of which this is true."""
        while not true(now := await self.exporter.get_status()):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        return now

    async def wait_until_retrying(self) -> ExportStatus:
        """Return the status once something failed."""
        return await self.wait_for_status(lambda now: now.phase == "waiting")

    async def wait_until_exported(self) -> dict[str, str]:
        """Return the state of each day once nothing is left to be sent."""
        now = await self.wait_for_status(lambda now: bool(now.checked_at) and not now.lag_days)
        now = await self.wait_for_status(lambda now: now.phase == "idle")
        return {day: one.state for day, one in now.days.items()}

    async def wait_for_round(self) -> None:
        """Wait until a round that began at the clock's present time has ended.

        The clock stands still: if it is moved while a round ends, the next one never comes.
        """
        now = self.clock.now()
        await self.wait_for_status(lambda seen: seen.checked_at == now and seen.phase == "idle")

    async def run_until_exported(self) -> dict[str, str]:
        async with self.running():
            return await self.wait_until_exported()


@pytest.fixture
def setup(layout, server):
    return ExportSetup(layout, server.settings())


def build_day_records(day: str, *numbers: int, **more):
    return [
        build_record(number, f"{day}T00:00:{number % 60:02d}.000Z", **more) for number in numbers
    ]


def list_row_ids(server: Server) -> list[str]:
    """List the ids of all rows, as any reader counts them: merged or not."""
    return [row["request_id"] for row in server.rows()]


async def test_closed_days_are_sent_and_the_present_one_is_not(setup, server):
    await setup.add_records(
        *build_day_records(DAYS[0], 1, 2, 3),
        *build_day_records(DAYS[1], 4),
        *build_day_records("2026-01-04", 5),
    )
    assert await setup.run_until_exported() == {
        DAYS[0]: "done",
        DAYS[1]: "done",
        "2026-01-04": "pending",
    }
    assert list_row_ids(server) == ["r-1", "r-2", "r-3", "r-4"]


async def test_twice_the_same_is_there_once_and_costs_no_request(setup, server):
    await setup.add_records(*build_day_records(DAYS[0], 1, 2, 3))
    await setup.run_until_exported()
    setup.databases.steps.clear()
    assert await setup.run_until_exported() == {DAYS[0]: "done"}
    assert setup.databases.steps == []
    assert list_row_ids(server) == ["r-1", "r-2", "r-3"]


async def test_without_its_state_all_is_sent_in_the_place_of_what_was_sent(setup, server):
    await setup.add_records(*build_day_records(DAYS[0], 1, 2, 3))
    await setup.run_until_exported()
    Path(setup.layout.export).unlink()
    assert await setup.run_until_exported() == {DAYS[0]: "done"}
    assert list_row_ids(server) == ["r-1", "r-2", "r-3"]


async def test_a_new_price_makes_the_day_changed_and_it_is_sent_again(setup, server):
    await setup.add_records(*build_day_records(DAYS[0], 1, 2, 3), *build_day_records(DAYS[1], 4))
    await setup.run_until_exported()
    before = server.rows()
    ledger = Ledger(setup.layout, setup.clock)
    await ledger.open()
    dear = Prices(input=Decimal(10**6), output=Decimal(0))
    await ledger.reprice(DAYS[0], DAYS[0], lambda _: (dear, "v2"))
    await ledger.close()
    setup.clock.move(1)
    assert await setup.run_until_exported() == {DAYS[0]: "done", DAYS[1]: "done"}
    rows = server.rows()
    assert [row["cost"] for row in rows] == [10, 10, 10, 0.25]
    assert [row["first_cost"] for row in rows] == [0.25] * 4
    assert rows[0]["export_version"] > before[0]["export_version"]
    assert rows[3] == before[3]


async def test_a_late_line_is_sent_on_without_the_rest(setup, server):
    await setup.add_records(*build_day_records(DAYS[0], 1, 2, 3))
    await setup.run_until_exported()
    setup.databases.steps.clear()
    await setup.add_records(*build_day_records(DAYS[0], 4))
    assert await setup.run_until_exported() == {DAYS[0]: "done"}
    assert setup.databases.steps == ["insert", "count_rows"]
    assert list_row_ids(server) == ["r-1", "r-2", "r-3", "r-4"]


async def test_a_request_that_is_recorded_while_its_day_is_finished_is_sent_too(setup, server):
    late = build_day_records(DAYS[0], 4)

    class Growing(LedgerFileReader):
        def read_chunk(self, day, line, begin, end=None):
            found = super().read_chunk(day, line, begin, end)
            if found is None and late:
                with Path(setup.layout.get_ledger_day_path(day)).open("ab") as file:
                    file.write(encode_checksummed(late.pop()))
            return found

    await setup.add_records(*build_day_records(DAYS[0], 1, 2, 3))
    setup.reader = Growing
    assert await setup.run_until_exported() == {DAYS[0]: "done"}
    assert not late
    assert list_row_ids(server) == ["r-1", "r-2", "r-3", "r-4"]


class Gone(SupplierUnreachable):
    def __init__(self) -> None:
        super().__init__("gone", "connect", "h")


@pytest.mark.parametrize("step", ["drop_day", "insert", "count_rows"])
@pytest.mark.parametrize("arrived", [False, True])
@pytest.mark.parametrize("nth", [1, 2])
async def test_whatever_fails_wherever_each_row_is_there_once(setup, server, step, arrived, nth):
    """It fails before the server had it, or after: the answer is lost. Then the daemon dies."""
    await setup.add_records(*build_day_records(DAYS[0], 1, 2, 3), *build_day_records(DAYS[1], 4, 5))
    left = [nth]

    def fail(name):
        if name == step:
            left[0] -= 1
            if left[0] == 0:
                raise Gone

    setattr(setup.databases, "after" if arrived else "before", fail)
    async with setup.running():
        await until(lambda: left[0] <= 0)
        standing = await setup.wait_until_retrying()
        assert standing.last_error == "gone"
        assert standing.lag_days
        assert standing.retry_seconds == 1
    assert await setup.run_until_exported() == {DAYS[0]: "done", DAYS[1]: "done"}
    assert list_row_ids(server) == ["r-1", "r-2", "r-3", "r-4", "r-5"]


@pytest.mark.parametrize("arrived", [False, True])
async def test_only_what_did_not_arrive_is_sent_again(setup, arrived):
    await setup.add_records(*build_day_records(DAYS[0], 1, 2, 3, 4))
    left = [2]

    def fail(name):
        if name == "insert":
            left[0] -= 1
            if left[0] == 0:
                raise Gone

    setattr(setup.databases, "after" if arrived else "before", fail)
    async with setup.running():
        await setup.wait_until_retrying()
    setup.databases.steps.clear()
    await setup.run_until_exported()
    assert setup.databases.steps == ["count_rows", *(["insert"] * (not arrived)), "count_rows"]


async def test_a_day_that_is_repriced_while_it_is_sent_is_there_as_it_is_now(setup, server):
    await setup.add_records(*build_day_records(DAYS[0], 1, 2, 3, 4))
    path = Path(setup.layout.get_ledger_day_path(DAYS[0]))
    left = [2]

    def reprice(name):
        if name == "insert":
            left[0] -= 1
            if left[0] == 0:
                beside = path.with_name("anew")
                beside.write_bytes(
                    b"".join(
                        map(
                            encode_checksummed,
                            build_day_records(DAYS[0], 1, 2, 3, 4, cost=Decimal(7)),
                        )
                    )
                )
                beside.rename(path)

    setup.databases.before = reprice
    assert await setup.run_until_exported() == {DAYS[0]: "done"}
    assert [row["cost"] for row in server.rows()] == [7] * 4


async def test_a_server_that_is_killed_in_the_middle_gets_the_rest_once_it_is_back(setup, server):
    await setup.add_records(*build_day_records(DAYS[0], *range(1, 8)))
    killed = []

    def kill(name):
        if name == "insert" and not killed:
            killed.append(name)
            server.kill()

    setup.databases.after = kill
    async with setup.running() as exporter:
        await until(lambda: killed)
        now = await setup.wait_until_retrying()
        assert (now.lag_days, now.lag_since) == (1, DAYS[0])
        assert "cannot be connected to" in now.last_error
        await asyncio.to_thread(server.start)
        exporter.wake()
        assert await setup.wait_until_exported() == {DAYS[0]: "done"}
    assert sorted(list_row_ids(server)) == [f"r-{number}" for number in range(1, 8)]


async def test_the_waits_grow_and_end_when_the_settings_change(setup, server):
    await setup.add_records(*build_day_records(DAYS[0], 1))
    good = setup.to
    setup.to = structs.replace(good, url="http://127.0.0.1:1")
    async with setup.running() as exporter:
        for wanted in (1, 2, 4):
            await setup.wait_for_status(lambda now, wanted=wanted: now.retry_seconds == wanted)
            exporter.wake()
        setup.to = good
        assert await setup.wait_until_exported() == {DAYS[0]: "done"}
        assert (await exporter.get_status()).last_error == ""
    assert list_row_ids(server) == ["r-1"]


async def test_a_backfill_shows_and_sends_exactly_what_is_missed_and_changed(setup, server):
    await setup.add_records(
        *build_day_records(DAYS[0], 1),
        *build_day_records(DAYS[1], 2, 3),
        *build_day_records(DAYS[2], 4),
        *build_day_records("2026-01-04", 9),
    )
    setup.to = structs.replace(setup.to, since=DAYS[2])
    async with setup.running() as exporter:
        assert (await setup.wait_until_exported())[DAYS[2]] == "done"
        dry = await exporter.backfill("2025-01-01", "2026-12-31", dry_run=True)
        assert [(one.day, one.state, one.rows, one.exact) for one in dry] == [
            (DAYS[0], "pending", 1, True),
            (DAYS[1], "pending", 2, True),
        ]
        assert dry[1].bytes == 2 * dry[0].bytes > 0
        assert await setup.wait_until_exported()
        assert list_row_ids(server) == ["r-4"]
        setup.databases.steps.clear()
        assert await exporter.backfill(DAYS[1], DAYS[1]) == dry[1:]
        await until(lambda: "insert" in setup.databases.steps)
        assert (await setup.wait_until_exported())[DAYS[1]] == "done"
        assert await exporter.backfill(DAYS[1], DAYS[2]) == []
        assert (await setup.wait_until_exported())[DAYS[0]] == "pending"
    assert setup.databases.steps.count("insert") == 1
    assert list_row_ids(server) == ["r-2", "r-3", "r-4"]


async def test_a_backfill_finds_the_days_that_the_table_has_lost(setup, server):
    await setup.add_records(*build_day_records(DAYS[0], 1, 2, 3), *build_day_records(DAYS[1], 4))
    async with setup.running() as exporter:
        await setup.wait_until_exported()
        day = f"('{ExportStateFile(setup.layout).get_source()}', '{DAYS[0]}')"
        server.ask(f"ALTER TABLE agentd_requests DROP PARTITION {day}")
        result = await exporter.backfill(DAYS[0], DAYS[1])
        assert [(one.day, one.state, one.rows) for one in result] == [(DAYS[0], "changed", 3)]
        await until(lambda: len(server.rows()) == 4)
        assert set((await setup.wait_until_exported()).values()) == {"done"}
    assert list_row_ids(server) == ["r-1", "r-2", "r-3", "r-4"]


async def test_a_client_that_asks_for_a_backfill_does_not_wait_for_a_database_that_is_mute(
    setup, monkeypatch
):
    class Mute(_WatchedDatabase):
        async def count_rows(self, *_):
            """Never answer."""
            self._watching.steps.append("count_rows")
            await asyncio.Event().wait()

    await setup.add_records(*build_day_records(DAYS[0], 1))
    await setup.run_until_exported()
    monkeypatch.setattr(service, "DATABASE_SECONDS", 1.0)
    setup.databases.watched = Mute
    setup.databases.steps.clear()
    async with setup.running() as exporter:
        while "count_rows" not in setup.databases.steps:
            assert await exporter.backfill(DAYS[0], DAYS[0]) == []


async def test_what_a_terminal_asks_for_is_sent_too_also_after_an_outage(setup, server):
    await setup.add_records(*build_day_records(DAYS[0], 1))
    good = structs.replace(setup.to, since="2026-01-03")
    setup.to = structs.replace(good, url="http://127.0.0.1:1")
    ExportStateFile(setup.layout).add_backfill(service.ALL_DAYS)
    async with setup.running():
        await setup.wait_until_retrying()
        setup.to = good
        await until(lambda: not ExportStateFile(setup.layout).list_backfills())
        assert await setup.wait_until_exported() == {DAYS[0]: "done"}
    assert list_row_ids(server) == ["r-1"]


async def test_another_table_gets_all_and_a_table_that_has_all_gets_nothing(setup, server):
    await setup.add_records(*build_day_records(DAYS[0], 1, 2, 3))
    first = setup.to
    await setup.run_until_exported()
    setup.to = structs.replace(first, table="other")
    assert await setup.run_until_exported() == {DAYS[0]: "done"}
    assert len(server.rows(table="other")) == 3
    setup.databases.steps.clear()
    setup.to = first
    assert await setup.run_until_exported() == {DAYS[0]: "done"}
    assert setup.databases.steps == ["count_rows"]


async def test_rows_of_another_ledger_are_left_alone(setup, server, tmp_path):
    await setup.add_records(*build_day_records(DAYS[0], 1))
    await setup.run_until_exported()
    other = ExportSetup(
        type(setup.layout)(str(tmp_path / "other"), str(tmp_path / "config")), setup.to
    )
    await other.add_records(*build_day_records(DAYS[0], 2))
    await other.run_until_exported()
    Path(setup.layout.export).unlink()
    await setup.run_until_exported()
    assert list_row_ids(server) == ["r-1", "r-2"]


async def test_the_present_day_is_sent_each_hour_where_that_is_set(setup, server):
    day = "2026-01-04"
    setup.to = structs.replace(setup.to, today=True)
    await setup.add_records(*build_day_records(day, 1, 2, 3))
    async with setup.running() as exporter:
        await until(lambda: setup.databases.steps.count("insert") == 2)
        await setup.wait_until_exported()
        assert len(server.rows()) == 3
        await setup.add_records(*build_day_records(day, 4))
        exporter.wake()
        await setup.wait_until_exported()
        assert (await setup.wait_until_exported())[day] == "partial"
        assert len(server.rows()) == 3
        setup.clock.move(3600)
        await setup.wait_for_round()
        assert len(server.rows()) == 4
        setup.clock.move(86400)
        await setup.wait_for_round()
        assert "count_rows" in setup.databases.steps
        assert (await setup.wait_until_exported())[day] == "done"
    assert "drop_day" not in setup.databases.steps[1:]
    assert list_row_ids(server) == ["r-1", "r-2", "r-3", "r-4"]


async def test_a_day_is_closed_only_once_its_last_bookings_have_come(setup):
    setup.clock = FrozenClock("2026-01-02T00:01:59.000Z")
    await setup.add_records(*build_day_records(DAYS[0], 1))
    async with setup.running() as exporter:
        assert (await exporter.get_status()).lag_days == 0
        setup.clock.move(1)
        assert (await exporter.get_status()).lag_days == 1


async def test_a_table_that_never_has_what_was_sent_is_reported_and_not_filled_for_ever(setup):
    await setup.add_records(*build_day_records(DAYS[0], 1))

    class Lossy(_WatchedDatabase):
        async def insert(self, packed, token):
            """Take the rows, and lose them."""
            self._watching.steps.append("insert")

    setup.databases.watched = Lossy
    async with setup.running():
        now = await setup.wait_until_retrying()
        assert "other rows" in now.last_error
        assert now.retry_seconds == 3600
        assert now.days[DAYS[0]].error == now.last_error
    assert setup.databases.steps.count("insert") == day_exporter.MAX_ATTEMPTS


async def test_switched_off_nothing_is_sent_and_nothing_can_be_asked_for(setup, server):
    await setup.add_records(*build_day_records(DAYS[0], 1))
    setup.to = structs.replace(setup.to, enabled=False)
    async with setup.running() as exporter:
        standing = await exporter.get_status()
        assert (standing.phase, standing.lag_days) == ("off", 0)
        with pytest.raises(Conflict, match="switched off"):
            await exporter.backfill(DAYS[0], DAYS[0])
        (one,) = await exporter.backfill(DAYS[0], DAYS[0], dry_run=True)
        assert (one.day, one.rows) == (DAYS[0], 1)
    assert setup.databases.steps == []


@pytest.mark.parametrize("span", [("x", DAYS[0]), (DAYS[0], "2026-02-30"), (DAYS[1], DAYS[0])])
async def test_what_are_no_days_are_refused(setup, span):
    async with setup.running() as exporter:
        with pytest.raises(BadRequest):
            await exporter.backfill(*span)


async def test_what_the_server_refuses_is_reported_with_the_day(setup):
    await setup.add_records(*build_day_records(DAYS[0], 1))

    def refuse(name):
        if name == "insert":
            raise DatabaseError("Too many parts", 252)

    setup.databases.before = refuse
    async with setup.running() as exporter:
        now = await setup.wait_until_retrying()
        assert now.days[DAYS[0]].error == now.last_error == "Too many parts"
        assert now.retry_seconds == 60
        setup.databases.before = lambda name: None
        exporter.wake()
        assert await setup.wait_until_exported() == {DAYS[0]: "done"}
        assert (await exporter.get_status()).days[DAYS[0]].error == ""
