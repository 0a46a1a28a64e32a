"""What does not end in time is given up, each in its own time, by one timer for all."""

import asyncio

from agentd.web.patience import Patience

SECONDS = 0.05


class Waiting:
    """A patience that remembers whom it gave up, and how long each had."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.began: dict[str, float] = {}
        self.had: dict[str, float] = {}
        self.news = asyncio.Event()
        self.patience: Patience[str] = Patience(SECONDS, self._over)

    def begin(self, one: str) -> None:
        self.began[one] = self.loop.time()
        self.patience.begin(one)

    def _over(self, one: str) -> None:
        assert one not in self.had
        self.had[one] = self.loop.time() - self.began[one]
        self.news.set()

    async def given_up(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.had) < count:
                self.news.clear()
                await self.news.wait()


def test_each_has_its_whole_time_and_is_then_given_up_once() -> None:
    asyncio.run(_each())


async def _each() -> None:
    waiting = Waiting()
    waiting.begin("first")
    waiting.begin("second")
    await waiting.given_up(2)
    waiting.begin("third")
    await asyncio.sleep(SECONDS / 2)
    waiting.begin("fourth")
    await waiting.given_up(4)
    assert list(waiting.had) == ["first", "second", "third", "fourth"]
    assert min(waiting.had.values()) >= SECONDS * 0.99


def test_to_begin_again_gives_no_more_time() -> None:
    asyncio.run(_again())


async def _again() -> None:
    waiting = Waiting()
    waiting.begin("first")
    waiting.begin("second")
    await asyncio.sleep(SECONDS / 2)
    waiting.patience.begin("first")
    await waiting.given_up(2)
    assert list(waiting.had) == ["first", "second"]


def test_what_ended_is_not_given_up_and_may_begin_anew() -> None:
    asyncio.run(_ended())


async def _ended() -> None:
    waiting = Waiting()
    waiting.begin("ended")
    waiting.begin("late")
    waiting.patience.end("ended")
    waiting.patience.end("never begun")
    await waiting.given_up(1)
    assert list(waiting.had) == ["late"]
    waiting.begin("ended")
    await waiting.given_up(2)
    assert waiting.had["ended"] >= SECONDS * 0.99
