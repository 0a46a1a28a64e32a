"""One editor at a time: who changes a file of ours holds the lock beside it, in any process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from agentd.disk import document
from agentd.errors import Unavailable

WAIT = 5.0
"""Seconds to wait for somebody else."""


@contextmanager
def held(path: str, what: str) -> Iterator[None]:
    """Hold the lock file at ``path``, whose folder is made. Blocking.

    Raises ``Unavailable`` when somebody else goes on changing ``what`` for too long.
    """
    document.make_folder(os.path.dirname(path))
    lock = FileLock(
        path,
        timeout=WAIT,
        mode=0o600,
        thread_local=False,
        fallback_to_soft=False,
        preserve_lock_file=True,
    )
    with document.told(path, "lock"):
        try:
            lock.acquire()
        except Timeout as error:
            raise Unavailable(f"somebody else is changing {what} ({path})") from error
    try:
        yield
    finally:
        lock.release()
