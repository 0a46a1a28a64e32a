"""Many timeouts of the same length, at next to no cost for each.

They expire in the order in which they were started, so one timer is enough for all.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class TimeoutQueue(Generic[T]):
    """Calls ``on_timeout`` with each item that is not cancelled within ``seconds``."""

    def __init__(self, seconds: float, on_timeout: Callable[[T], None]) -> None:
        self._seconds = seconds
        self._on_timeout = on_timeout
        self._waiting: dict[T, float] = {}
        """The deadlines, the earliest first."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return the number of running timeouts."""
        return len(self._waiting)

    def start(self, item: T) -> None:
        """Start the timeout of an item, unless it is running already."""
        loop = asyncio.get_running_loop()
        deadline = self._waiting.setdefault(item, loop.time() + self._seconds)
        if self._timer is None:
            self._timer = loop.call_at(deadline, self._expire)

    def cancel(self, item: T) -> None:
        """Stop the timeout of an item, if it is running."""
        self._waiting.pop(item, None)

    def _expire(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        expired = [item for item, deadline in self._waiting.items() if deadline <= loop.time()]
        for item in expired:
            del self._waiting[item]
            self._on_timeout(item)
        if self._waiting:
            self._timer = loop.call_at(next(iter(self._waiting.values())), self._expire)
