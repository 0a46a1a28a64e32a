"""The gateway's service log: JSON lines, written off the loop, rotated by size.

It records no money (the ledger does): it is never synced, and entries that cannot be written are
counted, reported in the process's own log, and dropped.
"""

import errno
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import msgspec

from agentd.core.clock import Clock
from agentd.core.errors import AgentdError, BadRequest
from agentd.core.redaction import escape_unprintable, scrub
from agentd.gateway.ledger.day_file import iter_lines_backwards
from agentd.gateway.service_log.note import Level, ServiceLogEntry, ServiceLogFilter, ServiceLogPage
from agentd.storage.document import explain_os_error, make_folder
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_FILES = 5
MAX_WAITING = 10_000
"""Lines that may wait for the disk before more are dropped."""
MAX_LIMIT = 1000
_MAX_TEXT = 4000

_WRITE = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_decoder = msgspec.json.Decoder(ServiceLogEntry)


class ServiceLog:
    """Writes entries in the background."""

    def __init__(self, layout: Layout, clock: Clock) -> None:
        self._layout = layout
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "service log")
        self._submitted = 0
        """Entries that were queued ..."""
        self._handled = 0
        """... and those that the thread has handled."""
        self._rejected = 0
        self._failed = 0
        self._n = 0
        self._fd = -1
        self._size = 0

    def add(
        self,
        level: Level,
        kind: str,
        text: str,
        *,
        channel: str = "",
        key: str = "",
        remote: str = "",
    ) -> None:
        """Queue an entry to be written. Whatever looks like a secret is removed from the text."""
        if self._submitted - self._handled >= MAX_WAITING:
            self._rejected += 1
            return
        self._submitted += 1
        cleaned = escape_unprintable(scrub(text))[:_MAX_TEXT]
        line = ServiceLogEntry(0, self._clock.now(), level, kind, cleaned, channel, key, remote)
        self._thread.submit(self._write_entry, line)

    @property
    def dropped(self) -> int:
        """Number of lost entries: the queue was full, or a write failed."""
        return self._rejected + self._failed

    def close(self) -> None:
        """Write the queued entries and close the file. Blocking."""
        self._thread.submit(self._close)
        self._thread.shutdown()

    # The methods below run on the one thread.

    def _write_entry(self, note: ServiceLogEntry) -> None:
        self._handled += 1
        try:
            if self._fd < 0:
                self._open()
            if self._size >= MAX_FILE_BYTES:
                self._rotate()
            self._n += 1
            line = msgspec.json.encode(msgspec.structs.replace(note, n=self._n)) + b"\n"
            written = os.write(self._fd, line)
            self._size += written
            if written < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except (AgentdError, OSError) as error:
            if not self._failed:
                log.error("%s cannot be written: %s", self._layout.service_log, error)
            self._failed += 1
            self._close()

    def _open(self) -> None:
        path = self._layout.service_log
        make_folder(os.path.dirname(path))
        self._fd = os.open(path, _WRITE, 0o600)
        self._size = os.fstat(self._fd).st_size
        if self._size and os.pread(self._fd, 1, self._size - 1) != b"\n":  # it was cut short
            self._size += os.write(self._fd, b"\n")
        self._n = max(self._n, next((note.n for note in _iter_backwards(self._layout)), 0))

    def _rotate(self) -> None:
        path = self._layout.service_log
        self._close()
        for number in range(MAX_FILES - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(_get_path(path, number - 1), _get_path(path, number))
        self._open()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_page(
    layout: Layout, wanted: ServiceLogFilter, limit: int = 50, cursor: str = ""
) -> ServiceLogPage:
    """Return at most ``limit`` entries before a ``cursor`` (the ``next`` of another page).

    Blocking. Raises ``BadRequest`` for an invalid cursor, and ``Unavailable``.
    """
    if cursor and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 19):
        raise BadRequest("Invalid cursor", "Use the 'next' of the previous page.")
    found: list[ServiceLogEntry] = []
    limit = min(max(limit, 1), MAX_LIMIT)
    try:
        for note in _iter_backwards(layout, int(cursor or 0)):
            if not wanted.matches(note):
                continue
            if len(found) == limit:
                return ServiceLogPage(found, str(found[-1].n))
            found.append(note)
    except OSError as error:
        raise explain_os_error(layout.service_log, "read", error) from error
    return ServiceLogPage(found, "")


def _iter_backwards(layout: Layout, before: int = 0) -> Iterator[ServiceLogEntry]:
    """Yield the entries of all files, newest first; only those before a number, if given.

    A file that gets its next number meanwhile is met again, but each entry is yielded once.
    """
    for number in range(MAX_FILES):
        try:
            fd = os.open(_get_path(layout.service_log, number), _READ)
        except FileNotFoundError:
            continue
        try:
            for _, line in iter_lines_backwards(fd, os.fstat(fd).st_size):
                with suppress(msgspec.DecodeError, UnicodeDecodeError):
                    note = _decoder.decode(line)
                    if not before or note.n < before:
                        before = note.n
                        yield note
        finally:
            os.close(fd)


def _get_path(path: str, number: int) -> str:
    return f"{path}.{number}" if number else path
