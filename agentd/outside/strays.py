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

from agentd.outside import marked
from agentd.outside.marked import Variables
from agentd.outside.process import DAEMON, MARK

log = logging.getLogger(__name__)


async def end_strays(prefix: str, *, orphans: bool = False) -> int:
    """``end_strays_now`` in a thread."""
    return await asyncio.to_thread(end_strays_now, prefix, orphans=orphans)


def end_strays_now(prefix: str, *, orphans: bool = False) -> int:
    """Kill every program of our user with this mark, or one that goes on behind a dot.

    With ``orphans`` only those whose daemon is dead: another one may serve a copy of our folder.
    Returns how many there were. This process and those that it descends from are spared. Where
    processes cannot be looked up (no ``/proc``, no pidfd) nothing is done, and the log says so.
    Raises ``ValueError`` for an empty mark, which every daemon's programs have.
    """
    if not prefix:
        raise ValueError("strays are looked for by a mark")
    if not hasattr(os, "pidfd_open") or not os.path.exists("/proc/self/environ"):
        log.warning("what outlives its turn cannot be ended here: there is no /proc, or no pidfd")
        return 0
    exact = f"{MARK}={prefix}".encode()

    def belongs(variables: Variables) -> bool:
        ours = any(one == exact or one.startswith(exact + b".") for one in variables)
        return ours and not (orphans and _has_daemon(variables))

    ended = marked.end_all(belongs, _lineage())
    if ended:
        log.info("ended %d programs that were left of %s", ended, prefix)
    return ended


def _has_daemon(variables: Variables) -> bool:
    """Whether the process that started this program lives."""
    head = f"{DAEMON}=".encode()
    named = (one.removeprefix(head) for one in variables if one.startswith(head))
    return any(marked.lives(name.decode(errors="replace")) for name in named)


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
