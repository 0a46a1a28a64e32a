"""No more browsers at once than processors, whichever processes of a run have them."""

import os
import tempfile
import time
from contextlib import suppress
from itertools import cycle
from pathlib import Path

from filelock import FileLock, Timeout

POLL_SECONDS = 0.05
"""How often a process that waits for a slot looks for one."""


class BrowserSlot:
    """One of as many slots as there are processors; whoever holds it may run browsers.

    A browser keeps a processor busy, and pages that have to wait for one are slower than any
    patience of a test. ``run``: what the processes that share the slots have in common.
    """

    def __init__(self, run: str, count: int | None = None) -> None:
        folder = Path(tempfile.gettempdir())
        self._slots = [
            FileLock(folder / f"agentd-tests-{run}-browser-{number}.lock")
            for number in range(count or len(os.sched_getaffinity(0)))
        ]

    @property
    def is_held(self) -> bool:
        """True if this process has a slot."""
        return any(slot.is_locked for slot in self._slots)

    def acquire(self) -> None:
        """Take the first slot that is free, and wait for one while there is none."""
        for number, slot in enumerate(cycle(self._slots)):
            with suppress(Timeout):
                slot.acquire(blocking=False)
                return
            if (number + 1) % len(self._slots) == 0:
                time.sleep(POLL_SECONDS)

    def release(self) -> None:
        """Give the slot back."""
        for slot in self._slots:
            slot.release()
