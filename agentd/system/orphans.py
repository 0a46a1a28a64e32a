"""Kill programs that outlive their turn, or the daemon that started them.

Every program is started with a tag in its environment (``process.MARK``): the state
folder's generation, the chat and the turn, separated by dots. Its children inherit the tag, even
when they leave the process group and session or the daemon was killed. So all processes of a turn,
or of a daemon, can be found in ``/proc``. A process that cleared its environment is found by the
turn's second mark (``limit_mark``) while the turn lasts.

Not found is a process that lost both: it set its own file size limit, too, or another service
started it on behalf of the agent (``at``, ``systemd-run``, a container). After a daemon crash only
the tag is searched, because the second mark does not say which daemon it is from; under
systemd all processes end with the unit.
"""

import asyncio
import logging
import os

from agentd.system import limit_mark, process_identity
from agentd.system.process import DAEMON, MARK
from agentd.system.process_identity import Variables

log = logging.getLogger(__name__)


async def kill_orphans(owner_tag: str, *, dead_owner: bool = False) -> int:
    """Run ``kill_orphans_now`` in a thread."""
    return await asyncio.to_thread(kill_orphans_now, owner_tag, dead_owner=dead_owner)


def kill_orphans_now(*owner_tags: str, dead_owner: bool = False) -> int:
    """Kill every process of our user with one of these tags, or one that extends it by ``.…``.

    A turn's processes are also found by their second mark.

    With ``dead_owner`` only those whose daemon is dead are killed: another daemon may serve a copy
    of our folder. Returns the number of killed processes. This process and its ancestors are
    spared. Where processes cannot be looked up (no ``/proc``, no pidfd) nothing is done, and a
    warning is logged. Raises ``ValueError`` for an empty tag, which would match every daemon.
    """
    if not all(owner_tags) or not owner_tags:
        raise ValueError("a tag is required")
    if not hasattr(os, "pidfd_open") or not os.path.exists("/proc/self/environ"):
        log.warning("cannot kill leftover programs: there is no /proc, or no pidfd")
        return 0
    exact = frozenset(f"{MARK}={tag}".encode() for tag in owner_tags)
    extended = tuple(one + b"." for one in exact)

    def belongs(pid: int) -> bool:
        if not dead_owner and any(limit_mark.is_marked(pid, tag) for tag in owner_tags):
            return True
        variables = process_identity.read_environment(pid)
        ours = any(one in exact or one.startswith(extended) for one in variables)
        return ours and not (dead_owner and _is_daemon_running(variables))

    ended = process_identity.kill_matching(belongs, _find_ancestors())
    if ended:
        log.info("killed %d leftover programs of %s", ended, ", ".join(owner_tags))
    return ended


def _is_daemon_running(variables: Variables) -> bool:
    """Return whether the daemon that started a process is running."""
    head = f"{DAEMON}=".encode()
    named = (one.removeprefix(head) for one in variables if one.startswith(head))
    return any(process_identity.is_running(name.decode(errors="replace")) for name in named)


def _find_ancestors() -> frozenset[int]:
    """Return our own process and its ancestors."""
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
