"""Reads many journals for the first report, on all processor cores.

The processes (``fold_child``) only write roll-ups, which the report then finds. So one that fails
costs time and nothing else, and the event loop is not held up by a long computation meanwhile.
"""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence

import msgspec

from agentd import __file__ as package
from agentd.chats.analytics import fold_child
from agentd.chats.analytics.fold_child import FoldJob
from agentd.core.errors import Unavailable
from agentd.system import process

log = logging.getLogger(__name__)

WORTH_IT = 32 * 1024 * 1024
"""Bytes of journals from which on processes are started; fewer take less than half a second."""
MOST_PROCESSES = 8
TIMEOUT = 3600.0
PROGRESS_SECONDS = 0.25
"""The least time between two reports of progress."""


class FoldProgress:
    """Adds up what the processes are done with, and passes it on now and then."""

    def __init__(self, total: int, on_progress: Callable[[int, int], None]) -> None:
        self._total = total
        self._done = 0
        self._on_progress = on_progress
        self._told = time.monotonic()

    def listen(self) -> Callable[[bytes], None]:
        """Return what takes the output of one process."""
        rest = b""

        def take(data: bytes) -> None:
            nonlocal rest
            *lines, rest = (rest + data).split(b"\n")
            self._done += sum(int(line) for line in lines if line.isdigit())
            now = time.monotonic()
            if now - self._told >= PROGRESS_SECONDS:
                self._told = now
                self._on_progress(self._done, self._total)

        return take


async def fold_ahead(jobs: Sequence[FoldJob], on_progress: Callable[[int, int], None]) -> None:
    """Write the roll-ups of these journals, if they are long enough for that to pay.

    ``on_progress`` is called with the bytes that are read, and with those of all.
    """
    total = sum(job.size for job in jobs)
    if total < WORTH_IT:
        return
    progress = FoldProgress(total, on_progress)
    on_progress(0, total)
    parts = split_evenly(jobs, min(len(os.sched_getaffinity(0)), MOST_PROCESSES))
    await asyncio.gather(*(_run_child(part, progress.listen()) for part in parts))
    on_progress(total, total)


def split_evenly(jobs: Sequence[FoldJob], parts: int) -> list[list[FoldJob]]:
    """Return the jobs in at most so many parts of about the same size."""
    largest_first = sorted(jobs, key=lambda job: -job.size)
    return [part for number in range(parts) if (part := largest_first[number::parts])]


async def _run_child(jobs: Sequence[FoldJob], listen: Callable[[bytes], None]) -> None:
    try:
        done = await process.run(
            [sys.executable, "-P", "-m", fold_child.__name__],
            folder="/",
            env=process.build_environment(PYTHONPATH=os.path.dirname(os.path.dirname(package))),
            given=msgspec.json.encode(jobs),
            timeout=TIMEOUT,
            on_output=listen,
        )
    except Unavailable as error:
        log.warning("journals are read by agentd itself: %s", error.message)
        return
    if done.code:
        log.warning("journals are read by agentd itself: their reader ended with %s", done.code)
