"""``kill -9`` under calls that many limits hold for: none is passed, and all sums are a recount."""

import asyncio
import itertools
import json
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from agentd.gateway.ledger.record import CRASH, RequestRecord
from tests.crash.keeper import DaemonProcess, Keeper
from tests.crash.keys import MANAGEMENT_KEY
from tests.crash.model_callers import (
    PATIENCE,
    Key,
    answer,
    build_prompt,
    compute_cost,
    get_number,
)
from tests.gateway.conftest import GatewaySetup
from tests.supplier.supplier import Supplier
from tests.support.daemon import Client

KILLS = 6
CALLERS = 24
CHANCE = random.Random(16)  # noqa: S311
MODELS = ("by-chat", "second")


class Account(NamedTuple):
    """What limits are of, its limit in USD, and which records count."""

    name: str
    error: str
    limit: Decimal
    counts: Callable[[RequestRecord], bool]


class Run:
    """Many daemons of one gateway with budgets, each under load until it is killed."""

    def __init__(self, folder: Path, supplier: Supplier) -> None:
        supplier.answer_always(answer)
        self.supplier = supplier
        self.setup = setup = GatewaySetup(folder, supplier)
        setup.settings["sync_ledger"] = True
        setup.models.append({**setup.models[0], "name": "second"})
        fields: tuple[dict[str, Any], ...] = (
            {"owner": "ann", "tags": ["team"]},
            {"owner": "ann", "soft_limits": {"total": "0.05"}},
            {"tags": ["team"], "model_limits": {"sec*": {"total": "0.12"}}},
        )
        self.keys = [Key(setup.add_key(**one), setup.keys[-1]) for one in fields]
        limited = self.keys[2].id
        self.accounts = (
            Account("ann", "limit_owner_total", Decimal("0.5"), lambda one: one.owner == "ann"),
            Account("team", "limit_tag_total", Decimal("0.45"), lambda one: "team" in one.tags),
            Account(
                "sec*",
                "limit_model_total",
                Decimal("0.12"),
                lambda one: (one.key, one.model) == (limited, "second"),
            ),
        )
        self._numbers = itertools.count(1)
        self._asked: dict[int, tuple[Key, str]] = {}
        setup.write()
        budgets = [
            {"name": "ann", "owner": "ann", "limits": {"total": "0.5"}, "warn_at": 0.5},
            {"name": "team", "tag": "team", "limits": {"total": "0.45"}},
        ]
        Path(setup.layout.budgets).write_text(json.dumps({"budgets": budgets}))

    def run_until_killed(self, keeper: Keeper, calls: int) -> list[str]:
        """Kill a daemon after so many responses; return the problems that the next one shows."""
        process = keeper.start()
        assert process.wait_until_answering()
        problems = list(self.find_problems(process))
        asyncio.run(self._load_and_kill(process, calls))
        return problems

    def find_problems(self, process: DaemonProcess) -> Iterator[str]:
        """Yield what is wrong after a start, when every call of before is recorded."""
        records = self.setup.read_records()
        with closing(Client(process.url, MANAGEMENT_KEY)) as manager:
            shown = {one["name"]: one for one in manager.get("/api/agent/budgets")["items"]}
            key = manager.get(f"/api/agent/keys/{self.keys[2].id}")
            shown["sec*"] = next(one for one in key["furtherLimits"] if one["name"] == "sec*")
        received = {get_number(request) for request in self.supplier.requests}
        for account in self.accounts:
            spent = sum((one.cost for one in records if account.counts(one)), Decimal())
            if spent > account.limit:
                yield f"{account.name}: {spent} USD are spent, and {account.limit} are the limit"
            worth = sum(compute_cost(one) for one in received if self._is_of(account, one))
            if spent < worth:
                yield f"{account.name}: the supplier gave {worth} USD, and {spent} are booked"
            (usage,) = shown[account.name]["limitUsage"]
            if (Decimal(str(usage["used"])), usage["reserved"]) != (spent, 0):
                yield f"{account.name}: {usage}, but {spent} are spent"
            for soft in shown[account.name]["softUsage"]:
                if soft["passed"] != (spent >= Decimal(str(soft["amount"]))):
                    yield f"{account.name}: {soft}, but {spent} are spent"
        yield from self._find_miscounted(records, received)

    def _find_miscounted(
        self, records: Sequence[RequestRecord], received: set[int]
    ) -> Iterator[str]:
        """Yield records that are not what the supplier counted, and calls without a record."""
        whole = [one for one in records if one.outcome != "refused" and one.error != CRASH]
        numbers = [one.usage.input for one in whole]
        if len(set(numbers)) != len(numbers):
            yield "a call is booked twice"
        for one in whole:
            if one.cost != compute_cost(one.usage.input):
                yield f"call {one.usage.input} cost {one.cost}"
        cut_off = sum(one.error == CRASH for one in records)
        if len(received - set(numbers)) > cut_off:
            yield f"{len(received - set(numbers))} calls were cut off, and {cut_off} are booked"

    def _is_of(self, account: Account, number: int) -> bool:
        key, model = self._asked[number]
        match account.name:
            case "ann":
                return key in self.keys[:2]
            case "team":
                return key in (self.keys[0], self.keys[2])
        return (key, model) == (self.keys[2], "second")

    async def _load_and_kill(self, process: DaemonProcess, calls: int) -> None:
        kill = asyncio.get_running_loop().create_future()
        loaded = asyncio.create_task(self._load(process.url, calls, kill))
        await asyncio.wait([loaded, kill], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.to_thread(process.end, signal.SIGKILL)
        await loaded

    async def _load(self, url: str, calls: int, kill: "asyncio.Future[None]") -> None:
        left = itertools.count(calls, -1)
        async with asyncio.timeout(PATIENCE), aiohttp.ClientSession(url) as session:
            await asyncio.gather(*(self._call_on(session, left, kill) for _ in range(CALLERS)))

    async def _call_on(
        self, session: aiohttp.ClientSession, left: Iterator[int], kill: "asyncio.Future[None]"
    ) -> None:
        """Call until the daemon is gone; ``kill`` is done when enough was answered or refused."""
        for number in self._numbers:
            key, model = self.keys[number % 3], MODELS[number // 3 % 2]
            self._asked[number] = key, model
            said = [{"role": "user", "content": build_prompt(number)}]
            body = {"model": model, "messages": said, "stream": bool(number % 2)}
            headers = {"Authorization": f"Bearer {key.letters}"}
            try:
                async with session.post(
                    "/v1/chat/completions", json=body, headers=headers
                ) as result:
                    await result.read()
            except (aiohttp.ClientError, OSError):
                return
            if next(left) <= 0 and not kill.done():
                kill.set_result(None)


def test_no_kill_lets_a_budget_or_a_limit_of_a_model_be_passed(tmp_path: Path) -> None:
    with Supplier() as supplier, Keeper(str(tmp_path)) as keeper:
        run = Run(tmp_path, supplier)
        for _ in range(KILLS):
            assert not run.run_until_killed(keeper, CHANCE.randrange(20, 120))
            early = keeper.start()
            early.has_ended(CHANCE.random() * 0.06)
            early.end(signal.SIGKILL)
        process = keeper.start()
        assert process.wait_until_answering()
        assert not list(run.find_problems(process))
        records = run.setup.read_records()
        assert sum(one.error == CRASH for one in records) > KILLS, "hardly any call was cut off"
        refused = {one.error for one in records if one.outcome == "refused"}
        assert refused == {account.error for account in run.accounts}
        process.end(signal.SIGTERM)


def test_the_checker_finds_limits_that_begin_anew(tmp_path: Path) -> None:
    with Supplier() as supplier, Keeper(str(tmp_path), "limits_begin_anew") as keeper:
        run = Run(tmp_path, supplier)
        run.run_until_killed(keeper, 50)
        assert "are spent" in str(run.run_until_killed(keeper, 5))
