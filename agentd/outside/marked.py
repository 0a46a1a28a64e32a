"""Processes for sure: found by a variable that they were started with, held by a descriptor.

A process's number is given to another one some time after its end. A descriptor (pidfd) is not,
and its start in clock ticks, with the machine's own start, tells one holder of a number from the
next.
"""

import os
import re
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeAlias

from agentd.workspace.deployment import Process

Variables: TypeAlias = list[bytes]
"""What a process was started with, each ``NAME=value``."""

MOST_ROUNDS = 20
"""A process may start others while it is looked for; then they are looked for once more."""
_DEATH = 2.0
"""Seconds that the kernel is given to end what was killed."""
_NAME = re.compile(r"([1-9][0-9]{0,8})\.([0-9]{1,18})\.(.*)", re.ASCII)
_STARTED = 19
"""The field of ``/proc/PID/stat`` that tells its start, counted behind the name."""


def boot() -> str:
    """The machine's present start; raises ``OSError`` where nobody tells."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def identity(pid: int) -> Process:
    """Which process has this number now; raises ``OSError`` when none has."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return Process(pid, int(fields[_STARTED]), boot())


def name_of(pid: int) -> str:
    """What tells the process that has this number now from any other; empty where nobody tells."""
    try:
        process = identity(pid)
    except OSError:
        return ""
    return f"{process.pid}.{process.started}.{process.boot}"


def held(process: Process) -> int | None:
    """A descriptor of this very process; None when it is gone, whoever has its number now."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return None
    try:
        # Read while the descriptor is open, and it lives still: then it was read of this one.
        if identity(process.pid) == process and not is_over(handle):
            return handle
    except OSError:
        pass
    os.close(handle)
    return None


def lives(name: str) -> bool:
    """Whether the process that ``name_of`` named has not ended."""
    found = _NAME.fullmatch(name)
    handle = held(Process(int(found[1]), int(found[2]), found[3])) if found else None
    if handle is None:
        return False
    os.close(handle)
    return True


def is_over(handle: int) -> bool:
    """Whether the process has ended."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))


def marked(variable: str, value: str) -> list[int]:
    """Every process of our user that was started with this variable."""
    return list(_started_with(_the_one(variable, value), frozenset((os.getpid(),))))


def end_marked(variable: str, value: str) -> int:
    """Kill every process that was started with this variable; how many there were. Blocking."""
    return end_all(_the_one(variable, value), frozenset((os.getpid(),)))


def end_all(wanted: Callable[[Variables], bool], spared: frozenset[int]) -> int:
    """Kill every process of our user whose variables are ``wanted``; how many there were.

    Nothing is done to those that are ``spared``. Blocking, for as long as the kernel is given.
    """
    ended: set[int] = set()
    deadline = time.monotonic() + _DEATH
    for _ in range(MOST_ROUNDS):
        killed = [pid for pid in _started_with(wanted, spared) if _killed(pid, wanted, deadline)]
        ended.update(killed)  # one that takes its time to die is killed, and found, again
        if not killed:
            break
    return len(ended)


def _the_one(variable: str, value: str) -> Callable[[Variables], bool]:
    sought = f"{variable}={value}".encode()
    return lambda variables: sought in variables


def _started_with(wanted: Callable[[Variables], bool], spared: frozenset[int]) -> Iterator[int]:
    user = os.geteuid()
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and int(entry) not in spared:
            with suppress(OSError):
                if os.stat(f"/proc/{entry}").st_uid == user and wanted(_variables(entry)):
                    yield int(entry)


def _variables(pid: int | str) -> Variables:
    """Raises ``OSError`` for what has ended, and is nobody's any more."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read().split(b"\0")


def _killed(pid: int, wanted: Callable[[Variables], bool], deadline: float) -> bool:
    """Kill it if it is, while it is held, what was looked for; then wait for its end."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # The number may have gone to another process since: what is held decides.
        if not wanted(_variables(pid)):
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
