"""Appends to the ledger: one thread that writes, in groups, and one that syncs right behind it.

Whoever appends is told as soon as the line is written: from then on it survives the end of this
process, however sudden. Surviving the end of the machine takes the sync that follows within
``LAG``; whoever wants it ``safe`` is told only after that. Only those files are synced at once of
which that is wanted: two at a time take twice as long as one.

While a group is being written the next one gathers on the loop: each hand-over to a thread costs
the loop more than a line's writing.

After an error nothing is guessed. What a failed write left is cut off again (``ledger_open``).
After a failed sync (the kernel may have dropped the data and will not say so twice), or a bug,
nothing more is taken until the daemon has restarted.
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

from agentd.disk.document import sync_folder, trouble
from agentd.disk.layout import Layout
from agentd.disk.ledger_open import OpenFile, OpenFiles
from agentd.errors import AgentdError, Unavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

WAITING_LIMIT = 8 * 1024 * 1024
"""Bytes that may wait for the disk before more are refused."""
GROUP = 4096
"""Lines that are written at once, at most."""

LAG = 0.05
"""Seconds by which the sync of lines that nobody waits for is late: it is one for many."""


@dataclass(frozen=True, slots=True)
class _Line:
    name: str
    data: bytes
    told: "asyncio.Future[None]"
    safe: bool


_Group: TypeAlias = list[_Line]


class _Told(NamedTuple):
    """Whoever waits, and why their lines are not written; without an error they are."""

    futures: "list[asyncio.Future[None]]"
    error: Unavailable | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    do: Callable[[], Any]
    done: "Future[Any]"


@dataclass(slots=True)
class _Synced:
    """A file to be synced, and whoever waits for that; where ``closed``, it is closed then."""

    file: OpenFile
    told: "list[asyncio.Future[None]]"
    closed: bool = False


@dataclass(frozen=True, slots=True)
class _Removal:
    """A file to be deleted, once everything that was written before is synced."""

    path: str


class Writer:
    """Brings lines to the files of their days. Made and used on the loop."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._loop = asyncio.get_running_loop()
        self._gathered: _Group = []
        self._writes = False
        """Whether a group is with the thread, or on its way there."""
        self._queue: SimpleQueue[_Group | _Job] = SimpleQueue()
        self._unsynced: SimpleQueue[_Synced | _Removal | None] = SimpleQueue()
        self._waiting = 0
        self._files = OpenFiles(layout, lambda file: self._unsynced.put(_Synced(file, [], True)))
        self._dead: Unavailable | None = None
        self._over = False
        self.trouble = ""
        """Why the last line could not be written; empty: it was."""
        self._threads = [
            Thread(target=work, name=name, daemon=True)
            for name, work in (("ledger", self._write_all), ("ledger sync", self._sync_all))
        ]
        for thread in self._threads:
            thread.start()

    def append(self, name: str, line: bytes, *, safe: bool = False) -> "asyncio.Future[None]":
        """Have a line appended to a file by its name, that of a day or of marks.

        Done when it is written, or ``safe`` on the disk where that is wanted. Raises
        ``Unavailable``, at once or later, when it was not; then it is not in the file, unless a
        sync failed. Who stops waiting does not stop the line.
        """
        if self._dead:
            raise self._dead
        if self._waiting and self._waiting + len(line) > WAITING_LIMIT:
            raise Unavailable("The disk does not keep up", "Try again in a moment.")
        told = self._loop.create_future()
        self._waiting += len(line)
        self._gathered.append(_Line(name, line, told, safe))
        if not self._writes:
            self._writes = True
            self._loop.call_soon(self._hand_over)
        return told

    async def between(self, do: Callable[[], T]) -> T:
        """Have something done on the writing thread, between two groups; raises as it does."""
        done: Future[T] = Future()
        self._hand_over()
        self._queue.put(_Job(do, done))
        return await asyncio.wrap_future(done)

    async def probe(self, day: str) -> None:
        """Return if a day's lines would be taken now. ``Unavailable``, ``Misconfigured``."""

        def look() -> None:
            if self._dead:
                raise self._dead
            self._files.probe(day)

        await self.between(look)
        self.trouble = ""

    def size(self, day: str) -> int | None:
        """Bytes of a day's file that are whole; None where it was not written to. Any thread."""
        return self._files.size(day)

    def sizes(self) -> dict[str, int]:
        """The same of each day that was written to last. Only on the writing thread."""
        return self._files.sizes()

    def forget(self, day: str) -> None:
        """Let go of a day's file, which is replaced or removed. Only on the writing thread."""
        self._files.forget(day)

    def remove(self, name: str) -> None:
        """Have a file closed and deleted once all lines before are safe; nobody waits for it."""

        def give_up() -> None:
            self._files.forget(name)
            self._unsynced.put(_Removal(self._layout.ledger_day(name)))

        self._hand_over()
        self._queue.put(_Job(give_up, Future()))

    async def close(self) -> None:
        """Write and sync what waits, and end the threads."""
        await self.between(self._end)
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
        while not self._over:
            item = self._queue.get()
            if isinstance(item, _Job):
                self._carry_out(item)
            else:
                self._write_group(item)
        self._files.forget_all()
        self._unsynced.put(None)

    def _carry_out(self, job: _Job) -> None:
        if not job.done.set_running_or_notify_cancel():
            return
        try:
            job.done.set_result(job.do())
        except OSError as error:
            job.done.set_exception(_failure(self._layout.ledger, error))
        except Exception as error:  # it is told to who asked, and is no matter of the lines
            job.done.set_exception(error)

    def _failed(self, bug: Exception) -> Unavailable:
        """Take no more lines: what was done of the last ones is not known."""
        log.critical("the ledger's thread failed", exc_info=bug)
        self._dead = Unavailable("The ledger's thread failed; restart agentd, its log tells why")
        return self._dead

    def _write_group(self, group: _Group) -> None:
        """Write to each file its lines, and tell the loop about all of them in one hop."""
        by_name: dict[str, _Group] = {}
        for line in group:
            by_name.setdefault(line.name, []).append(line)
        written = [self._write_lines(name, lines) for name, lines in by_name.items()]
        self._tell(written, sum(len(line.data) for line in group))

    def _write_lines(self, name: str, lines: _Group) -> _Told:
        """Append to one file; what is to be told now, and to whom."""
        error = self._dead
        try:
            if not error:
                file = self._files.append(name, b"".join([line.data for line in lines]))
        except AgentdError as refused:
            error = Unavailable(refused.message, refused.details)
        except OSError as failed:
            error = _failure(self._layout.ledger_day(name), failed)
        except Exception as bug:  # nobody may wait for ever
            error = self._failed(bug)
        if error:
            return _Told([line.told for line in lines], error)
        safe = [line.told for line in lines if line.safe]
        if safe or not file.sync_due:  # it is not woken for what it will sync anyhow
            file.sync_due = True
            self._unsynced.put(_Synced(file, safe))
        return _Told([line.told for line in lines if not line.safe])

    def _tell(self, told: "Sequence[_Told]", size: int) -> None:
        """One hop to the loop for a whole group, of so many bytes."""
        self._loop.call_soon_threadsafe(self._settle, told, size)

    def _settle(self, told: "Sequence[_Told]", size: int) -> None:
        self._waiting -= size
        errors = [one.error for one in told if one.error]
        why = errors[0] if errors else self._dead
        self.trouble = why.message if why else ""
        if size:
            self._hand_over()
        for error in errors:
            log.error("%s", error.message)
        for one in told:
            for future in one.futures:
                if future.done():  # its request was cancelled
                    continue
                if one.error:
                    future.set_exception(one.error)
                else:
                    future.set_result(None)

    # What follows is on the syncing thread.

    def _sync_all(self) -> None:
        late: list[_Synced | _Removal] = []
        """What nobody waits for, until it is ``due``."""
        due = inf
        while True:
            group, over = self._gathered_until(due)
            now = [one for one in group if isinstance(one, _Synced) and one.told]
            late += [one for one in group if not (isinstance(one, _Synced) and one.told)]
            if late and due == inf:
                due = time.monotonic() + LAG
            try:
                if over or time.monotonic() >= due:
                    self._sync_group([*late, *now])
                    late, due = [], inf
                else:
                    self._sync_group(now)
            except Exception as bug:  # nobody may wait for ever
                waiting = [told for one in now for told in one.told]
                self._tell([_Told(waiting, self._failed(bug))], 0)
            if over:
                return

    def _gathered_until(self, due: float) -> "tuple[list[_Synced | _Removal], bool]":
        """Wait for what is to be synced; return it, and whether nothing follows."""
        group: list[_Synced | _Removal] = []
        try:
            wait = None if due == inf else max(due - time.monotonic(), 0)
            item = self._unsynced.get(timeout=wait)
            while item is not None:
                group.append(item)
                item = self._unsynced.get_nowait()
        except Empty:
            return group, False
        return group, True

    def _sync_group(self, group: "Sequence[_Synced | _Removal]") -> None:
        synced = [one for one in group if isinstance(one, _Synced)]
        error: Unavailable | None = None
        for file in dict.fromkeys(one.file for one in synced):
            file.sync_due = False  # before: what is appended from now on may come too late
            try:
                os.fdatasync(file.fd)
                if file.fresh:
                    sync_folder(self._layout.ledger)
                    file.fresh = False
            except OSError as failed:
                error = self._dead = _failure(file.path, failed)
        told = [future for one in synced for future in one.told]
        if told or error:
            self._tell([_Told(told, error)], 0)
        for done in group:
            if isinstance(done, _Removal):
                if not self._dead:
                    with suppress(OSError):  # a start reads it once more, to no effect
                        os.unlink(done.path)
            elif done.closed:
                os.close(done.file.fd)


def _failure(path: str, error: OSError) -> Unavailable:
    told = trouble(path, "write", error)
    return Unavailable(told.message, told.details)
