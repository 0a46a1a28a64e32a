"""Durable appends: many waiters, one write and one fsync per journal, one batch at a time.

Whoever appends gets a future that is done when the line is safe on disk. While one batch is
being written the next one gathers, so batching needs no timer. Batches are global: what was
appended earlier, to whichever journal, is announced earlier, so events go out in the order of
their sequence numbers.

After an error nothing is guessed. A write that failed is cut off again; when that cannot be
done, or an fsync failed (the kernel may have dropped the data and will not say so twice), the
journal accepts nothing more until the daemon has restarted and read it again.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from msgspec import Struct

from agentd.core.errors import AgentdError, Unavailable
from agentd.core.ids import HighWaterMarks, Sequences
from agentd.core.threads import WorkerThreads
from agentd.storage.checksummed_json import encode_checksummed
from agentd.storage.document import explain_os_error, replace_document, sync_folder, write_all
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

MAX_PENDING_BYTES = 8 * 1024 * 1024
"""Bytes that may wait for the disk before more are refused."""

SYNC_THREADS = 7
"""Threads that sync journals beside the one that writes them."""

_OPEN = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Journal(Struct, eq=False):
    """An append-only file and the records waiting to be appended to it."""

    path: str
    size: int
    """Bytes that are safe on disk."""
    fresh: bool = False
    """Its folder and file are made with the first append."""
    on_failure: Callable[[], None] | None = None
    """Called when lines could not be made safe, before those who wait for them are told."""
    lines: list[bytes] = []
    waiting: "list[asyncio.Future[None]]" = []
    """Done when ``lines`` are safe; at least one for each."""
    writing: "list[asyncio.Future[None]]" = []
    """Done when the lines being written now are safe."""
    error: Unavailable | None = None
    """The reason why nothing more is accepted; the holder must drop this journal."""
    dead: bool = False
    """True if not even a newly read journal of this path may be written before a restart."""

    @property
    def is_settled(self) -> bool:
        """True when all that was appended is safe on disk."""
        return not self.waiting and not self.writing

    def wait_for_last(self) -> "asyncio.Future[None]":
        """Return a future that is done with the last append, of a journal that is not settled."""
        future = asyncio.get_running_loop().create_future()
        (self.waiting or self.writing).append(future)
        return future


class _Job(Struct):
    journal: Journal
    data: bytes
    error: Unavailable | None = None
    dead: bool = False


class _Batch(NamedTuple):
    """What is written together."""

    jobs: list[_Job]
    callbacks: list[tuple[Journal, Callable[[], None]]]
    """In the order in which their lines were appended."""
    marks: HighWaterMarks | None
    """The sequence numbers to reserve on disk before."""


class GroupCommitter:
    """Writes appended lines to disk in batches, off the loop."""

    def __init__(self, layout: Layout, sequences: Sequences) -> None:
        self._layout = layout
        self._sequences = sequences
        self._thread = WorkerThreads("commit", 1)
        self._syncs = WorkerThreads("fsync", SYNC_THREADS)
        self._dirty: list[Journal] = []
        self._callbacks: list[tuple[Journal, Callable[[], None]]] = []
        self._waiting = 0
        self._idle: asyncio.Future[None] | None = None
        """Ends once nothing is written any more; None: nothing is."""

    def append(
        self, journal: Journal, line: bytes, on_durable: Callable[[], None]
    ) -> "asyncio.Future[None]":
        """Append ``line``; ``on_durable`` is called, in global order, once it is safe on disk.

        The future is the caller's own: to cancel it withdraws nothing. It raises ``Unavailable``
        when the line could not be made safe. Whether it is on disk all the same is then unknown,
        as after any failed write.
        """
        if journal.error:
            raise journal.error
        if self._waiting and self._waiting + len(line) > MAX_PENDING_BYTES:
            raise Unavailable("The disk does not keep up", "Try again in a moment.")
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        if not journal.lines:
            self._dirty.append(journal)
        journal.lines.append(line)
        journal.waiting.append(done)
        self._callbacks.append((journal, on_durable))
        self._waiting += len(line)
        if self._idle is None:
            self._idle = loop.create_future()
            loop.call_soon(self._begin_batch)  # so that all of this pass are of one batch
        return done

    async def close(self) -> None:
        """Wait until everything that was appended is settled, and end the threads."""
        while self._idle:
            await asyncio.shield(self._idle)
        self._thread.close()
        self._syncs.close()

    async def ping(self) -> None:
        """Return once the disk thread has responded."""
        loop, responded = asyncio.get_running_loop(), asyncio.Event()
        self._thread.start(lambda: loop.call_soon_threadsafe(responded.set))
        await responded.wait()

    def _begin_batch(self) -> None:
        """Write what is waiting; ``_end_batch`` is called once it is on disk, and goes on.

        Callbacks instead of a task: each append waits two passes of the loop less.
        """
        batch = _Batch(
            [_Job(journal, b"".join(journal.lines)) for journal in self._dirty],
            self._callbacks,
            self._sequences.get_marks_to_reserve(),
        )
        self._dirty, self._callbacks, self._waiting = [], [], 0
        for job in batch.jobs:
            job.journal.lines = []
            job.journal.writing, job.journal.waiting = job.journal.waiting, []
        try:
            self._thread.start(partial(self._write_batch, batch, asyncio.get_running_loop()))
        except RuntimeError as error:  # after close, or the system allows no thread
            log.error("the disk thread failed: %s", error)
            for job in batch.jobs:
                job.error = Unavailable(f"Nothing can be written: {error}", "Try again.")
            self._end_batch(batch, None)

    def _end_batch(self, batch: "_Batch", error: Exception | None) -> None:
        if error is not None:  # no caller may wait forever
            log.error("the disk thread failed", exc_info=error)
            for job in batch.jobs:
                job.error, job.dead = Unavailable("The disk thread failed"), True
        if batch.marks and not all(job.error for job in batch.jobs):
            self._sequences.mark_reserved(batch.marks)
        self._finish(batch.jobs, batch.callbacks)
        if self._dirty:
            self._begin_batch()
        elif self._idle:
            self._idle.set_result(None)
            self._idle = None

    def _finish(
        self, jobs: list[_Job], callbacks: list[tuple[Journal, Callable[[], None]]]
    ) -> None:
        for job in jobs:
            job.journal.error = job.error
            job.journal.dead = job.dead
        for journal, on_durable in callbacks:
            if journal.error is None:
                _call(on_durable)
        for job in jobs:
            journal = job.journal
            if job.error:
                self._fail(journal, job.error)
                continue
            journal.size += len(job.data)
            journal.fresh = False
            written, journal.writing = journal.writing, []
            for future in written:
                if not future.done():
                    future.set_result(None)

    def _fail(self, journal: Journal, error: Unavailable) -> None:
        """Tell all who wait for a journal, also those whose lines were not tried yet."""
        log.error("%s", error.message)
        if journal.lines:
            self._dirty.remove(journal)
            self._callbacks = [row for row in self._callbacks if row[0] is not journal]
            self._waiting -= sum(map(len, journal.lines))
        futures = journal.writing + journal.waiting
        journal.lines, journal.writing, journal.waiting = [], [], []
        if journal.on_failure:
            journal.on_failure()
        for future in futures:
            if not future.done():
                future.set_exception(error)
                future.exception()  # retrieved: asyncio logs no error

    def _write_batch(self, batch: _Batch, loop: asyncio.AbstractEventLoop) -> None:
        """Write one batch, on the disk thread, and have the loop end it."""
        error = None
        try:
            self._commit(batch.jobs, batch.marks)
        except Exception as failed:  # a thread boundary: all callers get it
            error = failed
        loop.call_soon_threadsafe(self._end_batch, batch, error)

    def _commit(self, jobs: list[_Job], marks: HighWaterMarks | None) -> None:
        """Write what is to be written together; each job gets its own error."""
        if marks:
            try:
                replace_document(self._layout.ids, encode_checksummed(marks))
            except AgentdError as error:
                for job in jobs:
                    job.error = Unavailable(error.message, error.details)
                return
        opened = [(job, fd) for job in jobs if (fd := _write(job)) is not None]
        self._syncs.run_on_each(lambda pair: _sync(*pair), opened)
        self._sync_new(jobs)

    def _sync_new(self, jobs: list[_Job]) -> None:
        """Sync the folder that names new files: without it they are not safe."""
        new = [job for job in jobs if job.journal.fresh and not job.error]
        try:
            if new:
                sync_folder(self._layout.chats)
        except OSError as error:
            for job in new:
                job.error, job.dead = _make_error(self._layout.chats, error), True


def open_journal_file(layout: Layout, chat_id: int) -> int:
    """Open a chat's journal for reading; raises ``OSError``."""
    return open_journal_at(layout.get_journal_path(chat_id))


def open_journal_at(path: str) -> int:
    """Open the journal at a path for reading; raises ``OSError``."""
    return os.open(path, _READ)


def _call(on_durable: Callable[[], None]) -> None:
    try:
        on_durable()
    except Exception:  # a task boundary: the others' lines are safe too, and they wait
        log.exception("the callback of a durable line failed")


def _write(job: _Job) -> int | None:
    """Append the batch. Return the open file, or None after an error."""
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
        job.error = _make_error(journal.path, error)
        if fd is not None:
            job.dead = not _cut_back(fd, journal.size)
            os.close(fd)
            if journal.fresh and not job.dead:
                _remove_empty(journal.path)
        return None


def _make_error(path: str, error: OSError) -> Unavailable:
    explained = explain_os_error(path, "write", error)
    return Unavailable(explained.message, explained.details)


def _refuse_foreign(job: _Job, fd: int) -> None:
    """Close a journal that another program wrote to, and leave its bytes as they are."""
    os.close(fd)
    path = job.journal.path
    job.error = Unavailable(
        f"{path} was changed by another program", "Restart agentd, which reads it again."
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


def _remove_empty(path: str) -> None:
    """Remove a new journal and its folder again, since nothing came of it; if not, the next start.

    On a full disk each further try would take space for another folder.
    """
    with suppress(OSError):
        os.unlink(path)
        os.rmdir(os.path.dirname(path))


def _sync(job: _Job, fd: int) -> None:
    try:
        os.fdatasync(fd)
        if job.journal.fresh:
            sync_folder(os.path.dirname(job.journal.path))
    except OSError as error:
        job.error, job.dead = _make_error(job.journal.path, error), True
    finally:
        os.close(fd)
