"""Follows the ledger: what was recorded after a cursor, in the order in which it was written.

A cursor holds the last record that was read of each of the last days, since a request that began
before midnight may be recorded after it. Nothing waits in memory: a slow reader finds the lines in
the files. Repricing replaces a day's file by one with the same requests, so a record is found again
by its id. Everything here blocks.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date, timedelta
from typing import Literal, TypeAlias

from msgspec import Struct

from agentd.core.errors import BadRequest
from agentd.gateway.ledger.day_file import (
    ReadPosition,
    decode_record,
    iter_lines_backwards,
    iter_lines_containing,
    list_days,
    read_records,
)
from agentd.gateway.ledger.query import RequestFilter
from agentd.gateway.ledger.record import RequestRecord
from agentd.storage.checksummed_json import ChecksumMismatch
from agentd.storage.document import translate_os_errors
from agentd.storage.layout import Layout

MAX_RECORDS = 500
"""The most records that are read at once ..."""
MAX_SCANNED_BYTES = 2 * 1024 * 1024
"""... and the bytes after which a reading ends, however few of them are wanted."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PLACE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}\.[0-9]{1,15}(?:\.[A-Za-z0-9_-]{1,100})?"
_CURSOR = re.compile(f"{_PLACE}(?:,{_PLACE}){{0,399}}", re.ASCII)
"""Two days, and those that a clock which was ahead has left, perhaps by a year."""
CURSOR_PATTERN = f"^{_CURSOR.pattern}$"

GetSize: TypeAlias = Callable[[str], int | None]
"""A day to the complete bytes of its file; None: not open for writing."""


class DayPlace(Struct, frozen=True):
    """How far a day's file was read."""

    size: int = 0
    """The bytes that were read."""
    id: str = ""
    """The id of the last record in them; empty: there was none."""


class LeftOut(Struct, frozen=True):
    """Lines that cannot be told."""

    reason: Literal["corrupt", "deleted", "replaced"]
    """``corrupt``: damaged lines; ``deleted``: the day's requests are older than the ledger keeps
    them; ``replaced``: its file was replaced by one without the last request that was read."""
    day: str
    """The day (UTC) of their file."""
    lines: int | None = None
    """The number of lines; null: not known."""


class TailBatch(Struct, frozen=True):
    """What one reading found."""

    entries: list[tuple[str, RequestRecord | LeftOut]]
    """The wanted records, and what was left out, each with the cursor after it."""
    cursor: str
    """The cursor after all that was read."""
    is_last: bool
    """False if there is more to read now."""


def parse_cursor(text: str) -> dict[str, DayPlace]:
    """Parse a cursor. Raises ``BadRequest``."""
    if not _CURSOR.fullmatch(text):
        raise BadRequest(
            "Last-Event-ID (or cursor) is not the id of an event of this stream",
            "Leave it out to begin with the requests that end from now on.",
        )
    places = {}
    for part in text.split(","):
        day, size, *id_ = part.split(".")
        try:
            date.fromisoformat(day)
        except ValueError as error:
            raise BadRequest(f"Last-Event-ID (or cursor): {error}") from error
        places[day] = DayPlace(int(size), "".join(id_))
    return places


class LedgerTail:
    """One reader of what is recorded; ``places`` are those of a cursor.

    The days from the first one of them on are read; those without a place from their start.
    """

    def __init__(self, layout: Layout, get_size: GetSize, places: dict[str, DayPlace]) -> None:
        self._layout = layout
        self._get_size = get_size
        self._places = dict(places)
        self._finished: set[str] = set()
        """The days of whose files all that was there was read."""

    @property
    def cursor(self) -> str:
        """The cursor after what was read."""
        return ",".join(
            f"{day}.{place.size}{'.' if place.id else ''}{place.id}"
            for day, place in sorted(self._places.items())
        )

    def read(self, wanted: RequestFilter) -> TailBatch:
        """Read on. Raises ``Unavailable``."""
        entries: list[tuple[str, RequestRecord | LeftOut]] = []
        budget = _Budget()
        existing = list_days(self._layout.ledger)
        entries += [(self.cursor, gone) for gone in self._drop_deleted(existing)]
        for day in [one for one in existing if one >= min(self._places)]:
            for record in self._read_day(day, budget):
                if isinstance(record, LeftOut) or wanted.matches(record):
                    entries.append((self.cursor, record))
            if budget.is_used_up:
                break
        return TailBatch(entries, self.cursor, not budget.is_used_up)

    def _drop_deleted(self, existing: list[str]) -> Iterator[LeftOut]:
        """Forget the places in files that are gone; at least one place stays."""
        for day, place in sorted(self._places.items()):
            if place.size and day not in existing:
                self._places[day] = DayPlace()
                if day not in self._finished:
                    yield LeftOut("deleted", day)

    def _read_day(self, day: str, budget: "_Budget") -> Iterator[RequestRecord | LeftOut]:
        path, end = self._layout.get_ledger_day_path(day), self._get_size(day)
        place = self._places.get(day, DayPlace())
        self._finished.discard(day)
        with translate_os_errors(path, "read"):
            try:
                inode, found = os.stat(path).st_ino, _find_place(path, place)
            except FileNotFoundError:  # deleted meanwhile
                return
            if found is None:
                self._places[day] = find_end(path, end)
                yield LeftOut("replaced", day)
                return
            position = ReadPosition(size=found)
            for record in read_records(path, position, end):
                if os.stat(path).st_ino != inode:  # repriced meanwhile: the next reading finds it
                    budget.end()
                    return
                if position.corrupt_lines:
                    yield LeftOut("corrupt", day, len(position.corrupt_lines))
                    position.corrupt_lines = []
                self._note_read(day, DayPlace(position.size, record.id))
                yield record
                if budget.spend(position.size - found):
                    return
                found = position.size
        self._finished.add(day)

    def _note_read(self, day: str, place: DayPlace) -> None:
        """Keep the place, and those of the day before and of later days."""
        self._places[day] = place
        kept = (date.fromisoformat(day) - timedelta(1)).isoformat()
        if min(self._places) < kept:
            self._places = {one: at for one, at in self._places.items() if one >= kept}
            self._places.setdefault(kept, DayPlace())


class _Budget:
    """What one reading may still do."""

    def __init__(self) -> None:
        self._records = MAX_RECORDS
        self._bytes = MAX_SCANNED_BYTES

    @property
    def is_used_up(self) -> bool:
        """True if the reading ends."""
        return self._records <= 0 or self._bytes <= 0

    def end(self) -> None:
        """Let the reading end."""
        self._records = 0

    def spend(self, size: int) -> bool:
        """Note a record of so many bytes; return whether it was the last one."""
        self._records -= 1
        self._bytes -= size
        return self.is_used_up


def open_tail(
    layout: Layout, get_size: GetSize, today: str, cursor: str = "", since: str = ""
) -> LedgerTail:
    """Return a reader of what is recorded after a cursor, since a moment, or from now on.

    Raises ``BadRequest`` for an invalid cursor, and ``Unavailable``.
    """
    if cursor:
        places = parse_cursor(cursor)
    elif since:
        places = {since[:10]: DayPlace()}
    else:
        places = find_end_places(layout, get_size, today)
    return LedgerTail(layout, get_size, places)


def find_end_places(layout: Layout, get_size: GetSize, today: str) -> dict[str, DayPlace]:
    """Return the places from which on only what is recorded later is read. ``Unavailable``."""
    existing = list_days(layout.ledger)
    yesterday = (date.fromisoformat(today) - timedelta(1)).isoformat()
    places = {}
    for day in sorted({yesterday, today, *(one for one in existing if one > today)}):
        path = layout.get_ledger_day_path(day)
        with translate_os_errors(path, "read"):
            places[day] = find_end(path, get_size(day)) if day in existing else DayPlace()
    return places


def find_end(path: str, end: int | None) -> DayPlace:
    """Return the place after the last valid record of a file. Raises ``OSError``."""
    fd = os.open(path, _READ)
    try:
        for at, line in iter_lines_backwards(fd, os.fstat(fd).st_size if end is None else end):
            with suppress(ChecksumMismatch):
                if line.endswith(b"\n"):
                    return DayPlace(at + len(line), decode_record(line).id)
    finally:
        os.close(fd)
    return DayPlace()


def _find_place(path: str, place: DayPlace) -> int | None:
    """Return the byte after the last record that was read; None: the file does not have it."""
    if not place.id:
        return 0
    fd = os.open(path, _READ)
    try:
        size = os.fstat(fd).st_size
        if place.size <= size:
            _, line = next(iter_lines_backwards(fd, place.size), (0, b""))
            if _has_id(line, place.id):
                return place.size
        begins = _encode_start(place.id)
        for at, line in iter_lines_containing(fd, 0, size, begins):
            if _has_id(line, place.id):
                return at + len(line)
    finally:
        os.close(fd)
    return None


def _has_id(line: bytes, id_: str) -> bool:
    return line.startswith(_encode_start(id_)) and line.endswith(b"\n")


def _encode_start(id_: str) -> bytes:
    """Return how the line of a record begins."""
    return b'{"id":"%b"' % id_.encode()
