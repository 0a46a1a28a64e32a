"""How long bodies may take to come, at next to no cost for each.

All have the same time, so they end in the order in which they began: one timer does for all.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Patience(Generic[T]):
    """``over`` is called with whatever has not ended within ``seconds``."""

    def __init__(self, seconds: float, over: Callable[[T], None]) -> None:
        self._seconds = seconds
        self._over = over
        self._waiting: dict[T, float] = {}
        """Until when, in the order of their ends."""
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, one: T) -> None:
        """Its time runs from now on, if it does not already."""
        loop = asyncio.get_running_loop()
        end = self._waiting.setdefault(one, loop.time() + self._seconds)
        if self._timer is None:
            self._timer = loop.call_at(end, self._look)

    def end(self, one: T) -> None:
        """It came, or nobody waits for it any more."""
        self._waiting.pop(one, None)

    def _look(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        late = [one for one, end in self._waiting.items() if end <= loop.time()]
        for one in late:
            del self._waiting[one]
            self._over(one)
        if self._waiting:
            self._timer = loop.call_at(next(iter(self._waiting.values())), self._look)
