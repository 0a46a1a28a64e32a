"""Each entry of a timeout queue expires in its own time, by one timer for all."""

import asyncio

from agentd.http.timeout_queue import TimeoutQueue

SECONDS = 0.05


class TimedQueue:
    """A patience that remembers whom it gave up, and how long each had."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.began: dict[str, float] = {}
        self.had: dict[str, float] = {}
        self.news = asyncio.Event()
        self.patience: TimeoutQueue[str] = TimeoutQueue(SECONDS, self._on_timeout)

    def begin(self, one: str) -> None:
        self.began[one] = self.loop.time()
        self.patience.start(one)

    def _on_timeout(self, one: str) -> None:
        assert one not in self.had
        self.had[one] = self.loop.time() - self.began[one]
        self.news.set()

    async def wait_until_expired(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.had) < count:
                self.news.clear()
                await self.news.wait()


def test_each_has_its_whole_time_and_is_then_given_up_once() -> None:
    asyncio.run(_check_each_timeout())


async def _check_each_timeout() -> None:
    waiting = TimedQueue()
    waiting.begin("first")
    waiting.begin("second")
    await waiting.wait_until_expired(2)
    waiting.begin("third")
    await asyncio.sleep(SECONDS / 2)
    waiting.begin("fourth")
    await waiting.wait_until_expired(4)
    assert list(waiting.had) == ["first", "second", "third", "fourth"]
    assert min(waiting.had.values()) >= SECONDS * 0.99


def test_to_begin_again_gives_no_more_time() -> None:
    asyncio.run(_check_restart())


async def _check_restart() -> None:
    waiting = TimedQueue()
    waiting.begin("first")
    waiting.begin("second")
    await asyncio.sleep(SECONDS / 2)
    waiting.patience.start("first")
    await waiting.wait_until_expired(2)
    assert list(waiting.had) == ["first", "second"]


def test_what_ended_is_not_given_up_and_may_start_again() -> None:
    asyncio.run(_check_cancel())


async def _check_cancel() -> None:
    waiting = TimedQueue()
    waiting.begin("ended")
    waiting.begin("late")
    waiting.patience.cancel("ended")
    waiting.patience.cancel("never begun")
    await waiting.wait_until_expired(1)
    assert list(waiting.had) == ["late"]
    waiting.begin("ended")
    await waiting.wait_until_expired(2)
    assert waiting.had["ended"] >= SECONDS * 0.99
