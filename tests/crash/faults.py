"""The n-th call that touches the disk goes wrong."""

import errno
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

CALLS = ("open", "write", "writev", "fsync", "fdatasync", "rename", "link", "mkdir", "ftruncate",
         "unlink", "rmdir")  # fmt: skip

KINDS = ("EIO", "ENOSPC", "EIO for good", "ENOSPC for good", "short", "half", "dies")
"""``for good``: from that call on, all fail.
``short``: a write takes half; ``half``: and then there is no space. ``dies``: SIGKILL."""

real_write = os.write


class Faults:
    """Counts the calls while it is armed, and has the ``at``-th go wrong; 0 is none."""

    def __init__(self, kind: str = "", at: int = 0) -> None:
        self.kind = kind
        self.at = at
        self.names: list[str] = []
        """The calls that were counted."""
        self.armed = False
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
        with self._lock:
            self.names.append(name)
            count = len(self.names)
        return 0 < self.at <= count if self.kind.endswith("good") else count == self.at
