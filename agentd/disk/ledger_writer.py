"""Appends to the ledger: one thread that writes, in groups, and one that syncs right behind it.

Whoever appends is told as soon as the line is written: from then on it survives the end of this
process, however sudden. Surviving the end of the machine takes the sync that follows within
``LAG``; with ``sync`` they are told only after that. It is asked for each group, so it may change.

While a group is being written the next one gathers on the loop: each hand-over to a thread costs
the loop more than a line's writing.

After an error nothing is guessed. What a failed write left is cut off again; while that cannot be
done, that day's file takes nothing. After a failed sync (the kernel may have dropped the data and
will not say so twice) nothing more is taken until the daemon has restarted.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeAlias, TypeVar

from agentd.disk.document import make_folder, sync_folder, trouble
from agentd.disk.layout import Layout
from agentd.disk.ledger_file import mend
from agentd.errors import AgentdError, Unavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

WAITING_LIMIT = 8 * 1024 * 1024
"""Bytes that may wait for the disk before more are refused."""
GROUP = 4096
"""Lines that are written at once, at most."""

LAG = 0.05
"""Seconds by which the sync of lines that nobody waits for is late: it is one for many."""

OPEN = 3
"""Days whose files are open at once: yesterday's last requests may end today."""

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class _Line:
    day: str
    data: bytes
    told: "asyncio.Future[None]"


_Group: TypeAlias = list[_Line]


@dataclass(frozen=True, slots=True)
class _Job:
    do: Callable[[], None]


@dataclass(eq=False, slots=True)
class _File:
    """A day's file, open for appending."""

    path: str
    fd: int
    inode: int
    size: int
    """Bytes that were appended as a whole."""
    fresh: bool = True
    """Its name may not be safe yet."""

    def untouched(self) -> bool:
        """Whether it is still the file of that name, and nobody else wrote to it."""
        try:
            info = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return False
        return info.st_ino == self.inode and info.st_size == self.size


@dataclass(slots=True)
class _Synced:
    """A file to be synced, and whoever waits for that; where ``closed``, it is closed then."""

    file: _File
    told: "list[asyncio.Future[None]]"
    closed: bool = False


class _Files:
    """The days' files that are open for appending. Of the writing thread."""

    def __init__(self, layout: Layout, closed: Callable[[_File], None]) -> None:
        self._layout = layout
        self._closed = closed
        self._open: dict[str, _File] = {}
        self._uncut: dict[str, int] = {}
        """Files with a rest of a failed write behind this byte."""

    def append(self, day: str, data: bytes) -> _File:
        """Write to a day's file; what fails leaves nothing there, or the file takes no more."""
        file = self._file(day)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(file.fd, view) :]
        except OSError:
            self._uncut[day] = file.size
            self._cut(day)
            raise
        file.size += len(data)
        return file

    def size(self, day: str) -> int | None:
        """Bytes of an open file that were appended as a whole. Any thread."""
        file = self._open.get(day)
        return file.size if file else None

    def sizes(self) -> dict[str, int]:
        """The same of each open file. On the writing thread."""
        return {day: file.size for day, file in self._open.items()}

    def forget(self, day: str) -> None:
        """Have a day's file closed, if it is open."""
        file = self._open.pop(day, None)
        if file:
            self._closed(file)

    def forget_all(self) -> None:
        """Have all closed."""
        for day in list(self._open):
            self.forget(day)

    def _cut(self, day: str) -> None:
        """Take off what a failed write left."""
        with suppress(OSError):
            os.ftruncate(self._open[day].fd, self._uncut[day])
            del self._uncut[day]

    def _file(self, day: str) -> _File:
        """The day's file, opened and mended where it is not open or was touched by others."""
        file = self._open.get(day)
        if day in self._uncut:
            self._cut(day)
            if day in self._uncut:
                raise Unavailable(
                    f"{self._layout.ledger_day(day)} cannot be cut to its whole lines"
                )
        if file and file.untouched():
            return file
        if file:
            log.error("%s was changed by another program; it is read anew", file.path)
            self.forget(day)
        for older in sorted(self._open.keys() - self._uncut.keys())[: -OPEN + 1]:
            self.forget(older)
        self._open[day] = file = self._opened(day)
        return file

    def _opened(self, day: str) -> _File:
        make_folder(self._layout.ledger)
        path = self._layout.ledger_day(day)
        fd = os.open(path, _FLAGS, 0o600)
        try:
            size = mend(fd, path)
            return _File(path, fd, os.fstat(fd).st_ino, size)
        except BaseException:
            os.close(fd)
            raise


class Writer:
    """Brings lines to the files of their days. Made and used on the loop."""

    def __init__(self, layout: Layout, sync: Callable[[], bool] = lambda: False) -> None:
        self._layout = layout
        self._sync = sync
        self._loop = asyncio.get_running_loop()
        self._gathered: _Group = []
        self._writes = False
        """Whether a group is with the thread, or on its way there."""
        self._queue: SimpleQueue[_Group | _Job] = SimpleQueue()
        self._unsynced: SimpleQueue[_Synced | None] = SimpleQueue()
        self._waiting = 0
        self._files = _Files(layout, lambda file: self._unsynced.put(_Synced(file, [], True)))
        self._dead: Unavailable | None = None
        self._over = False
        self._threads = [
            Thread(target=work, name=name, daemon=True)
            for name, work in (("ledger", self._write_all), ("ledger sync", self._sync_all))
        ]
        for thread in self._threads:
            thread.start()

    def append(self, day: str, line: bytes) -> "asyncio.Future[None]":
        """Have a line appended; done when it is written (with ``sync``: safe).

        Raises ``Unavailable``, at once or later, when it was not; then it is not in the file,
        unless a sync failed. Who stops waiting does not stop the line.
        """
        if self._dead:
            raise self._dead
        if self._waiting and self._waiting + len(line) > WAITING_LIMIT:
            raise Unavailable("The disk does not keep up", "Try again in a moment.")
        told = self._loop.create_future()
        self._waiting += len(line)
        self._gathered.append(_Line(day, line, told))
        if not self._writes:
            self._writes = True
            self._loop.call_soon(self._hand_over)
        return told

    async def between(self, do: Callable[[], T]) -> T:
        """Have something done on the writing thread, between two groups."""
        done: Future[T] = Future()

        def work() -> None:
            try:
                done.set_result(do())
            except AgentdError as error:
                done.set_exception(error)
            except OSError as error:
                done.set_exception(trouble(self._layout.ledger, "write", error))

        self._hand_over()
        self._queue.put(_Job(work))
        return await asyncio.wrap_future(done)

    def size(self, day: str) -> int | None:
        """Bytes of a day's file that are whole; None where it was not written to. Any thread."""
        return self._files.size(day)

    def sizes(self) -> dict[str, int]:
        """The same of each day that was written to last. Only on the writing thread."""
        return self._files.sizes()

    def forget(self, day: str) -> None:
        """Let go of a day's file, which is replaced or removed. Only on the writing thread."""
        self._files.forget(day)

    async def close(self) -> None:
        """Write and sync what waits, and end the threads."""
        self._hand_over()
        self._queue.put(_Job(self._end))
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _hand_over(self) -> None:
        """Give what gathered to the thread, which calls ``_written`` when it is done."""
        group, self._gathered = self._gathered, []
        self._writes = bool(group)
        for start in range(0, len(group), GROUP):
            self._queue.put(group[start : start + GROUP])

    # What follows is on the writing thread.

    def _end(self) -> None:
        self._over = True

    def _write_all(self) -> None:
        group: _Group = []
        try:
            while not self._over:
                item = self._queue.get()
                if isinstance(item, _Job):
                    item.do()
                    continue
                group = item
                for day in dict.fromkeys(line.day for line in group):
                    self._write_group(day, [line for line in group if line.day == day])
        except BaseException:  # a bug: nobody may wait for ever
            self._dead = Unavailable("The ledger's thread failed")
            self._tell([line.told for line in group], 0, self._dead)
            raise
        finally:
            self._files.forget_all()
            self._unsynced.put(None)

    def _write_group(self, day: str, lines: list[_Line]) -> None:
        data = b"".join(line.data for line in lines)
        told = [line.told for line in lines]
        error = self._dead
        try:
            if not error:
                file = self._files.append(day, data)
        except AgentdError as refused:
            error = Unavailable(refused.message, refused.details)
        except OSError as failed:
            error = _failure(self._layout.ledger_day(day), failed)
        if error:
            self._tell(told, len(data), error)
            return
        sync = self._sync()
        self._tell([] if sync else told, len(data), None)
        self._unsynced.put(_Synced(file, told if sync else []))

    def _tell(
        self, told: "Sequence[asyncio.Future[None]]", size: int, error: Unavailable | None
    ) -> None:
        """One hop to the loop for a whole group."""
        self._loop.call_soon_threadsafe(self._settle, told, size, error)

    def _settle(
        self, told: "Sequence[asyncio.Future[None]]", size: int, error: Unavailable | None
    ) -> None:
        self._waiting -= size
        if size:
            self._hand_over()
        if error:
            log.error("%s", error.message)
        for future in told:
            if future.done():  # its request was cancelled
                continue
            if error:
                future.set_exception(error)
            else:
                future.set_result(None)

    # What follows is on the syncing thread.

    def _sync_all(self) -> None:
        while (first := self._unsynced.get()) is not None:
            group, over = [first], False
            if not (first.told or first.closed):
                time.sleep(LAG)
            with suppress(Empty):
                while more := self._unsynced.get_nowait():
                    group.append(more)
                over = True
            self._sync_group(group)
            if over:
                return

    def _sync_group(self, group: list[_Synced]) -> None:
        error: Unavailable | None = None
        for file in dict.fromkeys(one.file for one in group):
            try:
                os.fdatasync(file.fd)
                if file.fresh:
                    sync_folder(self._layout.ledger)
                    file.fresh = False
            except OSError as failed:
                error = self._dead = _failure(file.path, failed)
        told = [future for one in group for future in one.told]
        if told or error:
            self._tell(told, 0, error)
        for one in group:
            if one.closed:
                os.close(one.file.fd)


def _failure(path: str, error: OSError) -> Unavailable:
    told = trouble(path, "write", error)
    return Unavailable(told.message, told.details)
