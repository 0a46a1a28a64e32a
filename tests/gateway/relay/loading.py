"""Callers who never pause, while something is done to the gateway."""

import asyncio
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp

from tests.gateway.relay.callers import CHANNELS, DIALECTS, ENDS, Caller, build_call
from tests.support.daemon import until

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

    def wait_for_more(self, count: int = CALLERS * 2) -> None:
        """Wait for so many more answers, some of them to calls that begin now."""
        goal = self.answered + count
        until(lambda: self.answered >= goal or self.failures)

    def start(self) -> None:
        """Start the callers."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for the last answer."""
        self._over = True
        self._thread.join()

    async def _load(self) -> None:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{self._caller.port}") as session:
            await asyncio.gather(*(self._call_on(session) for _ in range(CALLERS)))

    async def _call_on(self, session: aiohttp.ClientSession) -> None:
        while not (self._over or self.failures):
            number = next(self._numbers)
            dialect, stream = DIALECTS[number % 4], bool(number // 4 % 2)
            path, body = build_call(dialect, f"by-{CHANNELS[dialect]}", stream=stream)
            headers = {"Authorization": f"Bearer {self._caller.key}"}
            try:
                async with session.post(path, json=body, headers=headers) as answer:
                    result = await answer.read()
                if answer.status != 200 or (stream and ENDS[dialect] not in result):
                    self.failures.append(f"{path} {answer.status} {result.decode()}")
            except (aiohttp.ClientError, OSError) as error:
                self.failures.append(f"{path} {error!r}")
            self.answered += 1


@contextmanager
def running_load(caller: Caller) -> Iterator[Load]:
    """Keep calling for the duration of the block; not one of the calls may fail."""
    made = Load(caller)
    made.start()
    try:
        made.wait_for_more()
        yield made
        made.wait_for_more()
    finally:
        made.stop()
    assert not made.failures
