"""The slots of turns at work, of which the settings allow so many at once."""

import asyncio
from collections.abc import Callable


class TurnSlots:
    """Which chats' turns occupy a slot; ``limit`` gives the number of slots as it is now.

    A turn that waits, for the disk or a person, occupies none meanwhile. It takes its slot back at
    once, so that it continues as soon as its question is answered, though for a while one more turn
    runs than the settings allow.
    """

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._busy: set[int] = set()
        self._waits: dict[int, int] = {}
        """Chats whose turn waits, with the number of its waits."""
        self._changed = asyncio.Event()

    @property
    def has_room(self) -> bool:
        """True if one more turn may begin."""
        return len(self._busy) < self._limit()

    def take(self, chat_id: int) -> None:
        """Occupy a slot for a chat's turn."""
        self._busy.add(chat_id)

    def free(self, chat_id: int) -> None:
        """Free the slot of a chat whose turn has ended, or could not begin."""
        self._busy.discard(chat_id)
        self._waits.pop(chat_id, None)
        self._changed.set()

    def begin_wait(self, chat_id: int) -> None:
        """Free the slot of a turn that waits, perhaps for several things at once."""
        self._waits[chat_id] = self._waits.get(chat_id, 0) + 1
        self._busy.discard(chat_id)
        self._changed.set()

    def end_wait(self, chat_id: int) -> None:
        """Take the slot back once nothing is waited for any more."""
        self._waits[chat_id] = self._waits.get(chat_id, 0) - 1
        if self._waits[chat_id] <= 0:
            self._busy.add(chat_id)
        self._changed.set()

    async def wait_until(self, is_over: Callable[[], bool]) -> None:
        """Wait until something is true that changes when turns end, wait or go on."""
        while not is_over():
            self._changed.clear()
            await self._changed.wait()
