"""Durable appends: many waiters, one write and one fsync per journal, one batch at a time.

Whoever appends gets a future that is done when the line is safe on disk. While one batch is
being written the next one gathers, so batching needs no timer. Batches are global: what was
appended earlier, to whichever journal, is told earlier, so events go out in the order of their
sequence numbers.

After an error nothing is guessed. A write that failed is cut off again; when that cannot be
done, or an fsync failed (the kernel may have dropped the data and will not say so twice), the
journal takes nothing more until the daemon has restarted and read it anew.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from agentd.disk.document import replace, sync_folder, trouble, write_all
from agentd.disk.layout import Layout
from agentd.disk.lines import seal
from agentd.errors import AgentdError, Unavailable
from agentd.ids import Marks, Sequences

log = logging.getLogger(__name__)

WAITING_LIMIT = 8 * 1024 * 1024
"""Bytes that may wait for the disk before more are refused."""

_OPEN = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class Journal(Struct, eq=False):
    """One append-only file and what waits to be appended to it."""

    path: str
    size: int
    """Bytes that are safe on disk."""
    fresh: bool = False
    """Its folder and file are made with the first append."""
    lines: list[bytes] = []
    done: "asyncio.Future[None] | None" = None
    """Done when ``lines`` are safe."""
    busy: "asyncio.Future[None] | None" = None
    """Done when the lines being written now are safe."""
    error: Unavailable | None = None
    """Why nothing more is taken; whoever holds this journal lets go of it."""
    dead: bool = False
    """Not even a newly read journal of this path may be written before a restart."""

    @property
    def settled(self) -> bool:
        """True when all that was appended is safe on disk."""
        return self.done is None and self.busy is None


class _Job(Struct):
    journal: Journal
    data: bytes
    error: Unavailable | None = None
    dead: bool = False


class Committer:
    """Brings appended lines to the disk, off the loop, in batches."""

    def __init__(self, layout: Layout, sequences: Sequences) -> None:
        self._layout = layout
        self._sequences = sequences
        self._thread = ThreadPoolExecutor(1, "commit")
        self._syncs = ThreadPoolExecutor(8, "fsync")
        self._dirty: list[Journal] = []
        self._told: list[tuple[Journal, Callable[[], None]]] = []
        self._waiting = 0
        self._pump: asyncio.Task[None] | None = None

    def append(
        self, journal: Journal, line: bytes, told: Callable[[], None]
    ) -> "asyncio.Future[None]":
        """Have ``line`` appended; ``told`` is called, in global order, once it is safe.

        The future raises ``Unavailable`` when the line could not be made safe. Whether it is on
        disk all the same is then unknown, as after any failed write.
        """
        if journal.error:
            raise journal.error
        if self._waiting and self._waiting + len(line) > WAITING_LIMIT:
            raise Unavailable("The disk does not keep up", "Try again in a moment.")
        if journal.done is None:
            journal.done = asyncio.get_running_loop().create_future()
            self._dirty.append(journal)
        journal.lines.append(line)
        self._told.append((journal, told))
        self._waiting += len(line)
        if self._pump is None:
            self._pump = asyncio.create_task(self._run())
        return journal.done

    async def close(self) -> None:
        """Wait until everything that was appended is settled, and end the threads."""
        while self._pump:
            await asyncio.wait([self._pump])
        self._thread.shutdown()
        self._syncs.shutdown()

    async def beat(self) -> None:
        """Return once the disk thread has answered: the sign that it lives."""
        await asyncio.get_running_loop().run_in_executor(self._thread, lambda: None)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._dirty:
            jobs = [_Job(journal, b"".join(journal.lines)) for journal in self._dirty]
            told, self._told = self._told, []
            self._dirty, self._waiting = [], 0
            for job in jobs:
                job.journal.lines = []
                job.journal.busy, job.journal.done = job.journal.done, None
            marks = self._sequences.shortfall()
            try:
                await loop.run_in_executor(self._thread, self._commit, jobs, marks)
            except Exception:  # a task boundary: nobody may wait for ever
                log.exception("the disk thread failed")
                for job in jobs:
                    job.error, job.dead = Unavailable("The disk thread failed"), True
            if marks and not all(job.error for job in jobs):
                self._sequences.reserved(marks)
            self._finish(jobs, told)
        self._pump = None

    def _finish(self, jobs: list[_Job], told: list[tuple[Journal, Callable[[], None]]]) -> None:
        for job in jobs:
            job.journal.error = job.error
            job.journal.dead = job.dead
        for journal, tell in told:
            if journal.error is None:
                _tell(tell)
        for job in jobs:
            journal = job.journal
            busy, journal.busy = journal.busy, None
            if job.error is None:
                journal.size += len(job.data)
                journal.fresh = False
                if busy:
                    busy.set_result(None)
                continue
            log.error("%s", job.error.message)
            for future in (busy, journal.done):
                if future:
                    future.set_exception(job.error)
                    future.exception()  # whoever left early is not told again by the loop
            if journal in self._dirty:
                self._dirty.remove(journal)
                self._told = [row for row in self._told if row[0] is not journal]
                self._waiting -= sum(map(len, journal.lines))
            journal.lines, journal.done = [], None

    def _commit(self, jobs: list[_Job], marks: Marks | None) -> None:
        """Write one batch, on the disk thread; each job learns how it went."""
        if marks:
            try:
                replace(self._layout.ids, seal(marks))
            except AgentdError as error:
                for job in jobs:
                    job.error = Unavailable(error.message, error.details)
                return
        opened = [(job, fd) for job in jobs if (fd := _write(job)) is not None]
        if len(opened) == 1:
            _sync(*opened[0])
        else:
            list(self._syncs.map(lambda pair: _sync(*pair), opened))
        self._sync_new(jobs)

    def _sync_new(self, jobs: list[_Job]) -> None:
        """A new file is safe only when the folders that name it are."""
        new = [job for job in jobs if job.journal.fresh and not job.error]
        try:
            if new:
                sync_folder(self._layout.chats)
        except OSError as error:
            for job in new:
                job.error, job.dead = _failure(self._layout.chats, error), True


def _tell(tell: Callable[[], None]) -> None:
    try:
        tell()
    except Exception:  # a task boundary: the others' lines are safe too, and they wait
        log.exception("a safe line could not be told")


def _write(job: _Job) -> int | None:
    """Append the batch; the open file, or None after an error that left no trace."""
    journal = job.journal
    fd = None
    try:
        if journal.fresh:
            os.mkdir(os.path.dirname(journal.path), 0o700)
        fd = os.open(journal.path, _OPEN | (os.O_CREAT | os.O_EXCL if journal.fresh else 0), 0o600)
        if os.fstat(fd).st_size != journal.size:
            _refuse_foreign(job, fd)
            return None
        write_all(fd, job.data)
        return fd
    except OSError as error:
        job.error = _failure(journal.path, error)
        if fd is not None:
            job.dead = not _cut_back(fd, journal.size)
            os.close(fd)
        return None


def _failure(path: str, error: OSError) -> Unavailable:
    told = trouble(path, "write", error)
    return Unavailable(told.message, told.details)


def _refuse_foreign(job: _Job, fd: int) -> None:
    """Somebody else wrote to this journal: leave their bytes as they are, and touch it no more."""
    os.close(fd)
    path = job.journal.path
    job.error = Unavailable(
        f"{path} was changed by another program", "Restart agentd to have it read anew."
    )
    job.dead = True


def _cut_back(fd: int, size: int) -> bool:
    try:
        if os.fstat(fd).st_size > size:
            os.ftruncate(fd, size)
            os.fdatasync(fd)
    except OSError:
        return False
    return True


def _sync(job: _Job, fd: int) -> None:
    try:
        os.fdatasync(fd)
        if job.journal.fresh:
            sync_folder(os.path.dirname(job.journal.path))
    except OSError as error:
        job.error, job.dead = _failure(job.journal.path, error), True
    finally:
        os.close(fd)
