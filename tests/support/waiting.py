"""Waiting for conditions that have no event, and for processes to end."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 60.0
"""Seconds after which what should have happened will not, on the slowest machine."""


def until(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Return the first true value of ``condition``, which is polled."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.003)
    return found


def is_gone(pid: int) -> bool:
    """Return whether the process has ended; one that nobody waits for (a zombie) has, too."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_until_gone(pid: int) -> None:
    """Wait until the process has ended."""
    until(lambda: is_gone(pid))
