"""No program outlives its turn, nor the daemon that started it.

Every program is started with a mark in its environment (``process.MARK``): the state folder's
generation, the chat, the turn, with dots between them. What it starts inherits the mark, also
what leaves the group and the session, and what a killed daemon left behind. So all that belongs
to a turn, or to a daemon, can be found by its mark, in ``/proc``.

What hides or wipes its own environment is not found this way (a daemon of agentd that an agent
started, say); under systemd it ends with the unit.
"""

import asyncio
import logging
import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agentd.outside.process import MARK

log = logging.getLogger(__name__)

MOST_ROUNDS = 20
"""A marked program may start others while it is looked for; then it is looked for once more."""

_DEATH = 1.0
"""Seconds that the kernel is given to end what was killed in a round."""


async def end_strays(prefix: str) -> int:
    """``end_strays_now`` in a thread."""
    return await asyncio.to_thread(end_strays_now, prefix)


def end_strays_now(prefix: str) -> int:
    """Kill every program of our user with this mark, or one that goes on behind a dot.

    Returns how many there were. This process and those that it descends from are spared. Where
    processes cannot be looked up (no ``/proc``, no pidfd) nothing is done, and the log says so.
    Raises ``ValueError`` for an empty mark, which every daemon's programs have.
    """
    if not prefix:
        raise ValueError("strays are looked for by a mark")
    if not hasattr(os, "pidfd_open") or not os.path.exists("/proc/self/environ"):
        log.warning("what outlives its turn cannot be ended here: there is no /proc, or no pidfd")
        return 0
    spared = _lineage()
    ended = 0
    for _ in range(MOST_ROUNDS):
        found = _end_found(prefix.encode(), spared)
        ended += found
        if not found:
            break
    if ended:
        log.info("ended %d programs that were left of %s", ended, prefix)
    return ended


def _end_found(prefix: bytes, spared: frozenset[int]) -> int:
    """Kill those that are there now, and wait for their end."""
    deadline = time.monotonic() + _DEATH
    ended = 0
    for process in _ours():
        if process in spared or not _is_marked(process, prefix):
            continue
        with _held(process) as handle:
            # The number may have gone to another process since: what is held decides.
            if handle is None or not _is_marked(process, prefix):
                continue
            if _killed(handle):
                ended += 1
                _await_end(handle, deadline)
    return ended


def _ours() -> Iterator[int]:
    """The numbers of all processes of our user."""
    user = os.geteuid()
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with suppress(OSError):
                if os.stat(f"/proc/{entry}").st_uid == user:
                    yield int(entry)


def _is_marked(process: int, prefix: bytes) -> bool:
    """Whether it was started with the mark; nothing that has ended was."""
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return False
    name = MARK.encode() + b"="
    marks = [one.removeprefix(name) for one in variables if one.startswith(name)]
    return any(mark == prefix or mark.startswith(prefix + b".") for mark in marks)


@contextmanager
def _held(process: int) -> Iterator[int | None]:
    """A descriptor that means this very process, whoever has its number later; None: gone."""
    try:
        handle = os.pidfd_open(process)
    except OSError:
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)


def _killed(handle: int) -> bool:
    """Whether it was there to be killed."""
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError:
        return False
    return True


def _await_end(handle: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.poll(max(deadline - time.monotonic(), 0) * 1000)


def _lineage() -> frozenset[int]:
    """Our own process and those that it descends from."""
    process = os.getpid()
    found = set()
    while process > 0 and process not in found:
        found.add(process)
        try:
            with open(f"/proc/{process}/stat", "rb") as file:
                process = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            break
    return frozenset(found)
