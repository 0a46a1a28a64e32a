"""Background tasks of the event loop, which are kept until they are done, and ended."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class BackgroundTasks:
    """Tasks that run by themselves. The event loop alone does not keep a task from being freed."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Return the number of running tasks."""
        return len(self._running)

    def start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run a coroutine to its end, even if the caller is cancelled."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def wait(self) -> None:
        """Return once all are done, including those that they start meanwhile."""
        while self._running:
            await asyncio.wait(self._running)

    async def cancel(self) -> None:
        """Cancel all, and return once they are done."""
        for task in self._running:
            task.cancel()
        await self.wait()


async def cancel_task(task: "asyncio.Task[None]") -> None:
    """Cancel a task and return once it is done. Raises what it failed with."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
