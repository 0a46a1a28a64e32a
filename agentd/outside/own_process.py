"""What the daemon asks of the system for its own process, once, before it does anything."""

import ctypes
import os
import resource

DESCRIPTORS = 16_384
"""Asked of the system for connections and files, as far as it allows them."""

_SET_DUMPABLE = 4


def prepare_process() -> None:
    """Files for their owner alone, many descriptors, and nobody looks in."""
    os.umask(0o077)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < DESCRIPTORS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(DESCRIPTORS, hard), hard))
    hide_process()


def hide_process() -> bool:
    """Let nobody but root look into this process, nor its core be dumped; False: not possible here.

    The programs of the agent run as the same user, who could otherwise read a supplier's key in
    ``/proc/…/environ``, or attach as a debugger does. What is started is not hidden. Linux only
    (``prctl``, ``PR_SET_DUMPABLE``).
    """
    libc = ctypes.CDLL(None)
    return hasattr(libc, "prctl") and libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0) == 0
