"""A call that touches the disk goes wrong."""

import asyncio
import errno
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from agentd.app.background import log_silent_corruption
from tests.crash.recorder import find_callers

CALLS = ("open", "write", "writev", "fsync", "fdatasync", "rename", "link", "mkdir", "ftruncate",
         "unlink", "rmdir")  # fmt: skip

KINDS = ("EIO", "ENOSPC", "EIO for good", "ENOSPC for good", "short", "half", "dies")
"""``for good``: from that call on, all fail.
``short``: a write takes half; ``half``: and then there is no space. ``dies``: SIGKILL."""

real_write = os.write


async def wait_for_inspection() -> None:
    """Wait for the look at all files that a daemon takes after its start, which is of no change."""
    code = log_silent_corruption.__code__
    tasks = [task for task in asyncio.all_tasks() if _get_code(task) is code]
    await asyncio.gather(*tasks)


def _get_code(task: "asyncio.Task[Any]") -> Any:
    return getattr(task.get_coro(), "cr_code", None)


class Faults:
    """Notes the calls while it is armed, and has the ``at``-th of one place go wrong.

    A place is a call and the functions of the daemon that make it: which call goes wrong does not
    depend on what other threads do meanwhile.
    """

    def __init__(self, kind: str = "", place: str = "", at: int = 0) -> None:
        self.kind = kind
        self.place = place
        self.at = at
        self.armed = False
        self.calls: list[str] = []
        """The place of each call that was made."""
        self.happened = False
        """True once the call went wrong."""
        self._lock = threading.Lock()

    def install(self) -> None:
        """Stand between this process and ``os`` from now on."""
        for name in CALLS:
            setattr(os, name, self._wrap(name, getattr(os, name)))

    def _wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            if self.armed and self._is_due(name):
                if self.kind == "dies":
                    os.kill(os.getpid(), signal.SIGKILL)
                if self.kind not in ("short", "half"):
                    code = getattr(errno, self.kind.split()[0])
                    raise OSError(code, os.strerror(code))
                if name == "write":
                    taken = real(args[0], bytes(args[1])[: len(args[1]) // 2])
                    if self.kind == "short":
                        return taken
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*args, **named)

        return call

    def _is_due(self, name: str) -> bool:
        place = f"{name} in {' of '.join(find_callers())}"
        with self._lock:
            self.calls.append(place)
            due = place == self.place and self.calls.count(place) == self.at
            was_due = self.happened
            self.happened |= due
        return due or (was_due and self.kind.endswith("good"))
