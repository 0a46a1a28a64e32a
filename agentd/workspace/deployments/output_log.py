"""The output of a deployment: written by its own process, kept within bounds, read by offset.

A program holds its log open for appending, so the log cannot be renamed: what is too long is
copied beside it, and the log is emptied. An offset counts the bytes since the first run ever, so
it stays right across that; a small file beside the log has the offset of its beginning.
"""

import os
from threading import Lock
from typing import NamedTuple

import msgspec
from msgspec import Struct

from agentd.storage.document import (
    read_document,
    replace_document,
    translate_os_errors,
    write_all,
)
from agentd.workspace.deployments.deployment import OutputSlice

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_LIMIT = 4096
"""The maximum bytes of the file with a log's offset."""
_MOST_LATE = 64 * 1024
"""Bytes written while a log is copied that are copied behind it."""
_LATE_READS = 20
"""The most times that such bytes are looked for: a program may write without a pause."""

FORMAT = 1


class LogStart(Struct, frozen=True):
    """``output.json``: the offset of the first byte of ``output.log``."""

    format: int
    start: int


class OutputPaths(NamedTuple):
    """The files of one log: what is written to, what stood there before, where it begins."""

    log: str
    older: str
    start: str


class OutputLog:
    """The log of one deployment; ``limit`` bytes of it are shown, and some more are kept.

    Once it is trimmed, these are twice as many at most, and what was written meanwhile.
    """

    def __init__(self, paths: OutputPaths, limit: int) -> None:
        self._paths = paths
        self._limit = limit
        self._lock = Lock()
        """A reader must not see the log after it was copied and before it was emptied."""

    def open(self) -> int:
        """Open the log to append to it; return the descriptor."""
        with translate_os_errors(self._paths.log, "write"):
            return os.open(self._paths.log, _APPEND, 0o600)

    def trim(self) -> None:
        """Copy the log aside and empty it, when it is too long.

        What the program writes meanwhile is copied behind it, but for what comes in the very last
        moment, or of a program that writes without a pause: that is lost, and not counted.
        """
        log, older, start_file = self._paths
        with self._lock, translate_os_errors(log, "write"):
            if _get_size(log) <= self._limit:
                return
            start, size = self._start(), _get_size(log)
            replace_document(older, _read_at(log, size - self._limit, self._limit))
            # First published, then emptied: a crash in between repeats some bytes, and loses none.
            _publish_start(start_file, start + size)
            room = _MOST_LATE
            for _ in range(_LATE_READS):
                late = _read_at(log, size, room)
                if not late:
                    break
                _append(older, late)
                size, room = size + len(late), room - len(late)
                _publish_start(start_file, start + size)
            os.truncate(log, 0)

    def read(self, offset: int | None, most: int) -> OutputSlice:
        """Return the last ``most`` bytes of the output from ``offset`` on.

        An offset that lies behind the end is not from this log: all that is kept is returned.
        """
        log, older, _ = self._paths
        most = min(most, self._limit)
        with self._lock, translate_os_errors(log, "read"):
            start, size, before = self._start(), _get_size(log), _get_size(older)
            end = start + size
            earliest = start - before
            begin = earliest if offset is None or offset > end else max(offset, earliest)
            begin = max(begin, end - most)
            recent = _read_at(log, max(begin - start, 0), end - max(begin, start))
            early = _read_at(older, begin - earliest, start - begin) if begin < start else b""
        return OutputSlice(begin, early + recent)

    def _start(self) -> int:
        """Return the offset of the log's first byte, which early versions did not record."""
        before = _get_size(self._paths.older)
        found = read_document(self._paths.start, _LIMIT)
        if found is None:
            return before
        try:
            kept = msgspec.json.decode(found.data, type=LogStart)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return before
        return max(kept.start, before)


def _publish_start(path: str, start: int) -> None:
    replace_document(path, msgspec.json.encode(LogStart(FORMAT, start)) + b"\n")


def _append(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def _get_size(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0


def _read_at(path: str, start: int, count: int) -> bytes:
    """Read a part of a file that may be long, and grow."""
    with translate_os_errors(path, "read"):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        try:
            return os.pread(descriptor, count, start)
        finally:
            os.close(descriptor)
