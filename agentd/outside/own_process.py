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


def resident_size() -> int:
    """The bytes of memory that this process has; 0 where the system does not tell. Blocking."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def return_free_memory() -> None:
    """Give the system back what was freed and is still held for later. Blocking.

    After many listeners have caught up at once that is most of the memory. glibc only
    (``malloc_trim``); it takes a few milliseconds, during which other threads may wait for memory.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def hide_process() -> bool:
    """Let nobody but root look into this process, nor its core be dumped; False: not possible here.

    The programs of the agent run as the same user, who could otherwise read a supplier's key in
    ``/proc/…/environ``, or attach as a debugger does. What is started is not hidden. Linux only
    (``prctl``, ``PR_SET_DUMPABLE``).
    """
    libc = ctypes.CDLL(None)
    return hasattr(libc, "prctl") and libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0) == 0
