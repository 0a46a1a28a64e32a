"""What people edit while we run is read anew: once for all who ask, and not in each one's time."""

import asyncio
from collections.abc import Awaitable, Callable


class Refresh:
    """Calls ``read``, which puts in force what is there now; once at a time, on the loop."""

    def __init__(self, read: Callable[[], Awaitable[None]]) -> None:
        self._read = read
        self._begun = self._ended = 0
        """How many readings have begun, and which of them was the last to come to its end."""
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def now(self) -> None:
        """When this returns, what was there at the call is in force. Raises as ``read`` does.

        Of all who wait one reads, but not with a reading that had begun before: it may have passed
        by what is new. Where who reads is cancelled, the next one reads.
        """
        asked = self._begun
        async with self._lock:
            if self._ended <= asked:
                self._begun += 1
                await self._read()
                self._ended = self._begun

    def soon(self) -> None:
        """Have it done, without waiting for it."""
        task = asyncio.get_running_loop().create_task(self.now())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Leave off what is read ``soon``."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
