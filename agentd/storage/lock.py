"""Lock files that serialise edits of one file, across processes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from agentd.core.errors import Unavailable
from agentd.storage import document

WAIT_SECONDS = 5.0
"""Seconds to wait for another process."""


@contextmanager
def hold_lock(path: str, what: str) -> Iterator[None]:
    """Hold the lock file at ``path``, and create its folder if it is missing. Blocking.

    Raises ``Unavailable`` when another program holds the lock on ``what`` for too long.
    """
    document.make_folder(os.path.dirname(path))
    lock = FileLock(
        path,
        timeout=WAIT_SECONDS,
        mode=0o600,
        thread_local=False,
        fallback_to_soft=False,
        preserve_lock_file=True,
    )
    with document.translate_os_errors(path, "lock"):
        try:
            lock.acquire()
        except Timeout as error:
            raise Unavailable(f"somebody else is changing {what} ({path})") from error
    try:
        yield
    finally:
        lock.release()
