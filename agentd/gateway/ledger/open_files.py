"""The ledger's files that are open for appending; remains of a failed write are truncated.

Until that succeeds, the file accepts nothing.
"""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from os.path import join

from agentd.core.errors import Unavailable
from agentd.gateway.ledger.day_file import repair_end
from agentd.storage.document import make_folder, write_all
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

PROBE_BYTES = 64 * 1024
"""Bytes that must fit on the disk before lines are accepted again after a failure."""

MAX_OPEN_FILES = 4
"""Open files at once: pending calls and days, as yesterday's last requests end today."""

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(eq=False, slots=True)
class OpenFile:
    """A day's file, open for appending."""

    path: str
    fd: int
    inode: int
    size: int
    """Bytes of complete lines."""
    is_new: bool = True
    """Its directory entry may not be synced yet."""
    sync_due: bool = False
    """True if the syncing thread knows of lines appended since the last sync began."""

    def is_untouched(self) -> bool:
        """Return whether it is still the file of that name and nobody else wrote to it."""
        try:
            info = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return False
        return info.st_ino == self.inode and info.st_size == self.size


class OpenFiles:
    """The open files, used by the writing thread; ``closed`` is called with files to close."""

    def __init__(self, layout: Layout, closed: Callable[[OpenFile], None]) -> None:
        self._layout = layout
        self._on_release = closed
        self._open: dict[str, OpenFile] = {}
        self._untruncated: dict[str, int] = {}
        """Files with remains of a failed write after this byte."""

    def append(self, day: str, data: bytes) -> OpenFile:
        """Append to a day's file; a failed write is truncated, or the file is closed to writes."""
        file = self._get_file(day)
        try:
            write_all(file.fd, data)
        except OSError:
            self._untruncated[day] = file.size
            self._truncate(day)
            raise
        file.size += len(data)
        return file

    def probe(self, day: str) -> None:
        """Raise if a day's file cannot be appended to; the file is not changed."""
        self._get_file(day)
        path = join(self._layout.ledger, "probe")
        fd = os.open(path, _FLAGS, 0o600)
        try:
            write_all(fd, bytes(PROBE_BYTES))
            os.fdatasync(fd)
        finally:
            os.close(fd)
            os.unlink(path)

    def get_size(self, day: str) -> int | None:
        """Return the complete bytes of an open file. From any thread."""
        file = self._open.get(day)
        return file.size if file else None

    def get_sizes(self) -> dict[str, int]:
        """Return the same for each open file. On the writing thread."""
        return {day: file.size for day, file in self._open.items()}

    def release(self, day: str) -> None:
        """Close a day's file if it is open; what replaces it has no remains of a failed write."""
        self._untruncated.pop(day, None)
        file = self._open.pop(day, None)
        if file:
            self._on_release(file)

    def release_all(self) -> None:
        """Close all files."""
        for day in list(self._open):
            self.release(day)

    def _truncate(self, day: str) -> None:
        """Truncate what a failed write left."""
        with suppress(OSError):
            os.ftruncate(self._open[day].fd, self._untruncated[day])
            del self._untruncated[day]

    def _get_file(self, day: str) -> OpenFile:
        """Return the day's file; open and repair it if it is not open or was changed by others."""
        file = self._open.get(day)
        if day in self._untruncated:
            self._truncate(day)
            if day in self._untruncated:
                raise Unavailable(
                    f"{self._layout.get_ledger_day_path(day)} cannot be cut to its whole lines"
                )
        if file and file.is_untouched():
            return file
        if file:
            log.error("%s was changed by another program; reopening it", file.path)
            self.release(day)
        for older in sorted(self._open.keys() - self._untruncated.keys())[: -MAX_OPEN_FILES + 1]:
            self.release(older)
        self._open[day] = file = self._open_file(day)
        return file

    def _open_file(self, day: str) -> OpenFile:
        make_folder(self._layout.ledger)
        path = self._layout.get_ledger_day_path(day)
        fd = os.open(path, _FLAGS, 0o600)
        try:
            size = repair_end(fd, path)
            return OpenFile(path, fd, os.fstat(fd).st_ino, size)
        except BaseException:
            os.close(fd)
            raise
