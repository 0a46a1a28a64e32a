"""``kill -9`` under model traffic: what was answered is booked once, and every sum is a recount."""

import asyncio
import contextlib
import random
import signal
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from agentd.gateway.ledger.record import CRASH, RequestRecord
from tests.crash import plants
from tests.crash.keeper import DaemonProcess, Keeper
from tests.crash.keys import MANAGEMENT_KEY
from tests.crash.model_callers import ModelCallers, answer
from tests.crash.spend_sums import compare_sums, run_spend, sum_by_key
from tests.gateway.conftest import GatewaySetup
from tests.gateway.relay.callers import Caller
from tests.supplier.steps import Answer, Say, Stall
from tests.supplier.supplier import Supplier
from tests.support.daemon import Client
from tests.support.waiting import until

KILLS = 6
CHANCE = random.Random(9)  # noqa: S311


class Run:
    """Many daemons of one gateway, each under load until it is killed."""

    def __init__(self, folder: Path, supplier: Supplier) -> None:
        supplier.answer_always(answer)
        self.setup = GatewaySetup(folder, supplier)
        self.setup.settings["sync_ledger"] = True
        self.callers = ModelCallers(self.setup)
        self.setup.write()

    def run_until_killed(self, keeper: Keeper, calls: int) -> list[str]:
        """Kill a daemon somewhat after so many answers; return the problems found."""
        process = keeper.start()
        assert process.wait_until_answering()
        before = [*compare_sums(self.setup, process.url)]
        before += self.callers.find_unrecorded(
            self.setup.read_records(), self.setup.supplier.requests
        )
        asyncio.run(self._load_and_kill(process, calls))
        return [*before, *self.callers.find_violations(self.setup.read_records())]

    async def _load_and_kill(self, process: DaemonProcess, calls: int) -> None:
        kill = asyncio.get_running_loop().create_future()
        loaded = asyncio.create_task(self.callers.load(process.url, calls, kill))
        await asyncio.wait([loaded, kill], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.to_thread(process.end, signal.SIGKILL)
        await loaded


def test_no_kill_loses_or_doubles_an_answered_call_and_every_sum_is_a_recount(
    tmp_path: Path,
) -> None:
    with Supplier() as supplier, Keeper(str(tmp_path)) as keeper:
        run = Run(tmp_path, supplier)
        for _ in range(KILLS):
            assert not run.run_until_killed(keeper, CHANCE.randrange(20, 150))
            early = keeper.start()
            early.has_ended(CHANCE.random() * 0.06)
            early.end(signal.SIGKILL)
        assert run.callers.cut > KILLS, "hardly any kill met a call on its way"
        process = keeper.start()
        assert process.wait_until_answering()
        assert not [*compare_sums(run.setup, process.url)]
        until(lambda: list_service_log(process)[:2] == ["started", "broke_off"])
        check_limit(run, process)
        process.end(signal.SIGTERM)
        booked = [one for one in run.setup.read_records() if one.outcome != "refused"]
        assert len(run.callers.whole) < len(booked) <= len(run.callers.asked)
        assert any(one.error == CRASH for one in booked)
        assert not [*run.callers.find_unrecorded(booked, supplier.requests)]
        assert run_spend(run.setup) == sum_by_key(booked)
        process = keeper.start()
        assert process.wait_until_answering()
        until(lambda: list_service_log(process)[:2] == ["started", "stopping"])


LIMIT = Decimal("0.2")
WORTH = Decimal("0.015")
"""USD of each answer: the most tokens that the supplier may write."""


def test_no_kill_forgives_what_was_under_way_and_no_limit_is_passed(tmp_path: Path) -> None:
    with Supplier() as supplier, Keeper(str(tmp_path)) as keeper:
        setup = GatewaySetup(tmp_path, supplier)
        setup.settings["sync_ledger"] = True
        letters, id_ = setup.add_key(limits={"total": str(LIMIT)}), setup.keys[-1]
        setup.write()
        for _ in range(4):
            process = keeper.start()
            assert process.wait_until_answering()
            caller = Caller(int(process.url.rpartition(":")[2]), letters)
            before, refused = len(supplier.requests), len(list_records(setup, id_, "refused"))
            stalls = [Stall(after) for after in (0, 4, 0, 4, 0, 4)]
            supplier.forget()
            supplier.script(*(Answer((Say("a b c"),), faults=(stall,)) for stall in stalls))
            with contextlib.ExitStack() as stack:
                for number in range(6):
                    line = caller.begin_call("openai-chat", "by-chat", stream=bool(number % 2))
                    stack.enter_context(line)
                until(
                    lambda known=(before, refused): (
                        len(supplier.requests)
                        - known[0]
                        + len(list_records(setup, id_, "refused"))
                        - known[1]
                        == 6
                    )
                )
                process.end(signal.SIGKILL)
        process = keeper.start()
        assert process.wait_until_answering()
        process.end(signal.SIGTERM)
        booked = list_records(setup, id_, "broken")
        assert len(booked) == len(supplier.requests) > 6, "the kills met hardly any call"
        assert {(one.error, one.estimated) for one in booked} == {(CRASH, True)}
        assert len(booked) * WORTH <= sum(one.cost for one in booked) <= LIMIT
        assert list_records(setup, id_, "refused"), "the limit was never reached"


def list_records(setup: GatewaySetup, key: str, outcome: str) -> list[RequestRecord]:
    """Return the records of a key that ended so."""
    return [one for one in setup.read_records() if one.key == key and one.outcome == outcome]


def list_service_log(process: DaemonProcess) -> list[str]:
    """Return the kinds in the service log, the newest first."""
    with closing(Client(process.url, MANAGEMENT_KEY)) as manager:
        return [one["kind"] for one in manager.get("/api/agent/service-log")["items"]]


def check_limit(run: Run, process: DaemonProcess) -> None:
    """Set a limit at what was spent before all the kills: it lets nothing more through."""
    key = run.callers.keys[0]
    used = sum_by_key(run.setup.read_records())[key.id]
    with closing(Client(process.url, MANAGEMENT_KEY)) as manager:
        wish = {"limits": {"total": str(used)}}
        assert manager.patch(f"/api/agent/keys/{key.id}", wish).status == 200
    result = Caller(int(process.url.rpartition(":")[2]), key.letters).ask(
        "openai-chat", "by-chat", text="1"
    )
    assert result.status == 429
    assert f"{used.normalize():f} USD used" in result.error()["message"]


SIGNS = {
    "booked_behind_the_answer": "is lost",
    "booked_twice": "is there 2 times",
    "limits_begin_anew": "what limits enforce",
}


@pytest.mark.parametrize("plant", plants.GATEWAY)
def test_the_checker_finds_what_a_broken_gateway_does(tmp_path: Path, plant: str) -> None:
    found: list[str] = []
    with Supplier() as supplier, Keeper(str(tmp_path), plant) as keeper:
        run = Run(tmp_path, supplier)
        for _ in range(10):
            found = run.run_until_killed(keeper, 50)
            if SIGNS[plant] in str(found):
                return
    pytest.fail(f"not found: {found}")
