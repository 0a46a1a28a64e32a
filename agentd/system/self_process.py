"""Process-wide settings of the daemon: umask, limits, memory, protection from debuggers."""

import ctypes
import os
import resource

MAX_DESCRIPTORS = 16_384
"""Wanted limit of open files, as far as the hard limit allows."""

_SET_DUMPABLE = 4
_ARENA_MAX = -8


def prepare_process() -> None:
    """Set a private umask and one heap, raise the descriptor limit, and make it undumpable."""
    os.umask(0o077)
    _share_heap()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < MAX_DESCRIPTORS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(MAX_DESCRIPTORS, hard), hard))
    hide_process()


def _share_heap() -> None:
    """Let all threads allocate from one heap, before there are others. glibc only (``mallopt``).

    By default each thread has its own, whose end is never returned to the system: what a thread
    needed once, such as to read an index of megabytes, would stay. Under Python's lock threads
    hardly wait for each other here: the rates of ``tests/benchmarks`` are the same.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_ARENA_MAX, 1)


def get_resident_size() -> int:
    """Return the resident memory of this process in bytes; 0 where unknown. Blocking."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def trim_memory() -> None:
    """Return freed memory that the allocator still holds to the system. Blocking.

    After many clients have caught up at once that is most of the memory. glibc only
    (``malloc_trim``); it takes a few milliseconds, during which other threads may wait for memory.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def hide_process() -> bool:
    """Make the process undumpable and unreadable for non-root users; return False if unsupported.

    The agent's programs run as the same user and could otherwise read a supplier's key in
    ``/proc/…/environ``, or attach a debugger. Child processes are not affected. Linux only
    (``prctl``, ``PR_SET_DUMPABLE``).
    """
    libc = ctypes.CDLL(None)
    return hasattr(libc, "prctl") and libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0) == 0
