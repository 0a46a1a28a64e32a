"""Background work that is retried until it succeeds, such as a write to a full disk."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from agentd.core.errors import AgentdError

FIRST_DELAY = 1.0
"""Seconds before the first retry; doubled after each further failure ..."""

MAX_DELAY = 60.0
"""... up to this many seconds."""

STOP_TIMEOUT = 5.0
"""Seconds that ``stop`` waits for unfinished work."""

_log = logging.getLogger(__name__)


class BackgroundRetries:
    """Named tasks on the loop, each retried until it does not raise an ``AgentdError``."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, work: Callable[[], Awaitable[object]], failed: str) -> None:
        """Start ``work`` unless work of this name is running; ``failed`` prefixes the log line."""
        if name not in self._tasks:
            task = asyncio.get_running_loop().create_task(_retry_until_done(work, failed))
            self._tasks[name] = task
            task.add_done_callback(lambda _: self._tasks.pop(name, None))

    async def stop(self) -> None:
        """Wait up to ``STOP_TIMEOUT`` for running work, then cancel it."""
        if tasks := tuple(self._tasks.values()):
            await asyncio.wait(tasks, timeout=STOP_TIMEOUT)
            for task in tasks:
                task.cancel()


async def _retry_until_done(work: Callable[[], Awaitable[object]], failed: str) -> None:
    waiting = FIRST_DELAY
    while True:
        try:
            await work()
            return
        except AgentdError as error:
            _log.warning("%s: %s", failed, error.message)
        await asyncio.sleep(waiting)
        waiting = min(2 * waiting, MAX_DELAY)
