"""Identify processes reliably: by a variable of their environment, and by pidfd.

A process id is reused some time after the process exited. A descriptor (pidfd) is not, and the
start time in clock ticks, with the boot id of the machine, distinguishes the holders of a pid.
"""

import os
import re
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeAlias

from msgspec import Struct


class Process(Struct, frozen=True):
    """The unambiguous identity of a process: a pid alone is reused."""

    pid: int
    started: int
    """Start time in clock ticks since boot."""
    boot: str
    """The boot id of the machine."""


Variables: TypeAlias = list[bytes]
"""The initial environment of a process, each item ``NAME=value``."""

MAX_ROUNDS = 20
"""A process may start others during a scan; scanning is repeated up to this often."""
_KILL_SECONDS = 2.0
"""Seconds that the kernel is given to end killed processes."""
_NAME = re.compile(r"([1-9][0-9]{0,8})\.([0-9]{1,18})\.(.*)", re.ASCII)
_STARTED = 19
"""Index of the start time in ``/proc/PID/stat``, counted after the name."""


def read_boot_id() -> str:
    """Return the boot id of the machine; raise ``OSError`` where it is not available."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def read_identity(pid: int) -> Process:
    """Return the identity of the process with this pid; raise ``OSError`` if there is none."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return Process(pid, int(fields[_STARTED]), read_boot_id())


def format_identity(pid: int) -> str:
    """Return the identity of the process with this pid as text; empty where not available."""
    try:
        process = read_identity(pid)
    except OSError:
        return ""
    return f"{process.pid}.{process.started}.{process.boot}"


def open_pidfd(process: Process) -> int | None:
    """Open a pidfd of this very process; ``None`` when it exited, even if its pid was reused."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return None
    try:
        # The pid cannot be reused while its process, held by the descriptor, is running.
        if read_identity(process.pid) == process and not has_exited(handle):
            return handle
    except OSError:
        pass
    os.close(handle)
    return None


def is_running(name: str) -> bool:
    """Return whether the process that ``format_identity`` named has not ended."""
    found = _NAME.fullmatch(name)
    handle = open_pidfd(Process(int(found[1]), int(found[2]), found[3])) if found else None
    if handle is None:
        return False
    os.close(handle)
    return True


def has_exited(handle: int) -> bool:
    """Return whether the process has exited."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))


def find_marked(variable: str, value: str) -> list[int]:
    """Return the processes of our user that were started with this variable."""
    return list(_find_all(_match_variable(variable, value), frozenset((os.getpid(),))))


def kill_by_env(variable: str, value: str) -> int:
    """Kill every process that was started with this variable; return their number. Blocking."""
    return kill_matching(_match_variable(variable, value), frozenset((os.getpid(),)))


def kill_matching(wanted: Callable[[int], bool], spared: frozenset[int]) -> int:
    """Kill every process whose pid is ``wanted`` and return their number.

    ``wanted`` may raise ``OSError`` for a process it cannot read. Those in ``spared`` are left
    alone. Blocks for up to ``_KILL_SECONDS`` and the time of the scans.
    """
    ended: set[int] = set()
    deadline = time.monotonic() + _KILL_SECONDS
    for _ in range(MAX_ROUNDS):
        killed = [pid for pid in _find_all(wanted, spared) if _kill(pid, wanted, deadline)]
        ended.update(killed)  # one that is slow to die is found and killed again
        if not killed:
            break
    return len(ended)


def read_environment(pid: int) -> Variables:
    """Return the initial environment of a process of our user.

    Raises ``OSError`` for another user's process and for one that has exited.
    """
    if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
        raise PermissionError(pid)
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read().split(b"\0")


def _match_variable(variable: str, value: str) -> Callable[[int], bool]:
    sought = f"{variable}={value}".encode()
    return lambda pid: sought in read_environment(pid)


def _find_all(wanted: Callable[[int], bool], spared: frozenset[int]) -> Iterator[int]:
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and int(entry) not in spared:
            with suppress(OSError):
                if wanted(int(entry)):
                    yield int(entry)


def _kill(pid: int, wanted: Callable[[int], bool], deadline: float) -> bool:
    """Kill a process if, once held by a pidfd, it still is wanted; then wait for its end."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # The pid may have been reused since the scan: check again what the pidfd holds.
        if has_exited(handle) or not wanted(pid):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.poll(max(deadline - time.monotonic(), 0) * 1000)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
