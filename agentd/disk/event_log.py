"""The events of the last records, encoded, so that a replay reads bytes instead of journals.

It is a cache that may be deleted at any time. It holds all events after one seq up to another,
without a hole, and is believed only where it agrees with the journals: each batch names, for
every chat in it, the seal of the journal line that it ends with. Nothing is synced.
Every method blocks, and belongs to one thread.
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

from agentd.chats.fold import Summary
from agentd.disk.document import write_all
from agentd.disk.layout import Layout
from agentd.disk.lines import SEAL, Broken, seal, unseal
from agentd.disk.load import open_journal
from agentd.wire.portion import PORTION, Encoded, Portion, triples

log = logging.getLogger(__name__)

SEGMENTS = 5
"""Older ones are deleted."""
SEGMENT_BYTES = 16 * 1024 * 1024
SEGMENT_RECORDS = 12_500

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NAME = re.compile(r"(0|[1-9][0-9]{0,15})\.(sse|jsonl)")
_HEAD = re.compile(rb'\{"n":[0-9]+,"seq":([0-9]+),')


class Batch(Struct, frozen=True):
    """One line of an index file: what a stretch of the data file beside it holds."""

    after: int
    upto: int
    at: int
    sum: int
    rows: list[int]
    stands: list[tuple[int, int, str]]


_batches = msgspec.json.Decoder(Batch)


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
    def full(self) -> bool:
        return self.size >= SEGMENT_BYTES or self.records >= SEGMENT_RECORDS


class _Stretch(Struct, eq=False):
    """A batch in memory: where it is, and of which records."""

    segment: _Segment
    upto: int
    at: int
    size: int
    sum: int
    rows: "array[int]"


class _Found(Struct):
    """What the files hold, as far as they agree with each other."""

    segments: list[_Segment] = []
    stretches: list[_Stretch] = []
    stands: dict[int, tuple[int, str]] = {}
    position: int = 0


class EventLog:
    """All events after ``first`` up to ``position``; empty where the two are one."""

    def __init__(self, layout: Layout, latest: int, chats: Iterable[Summary]) -> None:
        self.first = self.position = latest
        self._layout = layout
        self._chats: list[Summary] | None = list(chats)
        self._segments: list[_Segment] = []
        self._stretches: list[_Stretch] = []
        self._written = latest
        """The seq up to which the files tell."""

    def open(self) -> None:
        """Take over what an earlier life left, if it can be believed; only the first time.

        ``chats`` are as they were at start: what is on disk is measured by them.
        """
        if self._chats is None:
            return
        chats, self._chats = self._chats, None
        found = _Found()
        try:
            _load(self._layout, found)
            trouble = _disagreement(self._layout, found, chats, self.position)
        except OSError as error:
            trouble = str(error)
        self._segments = found.segments
        if trouble or not found.stretches:
            if trouble:
                log.info("the log of events begins anew: %s", trouble)
            self.begin(self.position)
            return
        self._stretches = found.stretches
        self.first = found.segments[0].after
        self.position = self._written = found.position

    def begin(self, at: int) -> None:
        """Forget everything; the log is empty and stands at this seq."""
        for segment in self._segments:
            segment.close()
        self._segments, self._stretches = [], []
        self.first = self.position = self._written = at
        with suppress(OSError):
            for name in os.listdir(self._layout.events):
                if _NAME.fullmatch(name):
                    os.unlink(os.path.join(self._layout.events, name))

    def extend(self, after: int, upto: int, records: Sequence[Encoded]) -> None:
        """Take in all events after one seq up to another.

        Where they do not continue what is here, they replace it. Raises ``OSError`` when they
        cannot be written; the log is then empty.
        """
        if not self.first <= after <= self.position:
            self.begin(after)
        records = [record for record in records if record.seq > self.position]
        try:
            for batch in _portions(records):
                self._append(batch, upto if batch[-1] is records[-1] else batch[-1].seq)
        except OSError:
            self.begin(upto)
            raise
        self.position = max(self.position, upto)

    def read(self, after: int, upto: int, chats: frozenset[int] | None) -> Portion | None:
        """The next portion of the events after one seq up to another; empty at the end.

        Only those of some ``chats`` where these are named. None when they are not here, or what
        is here is no longer what was written; then all of it is forgotten.
        """
        if not self.first <= after <= upto <= self.position:
            return None
        pieces: list[bytes] = []
        rows: array[int] = array("q")
        place = bisect_right(self._stretches, after, key=lambda stretch: stretch.upto)
        read, reached = 0, upto
        for stretch in self._stretches[place:]:
            if stretch.rows[0] > upto:
                break
            if read >= PORTION:
                return Portion(reached, b"".join(pieces), rows)
            reached = min(stretch.upto, upto)
            if chats is not None and chats.isdisjoint(stretch.rows[1::3]):
                continue
            data = os.pread(stretch.segment.data, stretch.size, stretch.at)
            if crc32(data) != stretch.sum:
                log.warning("the log of events was altered; it begins anew")
                self.begin(self.position)
                return None
            read += len(data)
            _pick(stretch.rows, data, (after, upto), chats, pieces, rows)
        return Portion(upto, b"".join(pieces), rows)

    def close(self) -> None:
        """Let go of the files."""
        for segment in self._segments:
            segment.close()
        self._segments, self._stretches = [], []

    def _append(self, records: Sequence[Encoded], upto: int) -> None:
        if not self._segments or self._segments[-1].full:
            self._add_segment()
        segment = self._segments[-1]
        data = b"".join(record.data for record in records)
        rows = array("q")
        for record in records:
            rows.extend((record.seq, record.chat, len(record.data)))
        stands = list(_stands(self._layout, records))
        total = crc32(data)
        batch = Batch(self._written, upto, segment.size, total, rows.tolist(), stands)
        write_all(segment.data, data)
        write_all(segment.index, seal(batch))
        self._stretches.append(_Stretch(segment, upto, segment.size, len(data), total, rows))
        segment.size += len(data)
        segment.records += len(records)
        self.position = self._written = upto

    def _add_segment(self) -> None:
        with suppress(FileExistsError):
            os.mkdir(self._layout.events, 0o700)
        if not self._segments:
            self.first = self._written
        self._segments.append(_opened(self._layout, self._written, os.O_CREAT | os.O_EXCL))
        if len(self._segments) > SEGMENTS:
            oldest = self._segments.pop(0)
            self._stretches = [one for one in self._stretches if one.segment is not oldest]
            self.first = self._segments[0].after
            oldest.close()
            for path in self._layout.event_files(oldest.after):
                with suppress(FileNotFoundError):
                    os.unlink(path)


def _portions(records: Sequence[Encoded]) -> Iterator[Sequence[Encoded]]:
    begin = size = 0
    for place, record in enumerate(records, 1):
        size += len(record.data)
        if size >= PORTION or place == len(records):
            yield records[begin:place]
            begin, size = place, 0


def _pick(
    given: "array[int]",
    data: bytes,
    span: tuple[int, int],
    chats: frozenset[int] | None,
    pieces: list[bytes],
    rows: "array[int]",
) -> None:
    """Add what is wanted of one stretch; all of it at once where that can be."""
    after, upto = span
    if chats is None and given[0] > after and given[-3] <= upto:
        pieces.append(data)
        rows.extend(given)
        return
    at = 0
    for seq, chat, size in triples(given):
        if after < seq <= upto and (chats is None or chat in chats):
            pieces.append(data[at : at + size])
            rows.extend((seq, chat, size))
        at += size


def _opened(layout: Layout, after: int, flags: int = 0) -> _Segment:
    data, index = layout.event_files(after)
    first = os.open(data, _FLAGS | flags, 0o600)
    try:
        return _Segment(after, first, os.open(index, _FLAGS | flags, 0o600))
    except OSError:
        os.close(first)
        raise


def _stands(layout: Layout, records: Sequence[Encoded]) -> Iterator[tuple[int, int, str]]:
    """For each chat of these records: where its last one ends in the journal, and its seal."""
    last = {record.chat: record.size for record in records}
    for chat, size in last.items():
        sealed = _seal_at(layout, chat, size)
        if sealed is None:
            raise OSError(f"the journal of chat {chat} is not what it was")
        yield chat, size, sealed


def _seal_at(layout: Layout, chat: int, size: int, next_after: int | None = None) -> str | None:
    """The seal of the journal line that ends at a byte; None where none does.

    With ``next_after``, the line that follows, if any, must be of a later record than that.
    """
    try:
        fd = open_journal(layout, chat)
    except OSError:
        return None
    try:
        found = os.pread(fd, SEAL + 65, max(size - SEAL - 1, 0))
    finally:
        os.close(fd)
    end, rest = found[: SEAL + 1], found[SEAL + 1 :]
    head = _HEAD.match(rest)
    if next_after is not None and rest and not (head and int(head[1]) > next_after):
        return None
    sealed = re.fullmatch(rb',"crc":"([0-9a-f]{8})"\}\n', end)
    return sealed[1].decode() if sealed else None


def _load(layout: Layout, found: _Found) -> None:
    """Open what is there, up to the first thing that does not fit."""
    try:
        names = os.listdir(layout.events)
    except FileNotFoundError:
        return
    numbers = sorted(int(name.removesuffix(".sse")) for name in names
                     if name.endswith(".sse") and _NAME.fullmatch(name))  # fmt: skip
    for number in numbers[-SEGMENTS:]:
        if found.segments and number != found.position:
            raise OSError("it has a hole")
        segment = _opened(layout, number)
        found.segments.append(segment)
        found.position = number
        ended = _take_in(segment, found)
        if not ended:
            break
    if found.segments and len(numbers[-SEGMENTS:]) > len(found.segments):
        raise OSError("it has a hole")


def _take_in(segment: _Segment, found: _Found) -> bool:
    """One segment's batches; False when it ends torn, which is cut off."""
    infos = [os.fstat(fd) for fd in (segment.data, segment.index)]
    for info in infos:
        ours = info.st_uid == os.geteuid() and modes.S_ISREG(info.st_mode)
        if not ours or info.st_mode & (modes.S_IWGRP | modes.S_IWOTH):
            raise OSError("a file of it is not ours alone")
    there = infos[0].st_size
    index = os.pread(segment.index, infos[1].st_size, 0)
    sound = 0
    for line in index.splitlines(keepends=True):
        try:
            batch = _batches.decode(unseal(line))
        except (Broken, msgspec.DecodeError):
            break
        rows = array("q", batch.rows)
        size = sum(rows[2::3])
        if batch.after != found.position or batch.at != segment.size or not rows:
            raise OSError("its parts do not fit")
        if segment.size + size > there or not line.endswith(b"\n"):
            break
        found.stretches.append(_Stretch(segment, batch.upto, batch.at, size, batch.sum, rows))
        found.position = batch.upto
        for chat, end, sealed in batch.stands:
            found.stands[chat] = (end, sealed)
        segment.size += size
        segment.records += len(rows) // 3
        sound += len(line)
    os.ftruncate(segment.index, sound)
    os.ftruncate(segment.data, segment.size)
    return sound == len(index)


def _disagreement(layout: Layout, found: _Found, chats: Iterable[Summary], latest: int) -> str:
    """Why the journals do not bear out what the files hold; empty when they do."""
    if not found.stretches:
        return ""
    if found.position > latest:
        return "it is from the future"
    first = found.segments[0].after
    known = set()
    for chat in chats:
        known.add(chat.id)
        stand = found.stands.get(chat.id)
        if stand is None:
            if first < chat.seq <= found.position:
                return f"it knows nothing of chat {chat.id}"
        elif (
            chat.size < stand[0] or _seal_at(layout, chat.id, stand[0], found.position) != stand[1]
        ):
            return f"it is not what the journal of chat {chat.id} says"
    return "" if found.stands.keys() <= known else "it knows a chat that is gone"
