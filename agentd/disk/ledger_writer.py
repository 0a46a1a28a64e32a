"""Appends to the ledger: one thread that writes, in groups, and one that syncs right behind it.

Whoever appends is told as soon as the line is written: from then on it survives the end of this
process, however sudden. Surviving the end of the machine takes the sync that follows within
``LAG``; with ``sync`` they are told only after that. It is asked for each group, so it may change.

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
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeAlias, TypeVar

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
    day: str
    data: bytes
    told: "asyncio.Future[None]"


_Group: TypeAlias = list[_Line]


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
                continue
            for day in dict.fromkeys(line.day for line in item):
                group = [line for line in item if line.day == day]
                try:
                    self._write_group(day, group)
                except Exception as bug:  # nobody may wait for ever
                    told = [line.told for line in group]
                    self._tell(told, sum(len(line.data) for line in group), self._failed(bug))
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
        why = error or self._dead
        self.trouble = why.message if why else ""
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
            try:
                self._sync_group(group)
            except Exception as bug:  # nobody may wait for ever
                told = [future for one in group for future in one.told]
                self._tell(told, 0, self._failed(bug))
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
