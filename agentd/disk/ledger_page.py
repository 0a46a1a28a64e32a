"""Pages of the ledger, the newest first. Blocking; what other days hold costs nothing."""

import os
import re
from contextlib import suppress

import msgspec

from agentd.disk.document import trouble
from agentd.disk.layout import Layout
from agentd.disk.ledger_file import backwards, days_in, entry_in, holding, line_begin
from agentd.disk.lines import Broken
from agentd.errors import BadRequest
from agentd.proxy.entry import Entry
from agentd.proxy.page import Filter, Page

LOOK = 8 * 1024 * 1024
"""Bytes after which a page is given as it is, however little was found."""
MOST = 1000
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PIECE = 1024 * 1024
_LONGEST = 64 * 1024
"""Bytes that no line has."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)
_CURSOR = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})\.([0-9]{1,15})")


def page(layout: Layout, wanted: Filter, limit: int = 50, cursor: str = "") -> Page:
    """At most ``limit`` requests, from a ``cursor`` (the ``next`` of another page) backwards.

    Raises ``BadRequest`` for what is no cursor, and ``Unavailable``.
    """
    last, end = _place(cursor)
    days = [day for day in days_in(layout.ledger) if _asked_for(day, wanted)]
    looking = _Looking(wanted, min(max(limit, 1), MOST))
    for day in reversed(days):
        if last and day > last:
            continue
        stopped = looking.through(layout.ledger_day(day), end if day == last else None)
        if stopped is not None:
            return Page(looking.found, f"{day}.{stopped}", looking.damaged)
    return Page(looking.found, "", looking.damaged)


def find(layout: Layout, id_: str, day: str = "") -> Entry | None:
    """The request of this id, the last day first, or only of one day. ``Unavailable``.

    Only what has the id's letters in it is taken apart, so a gigabyte takes a second or two.
    """
    if not _ID.fullmatch(id_):
        return None
    days = [day] if day else reversed(days_in(layout.ledger))
    return next(filter(None, (_found(layout.ledger_day(one), id_) for one in days)), None)


def _found(path: str, id_: str) -> Entry | None:
    """The last request of this id in a file; every line begins with its id."""
    begins = b'{"id":"%b"' % id_.encode()
    try:
        fd = os.open(path, _READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise trouble(path, "read", error) from error
    try:
        for begin in reversed(range(0, os.fstat(fd).st_size, _PIECE)):
            data = os.pread(fd, _PIECE + _LONGEST, begin)  # a line of it may end in the next one
            at = data.rfind(begins)
            if at >= 0:
                with suppress(Broken):
                    return entry_in(data[at : data.find(b"\n", at) + 1])
    finally:
        os.close(fd)
    return None


class _Looking:
    """Gathers what is wanted, file by file."""

    def __init__(self, wanted: Filter, limit: int) -> None:
        self.found: list[Entry] = []
        self.damaged = 0
        self._wanted = wanted
        self._limit = limit
        self._left = LOOK
        self._bytes = _bytes_of(wanted)

    def _done(self) -> bool:
        return len(self.found) == self._limit or self._left <= 0

    def through(self, path: str, end: int | None) -> int | None:
        """Look through a file from a byte backwards; where it stopped, None at its beginning."""
        try:
            fd = os.open(path, _READ)
        except FileNotFoundError:  # it went meanwhile
            return None
        except OSError as error:
            raise trouble(path, "read", error) from error
        try:
            size = os.fstat(fd).st_size
            if end and (end > size or os.pread(fd, 1, end - 1) != b"\n"):
                raise BadRequest("The ledger was priced anew meanwhile", "Begin at its first page.")
            return self._through(fd, size if end is None else end) or None
        finally:
            os.close(fd)

    def _through(self, fd: int, end: int) -> int:
        """Where the lines end that are left."""
        if self._done():
            return end
        least = line_begin(fd, end - self._left) if self._bytes else 0
        lines = holding(fd, least, end, self._bytes) if self._bytes else backwards(fd, end)
        for at, line in lines:
            if not line.endswith(b"\n"):  # it is just being written
                continue
            self._left -= end - at
            self._take(line)
            end = at
            if self._done():
                return end
        self._left -= end - least
        return least

    def _take(self, line: bytes) -> None:
        try:
            entry = entry_in(line)
        except Broken:
            self.damaged += 1
            return
        if self._wanted.fits(entry):
            self.found.append(entry)


def _bytes_of(wanted: Filter) -> bytes:
    """What stands in each line that is wanted, so that others need not be taken apart.

    The rarest of what is asked for; empty where nothing of it is told by some bytes.
    """
    for name in ("text", "key", "model", "channel", "error", "status", "outcome"):
        if asked := getattr(wanted, name):
            told = msgspec.json.encode(asked)
            return told.strip(b'"') if name == "text" else b'"%b":%b' % (name.encode(), told)
    return b""


def _place(cursor: str) -> tuple[str, int]:
    if not cursor:
        return "", 0
    match = _CURSOR.fullmatch(cursor)
    if not match:
        raise BadRequest("This is no cursor of a page", "Take the next of the page before.")
    return match[1], int(match[2])


def _asked_for(day: str, wanted: Filter) -> bool:
    return (not wanted.since or day >= wanted.since[:10]) and (
        not wanted.until or day <= wanted.until[:10]
    )
