"""The ledger's files that are open for appending: what a failed write left is cut off again.

While that cannot be done, that day's file takes nothing.
"""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from os.path import join

from agentd.disk.document import make_folder, write_all
from agentd.disk.layout import Layout
from agentd.disk.ledger_file import mend
from agentd.errors import Unavailable

log = logging.getLogger(__name__)

PROBE = 64 * 1024
"""Bytes that must fit on the disk before lines are taken again that it did not take."""

OPEN = 4
"""Files that are open at once: the marks', and days', for yesterday's last requests end today."""

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(eq=False, slots=True)
class OpenFile:
    """A day's file, open for appending."""

    path: str
    fd: int
    inode: int
    size: int
    """Bytes that were appended as a whole."""
    fresh: bool = True
    """Its name may not be safe yet."""
    sync_due: bool = False
    """The syncing thread knows that lines were appended since the last sync began."""

    def untouched(self) -> bool:
        """Whether it is still the file of that name, and nobody else wrote to it."""
        try:
            info = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return False
        return info.st_ino == self.inode and info.st_size == self.size


class OpenFiles:
    """The days' files. Of the writing thread; ``closed`` is given those that are to be closed."""

    def __init__(self, layout: Layout, closed: Callable[[OpenFile], None]) -> None:
        self._layout = layout
        self._closed = closed
        self._open: dict[str, OpenFile] = {}
        self._uncut: dict[str, int] = {}
        """Files with a rest of a failed write behind this byte."""

    def append(self, day: str, data: bytes) -> OpenFile:
        """Write to a day's file; what fails leaves nothing there, or the file takes no more."""
        file = self._file(day)
        try:
            write_all(file.fd, data)
        except OSError:
            self._uncut[day] = file.size
            self._cut(day)
            raise
        file.size += len(data)
        return file

    def probe(self, day: str) -> None:
        """Raise what stands in the way of appending to a day's file; the day is left as it is."""
        self._file(day)
        path = join(self._layout.ledger, "probe")
        fd = os.open(path, _FLAGS, 0o600)
        try:
            write_all(fd, bytes(PROBE))
            os.fdatasync(fd)
        finally:
            os.close(fd)
            os.unlink(path)

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

    def _file(self, day: str) -> OpenFile:
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

    def _opened(self, day: str) -> OpenFile:
        make_folder(self._layout.ledger)
        path = self._layout.ledger_day(day)
        fd = os.open(path, _FLAGS, 0o600)
        try:
            size = mend(fd, path)
            return OpenFile(path, fd, os.fstat(fd).st_ino, size)
        except BaseException:
            os.close(fd)
            raise
