"""Callers who never pause, while something is done to the gateway."""

import asyncio
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp

from tests.web.gateway.callers import CHANNELS, DIALECTS, ENDS, Caller, asked
from tests.web.support import until

CALLERS = 8


class Load:
    """Calls in every dialect, every other one streamed, on connections of their own.

    ``failures`` are those that were not answered to a proper end.
    """

    def __init__(self, caller: Caller) -> None:
        self.answered = 0
        self.failures: list[str] = []
        self._caller = caller
        self._numbers = itertools.count()
        self._over = False
        self._thread = threading.Thread(target=lambda: asyncio.run(self._load()))

    def more(self, count: int = CALLERS * 2) -> None:
        """Return once so many more calls were answered: some were begun since."""
        goal = self.answered + count
        until(lambda: self.answered >= goal or self.failures)

    def begin(self) -> None:
        """Let them call."""
        self._thread.start()

    def end(self) -> None:
        """Return once the last one is answered."""
        self._over = True
        self._thread.join()

    async def _load(self) -> None:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{self._caller.port}") as session:
            await asyncio.gather(*(self._call_on(session) for _ in range(CALLERS)))

    async def _call_on(self, session: aiohttp.ClientSession) -> None:
        while not (self._over or self.failures):
            number = next(self._numbers)
            dialect, stream = DIALECTS[number % 4], bool(number // 4 % 2)
            path, body = asked(dialect, f"by-{CHANNELS[dialect]}", stream=stream)
            headers = {"Authorization": f"Bearer {self._caller.key}"}
            try:
                async with session.post(path, json=body, headers=headers) as answer:
                    told = await answer.read()
                if answer.status != 200 or (stream and ENDS[dialect] not in told):
                    self.failures.append(f"{path} {answer.status} {told.decode()}")
            except (aiohttp.ClientError, OSError) as error:
                self.failures.append(f"{path} {error!r}")
            self.answered += 1


@contextmanager
def load(caller: Caller) -> Iterator[Load]:
    """Callers for as long as the block lasts; not one of their calls may fail."""
    made = Load(caller)
    made.begin()
    try:
        made.more()
        yield made
        made.more()
    finally:
        made.end()
    assert not made.failures
