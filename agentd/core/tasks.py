"""Background tasks of the event loop, which are kept until they are done, and ended."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Self, TypeVar

_Result = TypeVar("_Result")


class BackgroundTasks:
    """Tasks that run by themselves. The event loop alone does not keep a task from being freed."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        """Return the number of running tasks."""
        return len(self._running)

    def start(self, work: Coroutine[Any, Any, _Result]) -> "asyncio.Task[_Result]":
        """Run a coroutine to its end, even if the caller is cancelled."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def run_when_done(
        self, futures: Sequence["asyncio.Future[None]"], do: Callable[[], None]
    ) -> None:
        """Call ``do`` once the futures are done, even if the caller is cancelled before.

        Raises what a future raises, without a call. With the latest one first, the caller wakes
        up only once.
        """
        try:
            for one in futures:
                await asyncio.shield(one)
        except asyncio.CancelledError:
            self.start(_run_when_done(futures, do))
            raise
        do()

    async def wait(self) -> None:
        """Return once all are done, including those that they start meanwhile."""
        while self._running:
            await asyncio.wait(self._running)

    async def cancel(self) -> None:
        """Cancel all, and return once they are done."""
        for task in self._running:
            task.cancel()
        await self.wait()


async def _run_when_done(futures: Sequence["asyncio.Future[None]"], do: Callable[[], None]) -> None:
    results = await asyncio.gather(*futures, return_exceptions=True)
    if not any(results):  # else whoever made the futures has reported the error
        do()


async def cancel_task(task: "asyncio.Task[None]") -> None:
    """Cancel a task and return once it is done. Raises what it failed with."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()


def start_eagerly(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None] | None":
    """Run a coroutine up to its first wait; return the task of the rest, None if there is none.

    Most that may have to wait need not, and a task costs a pass of the loop. Up to its first wait
    it runs outside of any task, where ``asyncio.timeout`` does not work. Raises what it raises
    before that.
    """
    try:
        waited_for = work.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(_continue(work, waited_for))


async def _continue(work: Coroutine[Any, Any, None], waited_for: Any) -> None:
    await _Rest(work, waited_for)


class _Rest:
    """The rest of a coroutine that has begun and waits for something; ``await`` finishes it."""

    def __init__(self, work: Coroutine[Any, Any, None], waited_for: Any) -> None:
        self._work = work
        self._waited_for = [waited_for]
        """Passed on first."""

    def __await__(self) -> Self:
        return self

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Return what the coroutine waits for next, after ``value`` came of the wait before."""
        return self._waited_for.pop() if self._waited_for else self._work.send(value)

    def throw(self, *error: Any) -> Any:
        """Return what the coroutine waits for next, after the wait before failed."""
        return self._work.throw(*error)

    def close(self) -> None:
        """Give the coroutine up."""
        self._work.close()
