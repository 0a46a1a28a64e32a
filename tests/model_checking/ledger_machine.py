"""The ledger with limits: calls reserve their highest cost, are settled, and are cut off by kills.

Two keys share an owner's budget; one has a limit of its own, the other one on a model. The model
is a list of bookings. A call must be let through if and only if every limit has room for the most
that it can cost beside all that is reserved; and the meters, the ledger's report and the model
agree after every step, across kills, days and counts anew while calls are under way.
"""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC
from decimal import Decimal

from msgspec import structs

from agentd.core.clock import FrozenClock
from agentd.gateway.keys.limits import KeyLimits
from agentd.gateway.keys.model import AccessKey, issue
from agentd.gateway.ledger.ledger import Ledger
from agentd.gateway.ledger.record import PendingCall, RequestRecord
from agentd.gateway.limits.budgets import Budget
from agentd.gateway.limits.meters import KeyMeters, LimitsStatus
from agentd.gateway.limits.model_spend import ModelSpendCounter
from agentd.gateway.limits.request_limits import RequestLimits
from agentd.gateway.limits.spend import OverLimit
from agentd.storage.layout import Layout
from tests.model_checking.explorer import Subject

START = "2026-01-30T12:00:00.000Z"
MODEL = "large"
UPPER = Decimal(2)
LIMITS = {"ann": Decimal(4), "bob": Decimal(5), "team": Decimal(7)}
"""USD: ann's of a day, bob's for the model in all, the team's of a month."""


def _make_key(name: str, **fields: object) -> AccessKey:
    made = issue(name, "2026-01-01T00:00:00.000Z")[1]
    return structs.replace(made, owner="team", **fields)


KEYS = {
    "ann": _make_key("ann", limits=KeyLimits(day=LIMITS["ann"])),
    "bob": _make_key("bob", model_limits={"lar*": KeyLimits(total=LIMITS["bob"], parallel=2)}),
}
TEAM = Budget(name="team", owner="team", limits=KeyLimits(month=LIMITS["team"]))


@dataclass
class Call:
    """A call under way: in the model, and its real reservation."""

    id: str
    key: str
    at: str
    upper: Decimal
    limits: RequestLimits


@dataclass
class LedgerModel:
    """What was booked: the key, the time and the cost of each call."""

    booked: list[tuple[str, str, Decimal]] = field(default_factory=list)

    def sum(self, keys: tuple[str, ...], since: str = "") -> Decimal:
        """Return what these keys spent since a time."""
        return sum(
            (cost for key, at, cost in self.booked if key in keys and at >= since), Decimal()
        )


class LedgerMachine:
    """The real ledger and meters, and their model."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._clock = FrozenClock(START)
        self._model = LedgerModel()
        self._calls: list[Call] = []
        self._runs = self._made = 0
        self._path = ""
        self._ledger: Ledger
        self._meters: KeyMeters

    async def start(self) -> None:
        """Start a process, on what the one before left."""
        before, self._runs = self._path, self._runs + 1
        self._path = os.path.join(self._folder, str(self._runs))
        if before:
            shutil.copytree(before, self._path)  # as a kill leaves it: nothing is closed in order
            await self._ledger.close()
        self._ledger = Ledger(Layout(self._path, self._path), self._clock, sync=True)
        self._meters = KeyMeters(UTC, self._clock)
        self._meters.set_budgets([TEAM])
        starts = list(self._meters.iter_window_starts())
        self._meters.reset_to(await self._ledger.open(starts), UTC)
        await self._count_models()

    async def close(self) -> None:
        """Close the ledger."""
        await self._ledger.close()

    async def apply(self, step: str) -> None:
        """Take one step, and compare."""
        match step.split():
            case [name, "begins"]:
                await self._begin(name)
            case ["oldest", "costs", "less"] if self._calls:
                await self._settle(self._calls.pop(0), Decimal(1))
            case ["newest", "costs", "more"] if self._calls:
                await self._settle(self._calls.pop(), Decimal(3))
            case ["oldest", "fails"] if self._calls:
                await self._settle(self._calls.pop(0), Decimal(0))
            case ["newest", "needs", "more"] if self._calls:
                self._extend(self._calls[-1])
            case ["next", "day"]:
                self._clock.move(86400)
            case ["recount"]:
                starts = list(self._meters.iter_window_starts())
                self._meters.reset_to(await self._ledger.count_spend(starts), UTC)
                await self._count_models()
            case ["kill"]:
                # Calls under way are booked at what they reserved when their supplier was called.
                self._model.booked += [(call.key, call.at, UPPER) for call in self._calls]
                self._calls = []
                await self.start()
        await self._compare()

    async def finish(self) -> None:
        """Compare once more after a kill."""
        await self.apply("kill")

    async def _count_models(self) -> None:
        await ModelSpendCounter(self._meters, self._ledger).count_key(KEYS["bob"])

    async def _begin(self, name: str) -> None:
        self._made += 1
        limits = self._meters.limit_request(KEYS[name], MODEL)
        fits = self._has_room(name, UPPER)
        try:
            limits.reserve(UPPER, 0)
        except OverLimit as error:
            assert not fits, f"refused, although there was room: {error.message}"
            return
        assert fits, f"let through beyond a limit: {self._model.booked} {self._calls}"
        call = Call(f"call-{self._made}", name, self._clock.now(), UPPER, limits)
        await self._ledger.mark_pending(
            PendingCall(
                begun=call.at, id=call.id, key=KEYS[name].id, owner="team", endpoint="/v1/messages",
                model=MODEL, channel="one", cost=UPPER,
            )
        )  # fmt: skip
        self._calls.append(call)

    async def _settle(self, call: Call, cost: Decimal) -> None:
        for _ in range(2):  # the second time is nothing
            call.limits.settle(cost, 0, call.at)
        self._model.booked.append((call.key, call.at, cost))
        await self._ledger.add_record(
            RequestRecord(
                id=call.id, at=call.at, key=KEYS[call.key].id, owner="team", model=MODEL,
                channel="one", endpoint="/v1/messages", status=200, outcome="ok", cost=cost,
            )
        )  # fmt: skip

    def _extend(self, call: Call) -> None:
        more = Decimal(1)
        fits = self._has_room(call.key, more, under_way=True)
        try:
            call.limits.reserve(call.upper + more, 0)
        except OverLimit:
            assert not fits, "no more was let through, although there was room"
            return
        assert fits, "more was let through, beyond a limit"
        call.upper += more

    def _has_room(self, name: str, more: Decimal, *, under_way: bool = False) -> bool:
        every = ("ann", "bob")
        uses = [(LIMITS["team"], self._sum_month(every), self._sum_reserved(every))]
        if name == "ann":
            spent = self._model.sum(("ann",), self._clock.now()[:10])
            uses.append((LIMITS["ann"], spent, self._sum_reserved(("ann",))))
        else:
            uses.append((LIMITS["bob"], self._model.sum(("bob",)), self._sum_reserved(("bob",))))
            if not under_way and sum(call.key == "bob" for call in self._calls) >= 2:
                return False
        return all(spent + reserved + more <= limit for limit, spent, reserved in uses)

    def _sum_month(self, keys: tuple[str, ...]) -> Decimal:
        return self._model.sum(keys, self._clock.now()[:7])

    def _sum_reserved(self, keys: tuple[str, ...]) -> Decimal:
        return sum((call.upper for call in self._calls if call.key in keys), Decimal())

    async def _compare(self) -> None:
        today = self._clock.now()[:10]
        for name, key in KEYS.items():
            status = self._meters.describe_key(key)
            self._compare_used(name, status, (name,))
            assert status.used.day == self._model.sum((name,), today), f"{name}'s day: {status}"
        (models,) = self._meters.describe_models(KEYS["bob"])
        self._compare_used("bob's model", models, ("bob",))
        self._compare_used("team", self._meters.describe_budget(TEAM), ("ann", "bob"))
        table = await self._ledger.get_totals("key", START[:10], today)
        told = {name: row.cost for name, row in table.rows if row.cost}
        summed = {key.id: self._model.sum((name,)) for name, key in KEYS.items()}
        expected = {key: cost for key, cost in summed.items() if cost}
        assert told == expected, f"the report says {told}, expected {expected}"

    def _compare_used(self, what: str, status: LimitsStatus, keys: tuple[str, ...]) -> None:
        total, month = self._model.sum(keys), self._sum_month(keys)
        assert status.used.total == total, f"{what} spent {status.used.total}, expected {total}"
        assert status.used.month == month, f"{what}'s month is {status.used.month}, not {month}"
        for limit in status.limits:
            if limit.name == "parallel":
                continue
            reserved = self._sum_reserved(keys)
            assert limit.reserved == reserved, f"{what} reserved {limit.reserved}, not {reserved}"


@asynccontextmanager
async def open_ledger(folder: str) -> AsyncIterator[LedgerMachine]:
    """Run a ledger in this folder."""
    machine = LedgerMachine(folder)
    await machine.start()
    try:
        yield machine
    finally:
        await machine.close()


LEDGER = Subject(
    "ledger",
    (
        *("ann begins", "bob begins", "oldest costs less", "newest costs more", "oldest fails"),
        *("newest needs more", "next day", "recount", "kill"),
    ),
    open_ledger,
)
