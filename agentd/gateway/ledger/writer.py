"""Appends to the ledger's files: one thread writes groups of lines, another one syncs them.

A caller is notified as soon as its line is written: from then on it survives the death of this
process. Surviving a power cut takes the sync that follows within ``SYNC_DELAY``; callers that pass
``safe`` are notified only after it. Only files with such callers are synced at once, because
syncing two files takes twice as long as one.

While one group is being written, the next one is gathered on the event loop: handing work to a
thread costs the loop more than writing a line.

What a failed write left behind is truncated (``open_files``). After a failed sync (the kernel may
have dropped the data and reports that only once), or after a bug, the writer rejects everything
until the daemon is restarted.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeAlias, TypeVar

from agentd.core.errors import AgentdError, Unavailable
from agentd.gateway.ledger.open_files import OpenFile, OpenFiles
from agentd.storage.document import explain_os_error, sync_folder
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_WAITING_BYTES = 8 * 1024 * 1024
"""Bytes that may wait for the disk before more are rejected."""
MAX_GROUP_LINES = 4096
"""Maximum number of lines in one group."""

SYNC_DELAY = 0.05
"""Seconds by which a sync is delayed when no caller waits, so that one serves many lines."""


@dataclass(frozen=True, slots=True)
class _PendingLine:
    name: str
    data: bytes
    done: "asyncio.Future[None]"
    safe: bool


_Group: TypeAlias = list[_PendingLine]


class _WriteResult(NamedTuple):
    """The futures of some lines, and why the lines were not written; no error: they were."""

    futures: "list[asyncio.Future[None]]"
    error: Unavailable | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    do: Callable[[], Any]
    done: "Future[Any]"


@dataclass(slots=True)
class _SyncRequest:
    """A file to be synced, the futures that wait for it, and whether to close it afterwards."""

    file: OpenFile
    waiters: "list[asyncio.Future[None]]"
    closed: bool = False


@dataclass(frozen=True, slots=True)
class _Removal:
    """A file to be deleted once everything written before is synced."""

    path: str


class LedgerWriter:
    """Appends lines to files by name. Created and used on the event loop."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._loop = asyncio.get_running_loop()
        self._next_group: _Group = []
        self._is_writing = False
        """True if a group is being written or handed over."""
        self._queue: SimpleQueue[_Group | _Job] = SimpleQueue()
        self._unsynced: SimpleQueue[_SyncRequest | _Removal | None] = SimpleQueue()
        self._waiting_bytes = 0
        self._files = OpenFiles(
            layout, lambda file: self._unsynced.put(_SyncRequest(file, [], True))
        )
        self._fatal: Unavailable | None = None
        self._is_stopping = False
        self.problem = ""
        """Why the last line could not be written; empty if it was written."""
        self._threads = [
            Thread(target=work, name=name, daemon=True)
            for name, work in (("ledger", self._write_all), ("ledger sync", self._sync_all))
        ]
        for thread in self._threads:
            thread.start()

    def append(self, name: str, line: bytes, *, safe: bool = False) -> "asyncio.Future[None]":
        """Append a line to a file by its name: a day, or a file of pending calls.

        The future is done when the line is written, or with ``safe``, synced. Raises
        ``Unavailable``, at once or through the future, if it was not; it is then not in the file,
        unless a sync failed. Cancelling the future does not withdraw the line.
        """
        if self._fatal:
            raise self._fatal
        if self._waiting_bytes and self._waiting_bytes + len(line) > MAX_WAITING_BYTES:
            raise Unavailable("The disk is too slow for the requests", "Try again in a moment.")
        done = self._loop.create_future()
        self._waiting_bytes += len(line)
        self._next_group.append(_PendingLine(name, line, done, safe))
        if not self._is_writing:
            self._is_writing = True
            self._loop.call_soon(self._hand_over)
        return done

    async def run_between_groups(self, do: Callable[[], T]) -> T:
        """Run a function on the writing thread between two groups; raises what it raises."""
        done: Future[T] = Future()
        self._hand_over()
        self._queue.put(_Job(do, done))
        return await asyncio.wrap_future(done)

    async def probe(self, day: str) -> None:
        """Return if lines can be appended to a day's file. ``Unavailable``, ``ConfigError``."""

        def probe_day() -> None:
            if self._fatal:
                raise self._fatal
            self._files.probe(day)

        await self.run_between_groups(probe_day)
        self.problem = ""

    def get_size(self, day: str) -> int | None:
        """Return the complete bytes of a day's file; None if it is not open. From any thread."""
        return self._files.get_size(day)

    def get_sizes(self) -> dict[str, int]:
        """Return the same for each open file. Only on the writing thread."""
        return self._files.get_sizes()

    def release_file(self, day: str) -> None:
        """Close a day's file, which was replaced or removed. Only on the writing thread."""
        self._files.release(day)

    def delete_file(self, name: str) -> None:
        """Close and delete a file in the background, once all lines before are synced."""

        def give_up() -> None:
            self._files.release(name)
            self._unsynced.put(_Removal(self._layout.get_ledger_day_path(name)))

        self._hand_over()
        self._queue.put(_Job(give_up, Future()))

    async def close(self) -> None:
        """Write and sync what is waiting, then stop the threads."""
        await self.run_between_groups(self._stop)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _hand_over(self) -> None:
        """Give the gathered lines to the thread, which calls ``_resolve`` when it is done."""
        group, self._next_group = self._next_group, []
        self._is_writing = bool(group)
        for start in range(0, len(group), MAX_GROUP_LINES):
            self._queue.put(group[start : start + MAX_GROUP_LINES])

    # The methods below run on the writing thread.

    def _stop(self) -> None:
        self._is_stopping = True

    def _write_all(self) -> None:
        while not self._is_stopping:
            item = self._queue.get()
            if isinstance(item, _Job):
                self._run_job(item)
            else:
                self._write_group(item)
        self._files.release_all()
        self._unsynced.put(None)

    def _run_job(self, job: _Job) -> None:
        if not job.done.set_running_or_notify_cancel():
            return
        try:
            job.done.set_result(job.do())
        except OSError as error:
            job.done.set_exception(_to_unavailable(self._layout.ledger, error))
        except Exception as error:  # a thread boundary: the job's caller gets it
            job.done.set_exception(error)

    def _fail(self, bug: Exception) -> Unavailable:
        """Reject all further lines: how far the last ones got is unknown."""
        log.critical("a thread of the ledger failed", exc_info=bug)
        self._fatal = Unavailable("The ledger's thread failed; restart agentd, see its log")
        return self._fatal

    def _write_group(self, group: _Group) -> None:
        """Write each file's lines, then notify the loop of all of them at once."""
        by_name: dict[str, _Group] = {}
        for line in group:
            by_name.setdefault(line.name, []).append(line)
        written = [self._write_lines(name, lines) for name, lines in by_name.items()]
        self._publish(written, sum(len(line.data) for line in group))

    def _write_lines(self, name: str, lines: _Group) -> _WriteResult:
        """Append to one file; return the futures to resolve now."""
        error = self._fatal
        try:
            if not error:
                file = self._files.append(name, b"".join([line.data for line in lines]))
        except AgentdError as refused:
            error = Unavailable(refused.message, refused.details)
        except OSError as failed:
            error = _to_unavailable(self._layout.get_ledger_day_path(name), failed)
        except Exception as bug:  # a thread boundary: no caller may wait forever
            error = self._fail(bug)
        if error:
            return _WriteResult([line.done for line in lines], error)
        safe = [line.done for line in lines if line.safe]
        if safe or not file.sync_due:  # else the sync that is due covers these lines
            file.sync_due = True
            self._unsynced.put(_SyncRequest(file, safe))
        return _WriteResult([line.done for line in lines if not line.safe])

    def _publish(self, results: "Sequence[_WriteResult]", size: int) -> None:
        """Resolve the futures of a whole group on the event loop; ``size`` in bytes."""
        self._loop.call_soon_threadsafe(self._resolve, results, size)

    def _resolve(self, results: "Sequence[_WriteResult]", size: int) -> None:
        self._waiting_bytes -= size
        errors = [one.error for one in results if one.error]
        why = errors[0] if errors else self._fatal
        self.problem = why.message if why else ""
        if size:
            self._hand_over()
        for error in errors:
            log.error("%s", error.message)
        for one in results:
            for future in one.futures:
                if future.done():  # its request was cancelled
                    continue
                if one.error:
                    future.set_exception(one.error)
                else:
                    future.set_result(None)

    # The methods below run on the syncing thread.

    def _sync_all(self) -> None:
        late: list[_SyncRequest | _Removal] = []
        """Syncs that no caller waits for, delayed until ``due``."""
        due = inf
        while True:
            group, over = self._take_until(due)
            now = [one for one in group if isinstance(one, _SyncRequest) and one.waiters]
            late += [one for one in group if not (isinstance(one, _SyncRequest) and one.waiters)]
            if late and due == inf:
                due = time.monotonic() + SYNC_DELAY
            try:
                if over or time.monotonic() >= due:
                    self._sync_group([*late, *now])
                    late, due = [], inf
                else:
                    self._sync_group(now)
            except Exception as bug:  # a thread boundary: no caller may wait forever
                waiting = [future for one in now for future in one.waiters]
                self._publish([_WriteResult(waiting, self._fail(bug))], 0)
            if over:
                return

    def _take_until(self, due: float) -> "tuple[list[_SyncRequest | _Removal], bool]":
        """Wait for sync requests; return them, and whether the writer has stopped."""
        group: list[_SyncRequest | _Removal] = []
        try:
            wait = None if due == inf else max(due - time.monotonic(), 0)
            item = self._unsynced.get(timeout=wait)
            while item is not None:
                group.append(item)
                item = self._unsynced.get_nowait()
        except Empty:
            return group, False
        return group, True

    def _sync_group(self, group: "Sequence[_SyncRequest | _Removal]") -> None:
        synced = [one for one in group if isinstance(one, _SyncRequest)]
        error: Unavailable | None = None
        for file in dict.fromkeys(one.file for one in synced):
            file.sync_due = False  # before the sync: lines appended from now on may miss it
            try:
                os.fdatasync(file.fd)
                if file.is_new:
                    sync_folder(self._layout.ledger)
                    file.is_new = False
            except OSError as failed:
                error = self._fatal = _to_unavailable(file.path, failed)
        waiting = [future for one in synced for future in one.waiters]
        if waiting or error:
            self._publish([_WriteResult(waiting, error)], 0)
        for done in group:
            if isinstance(done, _Removal):
                if not self._fatal:
                    with suppress(OSError):  # if it stays, the next start reads it without effect
                        os.unlink(done.path)
            elif done.closed:
                os.close(done.file.fd)


def _to_unavailable(path: str, error: OSError) -> Unavailable:
    explained = explain_os_error(path, "write", error)
    return Unavailable(explained.message, explained.details)
