"""Pages of the request log, newest first. Blocking; days outside the range cost nothing."""

import os
import re
from contextlib import suppress

import msgspec

from agentd.core.errors import BadRequest
from agentd.gateway.ledger.day_file import (
    decode_record,
    find_line_start,
    iter_lines_backwards,
    iter_lines_containing,
    list_days,
)
from agentd.gateway.ledger.query import RecordPage, RequestFilter
from agentd.gateway.ledger.record import RequestRecord
from agentd.storage.checksummed_json import ChecksumMismatch
from agentd.storage.document import explain_os_error
from agentd.storage.layout import Layout

MAX_SCANNED_BYTES = 8 * 1024 * 1024
"""Bytes after which a page is returned as it is, however few records were found."""
MAX_LIMIT = 1000
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 1024 * 1024
_MAX_LINE_BYTES = 64 * 1024
"""The length of the longest line, in bytes."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)
_CURSOR = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})\.([0-9]{1,15})")


def read_page(
    layout: Layout, wanted: RequestFilter, limit: int = 50, cursor: str = ""
) -> RecordPage:
    """Return up to ``limit`` records backwards from a ``cursor`` (the ``next`` of another page).

    Raises ``BadRequest`` for an invalid cursor, and ``Unavailable``.
    """
    last, end = _parse_cursor(cursor)
    days = [day for day in list_days(layout.ledger) if _may_contain(day, wanted)]
    looking = _PageSearch(wanted, min(max(limit, 1), MAX_LIMIT))
    for day in reversed(days):
        if last and day > last:
            continue
        stopped = looking.scan_backwards(
            layout.get_ledger_day_path(day), end if day == last else None
        )
        if stopped is not None:
            return RecordPage(looking.found, f"{day}.{stopped}", looking.corrupt)
    return RecordPage(looking.found, "", looking.corrupt)


def find_request(layout: Layout, id_: str, day: str = "") -> RequestRecord | None:
    """Find a request by id, the last day first, or only on one ``day``. ``Unavailable``.

    Only lines that contain the id are decoded, so a gigabyte takes a second or two.
    """
    if not _ID.fullmatch(id_):
        return None
    days = [day] if day else reversed(list_days(layout.ledger))
    return next(
        filter(None, (_find_in_file(layout.get_ledger_day_path(one), id_) for one in days)), None
    )


def _find_in_file(path: str, id_: str) -> RequestRecord | None:
    """Find the last record with this id in a file; every line begins with its id."""
    begins = b'{"id":"%b"' % id_.encode()
    try:
        fd = os.open(path, _READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise explain_os_error(path, "read", error) from error
    try:
        for begin in reversed(range(0, os.fstat(fd).st_size, _CHUNK)):
            data = os.pread(
                fd, _CHUNK + _MAX_LINE_BYTES, begin
            )  # a line of it may end in the next one
            at = data.rfind(begins)
            if at >= 0:
                with suppress(ChecksumMismatch):
                    return decode_record(data[at : data.find(b"\n", at) + 1])
    finally:
        os.close(fd)
    return None


class _PageSearch:
    """Collects matching records, file by file."""

    def __init__(self, wanted: RequestFilter, limit: int) -> None:
        self.found: list[RequestRecord] = []
        self.corrupt = 0
        self._wanted = wanted
        self._limit = limit
        self._bytes_left = MAX_SCANNED_BYTES
        self._required = _get_required_bytes(wanted)

    def _is_done(self) -> bool:
        return len(self.found) == self._limit or self._bytes_left <= 0

    def scan_backwards(self, path: str, end: int | None) -> int | None:
        """Search a file backwards from a byte; return where it stopped, or None."""
        try:
            fd = os.open(path, _READ)
        except FileNotFoundError:  # deleted meanwhile
            return None
        except OSError as error:
            raise explain_os_error(path, "read", error) from error
        try:
            size = os.fstat(fd).st_size
            if end and (end > size or os.pread(fd, 1, end - 1) != b"\n"):
                raise BadRequest("The ledger was repriced meanwhile", "Start at the first page.")
            return self._search(fd, size if end is None else end) or None
        finally:
            os.close(fd)

    def _search(self, fd: int, end: int) -> int:
        """Search a file's lines; return the end of the lines that are left."""
        if self._is_done():
            return end
        least = find_line_start(fd, end - self._bytes_left) if self._required else 0
        lines = (
            iter_lines_containing(fd, least, end, self._required)
            if self._required
            else iter_lines_backwards(fd, end)
        )
        for at, line in lines:
            if not line.endswith(b"\n"):  # still being written
                continue
            self._bytes_left -= end - at
            self._add_if_wanted(line)
            end = at
            if self._is_done():
                return end
        self._bytes_left -= end - least
        return least

    def _add_if_wanted(self, line: bytes) -> None:
        try:
            entry = decode_record(line)
        except ChecksumMismatch:
            self.corrupt += 1
            return
        if self._wanted.matches(entry):
            self.found.append(entry)


def _get_required_bytes(wanted: RequestFilter) -> bytes:
    """Return bytes that every matching line contains, so that others need not be decoded.

    They come from the most selective condition; empty if no condition has a fixed text.
    """
    if wanted.rule:
        return b"%b:" % msgspec.json.encode(wanted.rule)
    if wanted.hidden:
        return b'"hidden":{'  # absent where nothing was found
    for name in ("text", "key", "owner", "tag", "model", "channel", "error", "status", "outcome"):
        if value := getattr(wanted, name):
            encoded = msgspec.json.encode(value)
            if name == "tag":  # one of a list
                return encoded
            return encoded.strip(b'"') if name == "text" else b'"%b":%b' % (name.encode(), encoded)
    return b""


def _parse_cursor(cursor: str) -> tuple[str, int]:
    if not cursor:
        return "", 0
    match = _CURSOR.fullmatch(cursor)
    if not match:
        raise BadRequest("Invalid cursor", "Use the 'next' of the previous page.")
    return match[1], int(match[2])


def _may_contain(day: str, wanted: RequestFilter) -> bool:
    return (not wanted.since or day >= wanted.since[:10]) and (
        not wanted.until or day <= wanted.until[:10]
    )
