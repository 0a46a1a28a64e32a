"""The gateway's service log: JSON lines, written off the loop, the oldest file given up by size.

It is no record of money (that is the ledger): it is never synced, and what cannot be written is
counted, told in the process's own log, and dropped.
"""

import errno
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import msgspec

from agentd.clock import Clock
from agentd.disk.document import make_folder, trouble
from agentd.disk.layout import Layout
from agentd.disk.ledger_file import backwards
from agentd.errors import AgentdError, BadRequest
from agentd.proxy.notes import Level, Note, NoteFilter, NotePage
from agentd.redaction import scrub, visible

log = logging.getLogger(__name__)

FILE_BYTES = 10 * 1024 * 1024
FILES = 5
WAITING = 10_000
"""Lines that may wait for the disk before more are dropped."""
MOST = 1000
_TEXT = 4000

_WRITE = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_notes = msgspec.json.Decoder(Note)


class ServiceLog:
    """Takes notes. Nobody waits for it."""

    def __init__(self, layout: Layout, clock: Clock) -> None:
        self._layout = layout
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "service log")
        self._given = 0
        """Lines that were handed in ..."""
        self._taken = 0
        """... and those that the thread has seen to."""
        self._refused = 0
        self._failed = 0
        self._n = 0
        self._fd = -1
        self._size = 0

    def note(
        self,
        level: Level,
        kind: str,
        text: str,
        *,
        channel: str = "",
        key: str = "",
        remote: str = "",
    ) -> None:
        """Have a line written soon. What looks like a secret is taken out of the text."""
        if self._given - self._taken >= WAITING:
            self._refused += 1
            return
        self._given += 1
        told = visible(scrub(text))[:_TEXT]
        line = Note(0, self._clock.now(), level, kind, told, channel, key, remote)
        self._thread.submit(self._take, line)

    @property
    def dropped(self) -> int:
        """Lines that were lost: too many at once, or the disk did not take them."""
        return self._refused + self._failed

    def close(self) -> None:
        """Write what waits, and end. Blocking."""
        self._thread.submit(self._close)
        self._thread.shutdown()

    # What follows is on the one thread.

    def _take(self, note: Note) -> None:
        self._taken += 1
        try:
            if self._fd < 0:
                self._open()
            if self._size >= FILE_BYTES:
                self._turn_over()
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
        self._n = max(self._n, next((note.n for note in _backwards(self._layout)), 0))

    def _turn_over(self) -> None:
        path = self._layout.service_log
        self._close()
        for number in range(FILES - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(_file(path, number - 1), _file(path, number))
        self._open()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def page(layout: Layout, wanted: NoteFilter, limit: int = 50, cursor: str = "") -> NotePage:
    """At most ``limit`` lines, from a ``cursor`` (the ``next`` of another page) backwards.

    Blocking. Raises ``BadRequest`` for what is no cursor, and ``Unavailable``.
    """
    if cursor and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 19):
        raise BadRequest("This is no cursor of a page", "Take the next of the page before.")
    found: list[Note] = []
    limit = min(max(limit, 1), MOST)
    try:
        for note in _backwards(layout, int(cursor or 0)):
            if not wanted.fits(note):
                continue
            if len(found) == limit:
                return NotePage(found, str(found[-1].n))
            found.append(note)
    except OSError as error:
        raise trouble(layout.service_log, "read", error) from error
    return NotePage(found, "")


def _backwards(layout: Layout, before: int = 0) -> Iterator[Note]:
    """The lines of all files, the newest first; only those before a number, if it is given."""
    for number in range(FILES):
        try:
            fd = os.open(_file(layout.service_log, number), _READ)
        except FileNotFoundError:
            continue
        try:
            for _, line in backwards(fd, os.fstat(fd).st_size):
                with suppress(msgspec.DecodeError, UnicodeDecodeError):
                    note = _notes.decode(line)
                    if not before or note.n < before:
                        yield note
        finally:
            os.close(fd)


def _file(path: str, number: int) -> str:
    return f"{path}.{number}" if number else path
