"""A log of the encoded events of the last records, so that a replay need not read journals.

It is a cache that may be deleted at any time. It has all events after one seq up to another,
without gaps, and is used only if it agrees with the journals: each batch records, for every chat in
it, the checksum of the journal line that it ends with. Nothing is synced. Every method blocks, and
must be called on one thread.
"""

import logging
import os
import re
import stat as modes
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from zlib import crc32

import msgspec
from msgspec import Struct

from agentd.core.events import JournalState
from agentd.live.event_batch import BATCH_BYTES, EncodedRecord, EventBatch, iter_rows
from agentd.storage.checksummed_json import (
    CHECKSUM_SIZE,
    ChecksumMismatch,
    decode_checksummed,
    encode_checksummed,
)
from agentd.storage.document import can_others_write, write_all
from agentd.storage.journal import open_journal_file
from agentd.storage.layout import Layout

log = logging.getLogger(__name__)

MAX_SEGMENTS = 5
"""The number of files that are kept; older ones are deleted."""
SEGMENT_BYTES = 16 * 1024 * 1024
SEGMENT_RECORDS = 12_500

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NAME = re.compile(r"(0|[1-9][0-9]{0,15})\.(sse|jsonl)")
_HEAD = re.compile(rb'\{"n":[0-9]+,"seq":([0-9]+),')


class IndexLine(Struct, frozen=True):
    """A line of an index file: describes one batch in the data file beside it."""

    after: int
    upto: int
    at: int
    sum: int
    rows: list[int]
    journal_ends: list[tuple[int, int, str]]


_index_decoder = msgspec.json.Decoder(IndexLine)


class _Segment(Struct, eq=False):
    """A data file and its index, both open."""

    after: int
    data: int
    index: int
    size: int = 0
    records: int = 0

    def close(self) -> None:
        os.close(self.data)
        os.close(self.index)

    @property
    def is_full(self) -> bool:
        return self.size >= SEGMENT_BYTES or self.records >= SEGMENT_RECORDS


class _BatchPosition(Struct, eq=False):
    """The position of a batch in a data file, and its records."""

    segment: _Segment
    upto: int
    at: int
    size: int
    sum: int
    rows: "array[int]"


class _LoadedFiles(Struct):
    """The content of the files, as far as they agree with each other."""

    segments: list[_Segment] = []
    batches: list[_BatchPosition] = []
    journal_ends: dict[int, tuple[int, str]] = {}
    position: int = 0


class EventLog:
    """All events after the seq ``first`` up to ``position``; empty if they are equal."""

    def __init__(self, layout: Layout, latest: int, chats: Iterable[JournalState]) -> None:
        self.first = self.position = latest
        self._layout = layout
        self._chats: list[JournalState] | None = list(chats)
        self._segments: list[_Segment] = []
        self._batches: list[_BatchPosition] = []
        self._written = latest
        """The seq up to which events are in the files."""

    def open(self) -> None:
        """Load the files of an earlier run, if they are valid; only the first call does anything.

        The files are checked against the chats as they were at start.
        """
        if self._chats is None:
            return
        chats, self._chats = self._chats, None
        found = _LoadedFiles()
        try:
            _load_files(self._layout, found)
            problem = _find_mismatch(self._layout, found, chats, self.position)
        except OSError as error:
            problem = str(error)
        self._segments = found.segments
        if problem or not found.batches:
            if problem:
                log.info("the event log is reset: %s", problem)
            self.reset(self.position)
            return
        self._batches = found.batches
        self.first = found.segments[0].after
        self.position = self._written = found.position

    def reset(self, at: int) -> None:
        """Delete everything; the log is empty then, at this seq."""
        for segment in self._segments:
            segment.close()
        self._segments, self._batches = [], []
        self.first = self.position = self._written = at
        with suppress(OSError):
            for name in os.listdir(self._layout.events):
                if _NAME.fullmatch(name):
                    os.unlink(os.path.join(self._layout.events, name))

    def append(self, after: int, upto: int, records: Sequence[EncodedRecord]) -> None:
        """Append all events after one seq up to another.

        If they do not continue the log, they replace it. Raises ``OSError`` when they cannot be
        written; the log is empty then.
        """
        if not self.first <= after <= self.position:
            self.reset(after)
        records = [record for record in records if record.seq > self.position]
        try:
            for batch in _split_batches(records):
                self._write_batch(batch, upto if batch[-1] is records[-1] else batch[-1].seq)
        except OSError:
            self.reset(upto)
            raise
        self.position = max(self.position, upto)

    def read(self, after: int, upto: int, chats: frozenset[int] | None) -> EventBatch | None:
        """Return the next batch of the events after one seq up to another; empty at the end.

        ``chats`` restricts them to these chats. None when they are not in the log, or when its
        files were altered; then it is reset.
        """
        if not self.first <= after <= upto <= self.position:
            return None
        pieces: list[bytes] = []
        rows: array[int] = array("q")
        start = bisect_right(self._batches, after, key=lambda batch: batch.upto)
        read, reached = 0, upto
        for batch in self._batches[start:]:
            if batch.rows[0] > upto:
                break
            if read >= BATCH_BYTES:
                return EventBatch(reached, b"".join(pieces), rows)
            reached = min(batch.upto, upto)
            if chats is not None and chats.isdisjoint(batch.rows[1::3]):
                continue
            data = os.pread(batch.segment.data, batch.size, batch.at)
            if crc32(data) != batch.sum:
                log.warning("the event log was altered and is reset")
                self.reset(self.position)
                return None
            read += len(data)
            _select_rows(batch.rows, data, (after, upto), chats, pieces, rows)
        return EventBatch(upto, b"".join(pieces), rows)

    def forget_chat(self, chat: int) -> None:
        """Delete the log if it has events of a chat that was removed for ever."""
        if any(chat in batch.rows[1::3] for batch in self._batches):
            self.reset(self.position)

    def close(self) -> None:
        """Close the files."""
        for segment in self._segments:
            segment.close()
        self._segments, self._batches = [], []

    def _write_batch(self, records: Sequence[EncodedRecord], upto: int) -> None:
        if not self._segments or self._segments[-1].is_full:
            self._add_segment()
        segment = self._segments[-1]
        data = b"".join(record.data for record in records)
        rows = array("q")
        for record in records:
            rows.extend((record.seq, record.chat, len(record.data)))
        journal_ends = list(_find_journal_ends(self._layout, records))
        total = crc32(data)
        batch = IndexLine(self._written, upto, segment.size, total, rows.tolist(), journal_ends)
        write_all(segment.data, data)
        write_all(segment.index, encode_checksummed(batch))
        self._batches.append(_BatchPosition(segment, upto, segment.size, len(data), total, rows))
        segment.size += len(data)
        segment.records += len(records)
        self.position = self._written = upto

    def _add_segment(self) -> None:
        with suppress(FileExistsError):
            os.mkdir(self._layout.events, 0o700)
        if not self._segments:
            self.first = self._written
        self._segments.append(_open_segment(self._layout, self._written, os.O_CREAT | os.O_EXCL))
        if len(self._segments) > MAX_SEGMENTS:
            oldest = self._segments.pop(0)
            self._batches = [one for one in self._batches if one.segment is not oldest]
            self.first = self._segments[0].after
            oldest.close()
            for path in self._layout.get_event_paths(oldest.after):
                with suppress(FileNotFoundError):
                    os.unlink(path)


def _split_batches(records: Sequence[EncodedRecord]) -> Iterator[Sequence[EncodedRecord]]:
    begin = size = 0
    for place, record in enumerate(records, 1):
        size += len(record.data)
        if size >= BATCH_BYTES or place == len(records):
            yield records[begin:place]
            begin, size = place, 0


def _select_rows(
    given: "array[int]",
    data: bytes,
    span: tuple[int, int],
    chats: frozenset[int] | None,
    pieces: list[bytes],
    rows: "array[int]",
) -> None:
    """Add the selected records of one batch; all at once if possible."""
    after, upto = span
    if chats is None and given[0] > after and given[-3] <= upto:
        pieces.append(data)
        rows.extend(given)
        return
    at = 0
    for seq, chat, size in iter_rows(given):
        if after < seq <= upto and (chats is None or chat in chats):
            pieces.append(data[at : at + size])
            rows.extend((seq, chat, size))
        at += size


def _open_segment(layout: Layout, after: int, flags: int = 0) -> _Segment:
    data, index = layout.get_event_paths(after)
    first = os.open(data, _FLAGS | flags, 0o600)
    try:
        return _Segment(after, first, os.open(index, _FLAGS | flags, 0o600))
    except OSError:
        os.close(first)
        raise


def _find_journal_ends(
    layout: Layout, records: Sequence[EncodedRecord]
) -> Iterator[tuple[int, int, str]]:
    """Yield for each chat where its last record ends in the journal, and its checksum."""
    last = {record.chat: record.size for record in records}
    for chat, size in last.items():
        checksum = _read_checksum(layout, chat, size)
        if checksum is None:
            raise OSError(f"the journal of chat {chat} has changed")
        yield chat, size, checksum


def _read_checksum(
    layout: Layout, chat: int, size: int, next_after: int | None = None
) -> str | None:
    """Return the checksum of the journal line that ends at a byte; None if none ends there.

    With ``next_after``, the line that follows, if any, must be of a later record than that.
    """
    try:
        fd = open_journal_file(layout, chat)
    except OSError:
        return None
    try:
        found = os.pread(fd, CHECKSUM_SIZE + 65, max(size - CHECKSUM_SIZE - 1, 0))
    finally:
        os.close(fd)
    end, rest = found[: CHECKSUM_SIZE + 1], found[CHECKSUM_SIZE + 1 :]
    head = _HEAD.match(rest)
    if next_after is not None and rest and not (head and int(head[1]) > next_after):
        return None
    checksum = re.fullmatch(rb',"crc":"([0-9a-f]{8})"\}\n', end)
    return checksum[1].decode() if checksum else None


def _load_files(layout: Layout, found: _LoadedFiles) -> None:
    """Open the files, up to the first that does not continue the one before."""
    try:
        names = os.listdir(layout.events)
    except FileNotFoundError:
        return
    numbers = sorted(int(name.removesuffix(".sse")) for name in names
                     if name.endswith(".sse") and _NAME.fullmatch(name))  # fmt: skip
    for number in numbers[-MAX_SEGMENTS:]:
        if found.segments and number != found.position:
            raise OSError("files are missing in the middle")
        segment = _open_segment(layout, number)
        found.segments.append(segment)
        found.position = number
        ended = _load_segment(segment, found)
        if not ended:
            break
    if found.segments and len(numbers[-MAX_SEGMENTS:]) > len(found.segments):
        raise OSError("files are missing in the middle")


def _load_segment(segment: _Segment, found: _LoadedFiles) -> bool:
    """Load the batches of a segment; return False if its end is torn, which is cut off."""
    infos = [os.fstat(fd) for fd in (segment.data, segment.index)]
    for info in infos:
        ours = info.st_uid == os.geteuid() and modes.S_ISREG(info.st_mode)
        if not ours or can_others_write(info):
            raise OSError("other users can write its files")
    there = infos[0].st_size
    index = os.pread(segment.index, infos[1].st_size, 0)
    sound = 0
    for line in index.splitlines(keepends=True):
        try:
            batch = _index_decoder.decode(decode_checksummed(line))
        except (ChecksumMismatch, msgspec.DecodeError):
            break
        rows = array("q", batch.rows)
        size = sum(rows[2::3])
        if batch.after != found.position or batch.at != segment.size or not rows:
            raise OSError("its index is inconsistent")
        if segment.size + size > there or not line.endswith(b"\n"):
            break
        found.batches.append(_BatchPosition(segment, batch.upto, batch.at, size, batch.sum, rows))
        found.position = batch.upto
        for chat, end, checksum in batch.journal_ends:
            found.journal_ends[chat] = (end, checksum)
        segment.size += size
        segment.records += len(rows) // 3
        sound += len(line)
    os.ftruncate(segment.index, sound)
    os.ftruncate(segment.data, segment.size)
    return sound == len(index)


def _find_mismatch(
    layout: Layout, found: _LoadedFiles, chats: Iterable[JournalState], latest: int
) -> str:
    """Describe how the files disagree with the journals; empty if they agree."""
    if not found.batches:
        return ""
    if found.position > latest:
        return "it is ahead of the journals"
    first = found.segments[0].after
    known = set()
    for chat in chats:
        known.add(chat.id)
        end = found.journal_ends.get(chat.id)
        if end is None:
            if first < chat.seq <= found.position:
                return f"events of chat {chat.id} are missing"
        elif (
            chat.size < end[0] or _read_checksum(layout, chat.id, end[0], found.position) != end[1]
        ):
            return f"it differs from the journal of chat {chat.id}"
    return (
        "" if found.journal_ends.keys() <= known else "it has events of a chat that does not exist"
    )
