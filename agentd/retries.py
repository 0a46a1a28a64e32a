"""What must get done though the disk refuses it for a while: tried again until it is."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from agentd.errors import AgentdError

FIRST_SECONDS = 1.0
"""Until something is tried again; twice as many after each further failure ..."""

MOST_SECONDS = 60.0
"""... and never more than these."""

STOP_SECONDS = 5.0
"""How long a stop waits for what is not done yet."""

_log = logging.getLogger(__name__)


class Retries:
    """Work on the loop, each known by its name, that is done once it does not raise."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, work: Callable[[], Awaitable[object]], failed: str) -> None:
        """Have ``work`` done, unless work of this name is under way; ``failed`` is for the log."""
        if name not in self._tasks:
            task = asyncio.get_running_loop().create_task(_do(work, failed))
            self._tasks[name] = task
            task.add_done_callback(lambda _: self._tasks.pop(name, None))

    async def stop(self) -> None:
        """Wait a little for what is under way, then leave it undone."""
        if tasks := tuple(self._tasks.values()):
            await asyncio.wait(tasks, timeout=STOP_SECONDS)
            for task in tasks:
                task.cancel()


async def _do(work: Callable[[], Awaitable[object]], failed: str) -> None:
    waiting = FIRST_SECONDS
    while True:
        try:
            await work()
            return
        except AgentdError as error:
            _log.warning("%s: %s", failed, error.message)
        await asyncio.sleep(waiting)
        waiting = min(2 * waiting, MOST_SECONDS)
