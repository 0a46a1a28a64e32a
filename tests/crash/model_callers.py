"""Callers of the model gateway, and what must be true of its ledger when the daemon is killed.

Each call has a number, and the supplier counts as many tokens of input: so each line of the ledger
tells which call it is of, also of a call whose caller was told nothing. Only of a call that a kill
cut off nobody knows the count: as many of these are booked as the supplier was asked for, and each
at no less than it was worth.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal

import aiohttp
from msgspec import Struct

from agentd.gateway.ledger.record import CRASH, RequestRecord
from tests.gateway.conftest import PRICES, GatewaySetup
from tests.supplier.request import Request
from tests.supplier.steps import Answer, Say, Tokens

OUTPUT = 7
WORDS = "one two three four five six seven"
CALLERS = 24
PATIENCE = 100.0
"""Seconds after which callers that should have been answered or cut off will not be."""


def answer(request: Request) -> Answer:
    """Return the supplier's answer: as many tokens as the call's number."""
    return Answer((Say(WORDS),), Tokens(input=get_number(request), output=OUTPUT), pause=0.002)


def get_number(request: Request) -> int:
    """Return the call's number, which is in its prompt."""
    return int(request.prompt.split()[0])


def build_prompt(number: int) -> str:
    """Return a call's prompt: its number, and as many tokens as that."""
    return f"{number} " + "so " * number


def compute_cost(number: int) -> Decimal:
    """Return the cost of a call in USD."""
    tokens = number * Decimal(PRICES["input"]) + OUTPUT * Decimal(PRICES["output"])
    return tokens.scaleb(-6)


class Key(Struct, frozen=True):
    """An access key: its letters, and its id."""

    letters: str
    id: str


class ModelCallers:
    """Callers on connections of their own, one half of them for streams."""

    def __init__(self, setup: GatewaySetup, connections: int = CALLERS) -> None:
        self._connections = connections
        self.keys = [Key(setup.add_key(limits={"total": "1000"}), setup.keys[-1]) for _ in range(3)]
        self.asked: dict[int, Key] = {}
        self.whole: dict[int, str] = {}
        """The requests' ids of the calls that were answered to their end."""
        self.cut = 0
        """Calls that broke off."""
        self.complaints: list[str] = []
        self._numbers = itertools.count(1)

    async def load(self, url: str, calls: int, kill: "asyncio.Future[None]") -> None:
        """Call until all connections are dead; ``kill`` is done after so many whole answers."""
        until = len(self.whole) + calls
        async with asyncio.timeout(PATIENCE), aiohttp.ClientSession(url) as session:
            await asyncio.gather(
                *(
                    self._call_on(session, until, kill, streams=bool(n % 2))
                    for n in range(self._connections)
                )
            )

    def find_violations(self, lines: Sequence[RequestRecord]) -> Iterator[str]:
        """Yield the broken promises, by all lines of the ledger."""
        yield from self.complaints
        entries = [entry for entry in lines if entry.error != CRASH]
        whole = set(self.whole.values())
        for entry in lines:
            if entry.error == CRASH and (entry.id in whole or not entry.estimated):
                yield f"it was not cut off, or its cost is told as if it were known: {entry}"
        counted = Counter(entry.usage.input for entry in entries)
        yield from (f"call {one} is lost" for one in self.whole if one not in counted)
        yield from (f"call {one} is there {n} times" for one, n in counted.items() if n > 1)
        for entry in entries:
            number = entry.usage.input
            if number not in self.asked:
                yield f"nobody asked for {entry}"
            elif entry.id != self.whole.get(number, entry.id):
                yield f"call {number} was told another id"
            elif (entry.cost, entry.key) != (compute_cost(number), self.asked[number].id):
                yield f"call {number} is of another cost or key: {entry}"
            elif entry.outcome != "ok":
                yield f"call {number} ended otherwise: {entry}"

    def find_unrecorded(
        self, lines: Sequence[RequestRecord], requests: Sequence[Request]
    ) -> Iterator[str]:
        """Yield calls that the supplier received and no line has, after a start."""
        ids = Counter(entry.id for entry in lines)
        yield from (f"{one} is there {times} times" for one, times in ids.items() if times > 1)
        numbers = {get_number(request) for request in requests}
        cut_off = [entry for entry in lines if entry.error == CRASH]
        known = {entry.usage.input for entry in lines if entry.error != CRASH}
        if len(numbers - known) > len(cut_off):
            yield f"{len(numbers - known)} calls were cut off, and {len(cut_off)} are booked"
        for key in self.keys:
            worth = sum(compute_cost(one) for one in numbers if self.asked[one] == key)
            booked = sum(entry.cost for entry in lines if entry.key == key.id)
            if booked < worth:
                yield f"{key.id} was given {worth} USD, and {booked} are booked"

    async def _call_on(
        self,
        session: aiohttp.ClientSession,
        until: int,
        kill: "asyncio.Future[None]",
        *,
        streams: bool,
    ) -> None:
        for number in self._numbers:
            key = self.keys[number % len(self.keys)]
            try:
                whole = await self._call(session, key, number, streams=streams)
            except (aiohttp.ClientError, OSError):
                whole = False
            if not whole:
                self.cut += 1
                return
            if len(self.whole) >= until and not kill.done():
                kill.set_result(None)

    async def _call(
        self, session: aiohttp.ClientSession, key: Key, number: int, *, streams: bool
    ) -> bool:
        """Return whether the call was answered to its end; a stream says so itself."""
        self.asked[number] = key
        said = [{"role": "user", "content": build_prompt(number)}]
        async with session.post(
            "/v1/chat/completions",
            json={"model": "by-chat", "messages": said, "stream": streams},
            headers={"Authorization": f"Bearer {key.letters}"},
        ) as result:
            body, broken = b"", False
            try:
                async for piece in result.content.iter_any():
                    body += piece
            except (aiohttp.ClientError, OSError):
                broken = True
        if result.status != 200:
            self.complaints.append(f"call {number} was answered {result.status}: {body!r}")
        elif b"[DONE]" in body if streams else not broken:
            self.whole[number] = result.headers["x-agentd-request-id"]
        elif not broken:
            self.complaints.append(f"call {number} ended as if it were whole: {body!r}")
        return not broken
