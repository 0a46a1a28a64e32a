"""A day's file of the ledger: checksummed lines, read in both directions, its end repaired.

Everything here blocks.
"""

import logging
import os
import re
import time
from collections.abc import Iterator
from zlib import crc32

import msgspec
from msgspec import Struct, field, structs

from agentd.gateway.ledger.record import RequestRecord
from agentd.storage.checksummed_json import ChecksumMismatch, decode_checksummed, has_valid_checksum
from agentd.storage.document import explain_os_error

log = logging.getLogger(__name__)

_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 64 * 1024
"""Bytes read at once: between two reads, other threads have their turn."""
_DAY = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})\.jsonl?")
_MAX_COST_DIGITS = 12
"""Digits before the point of what a request can cost: what has more is no cost."""

_decoder = msgspec.json.Decoder(RequestRecord)


class CorruptLine(Struct, frozen=True):
    """A corrupt line, with a valid one somewhere after it."""

    line: int
    offset: int
    reason: str


class ReadPosition(Struct):
    """The position in a day's file: its first ``size`` bytes were read."""

    size: int = 0
    lines: int = 0
    sum: int = 0
    """The CRC-32 of those bytes."""
    corrupt_lines: list[CorruptLine] = field(default_factory=list, name="damaged")

    def copy(self) -> "ReadPosition":
        """Return the same, to be advanced."""
        return structs.replace(self, corrupt_lines=list(self.corrupt_lines))


def list_days(folder: str) -> list[str]:
    """Return the days that have a file in a folder, in order."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise explain_os_error(folder, "read", error) from error
    return sorted(match[1] for name in names if (match := _DAY.fullmatch(name)))


def decode_record(line: bytes) -> RequestRecord:
    """Decode one checksummed line. Raises ``ChecksumMismatch`` if it is corrupt."""
    try:
        entry = _decoder.decode(decode_checksummed(line))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ChecksumMismatch(f"the checksum is valid but the record is not: {error}") from error
    check_amounts(entry)
    return entry


def check_amounts(entry: RequestRecord) -> None:
    """Raise ``ChecksumMismatch`` for amounts that no request can have."""
    if not entry.cost.is_finite() or entry.cost.adjusted() > _MAX_COST_DIGITS:
        raise ChecksumMismatch("the cost is not a valid amount")
    counts = entry.received, entry.sent, *entry.hidden.values(), *structs.astuple(entry.usage)
    if entry.cost < 0 or min(counts) < 0:
        raise ChecksumMismatch("an amount is negative")
    for one in entry.failed_tries:
        if not one.cost.is_finite() or not 0 <= one.cost <= entry.cost:
            raise ChecksumMismatch("the cost of a failed call is not a part of the cost")
        if min(structs.astuple(one.usage)) < 0:
            raise ChecksumMismatch("an amount is negative")


def read_records(
    path: str, position: ReadPosition, end: int | None = None
) -> Iterator[RequestRecord]:
    """Yield the records after a position, up to a byte or the file's end, and advance it.

    Corrupt lines are added to the position once a valid one follows; at the very end of the file
    they may be an unfinished write, and are left for later. Raises ``OSError``.
    """
    doubtful: list[CorruptLine] = []
    waiting = b""
    for line in iter_lines(path, position.size, end):
        number = position.lines + len(doubtful) + 1
        try:
            if not line.endswith(b"\n"):
                raise ChecksumMismatch("the line has no end")
            entry = decode_record(line)
        except ChecksumMismatch as error:
            at = position.size + len(waiting)
            doubtful.append(CorruptLine(number, at, str(error)))
            waiting += line
            continue
        position.corrupt_lines += doubtful
        position.size += len(waiting) + len(line)
        position.sum = crc32(line, crc32(waiting, position.sum))
        position.lines = number
        doubtful, waiting = [], b""
        yield entry


def iter_lines(path: str, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Yield each line between two bytes of a file; the last one may have no line end."""
    with open(os.open(path, _READ_FLAGS), "rb", buffering=0) as file:
        file.seek(begin)
        rest, left = b"", float("inf") if end is None else end - begin
        while left > 0 and (data := file.read(int(min(_CHUNK, left)))):
            left -= len(data)
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                yield line + b"\n"
        if rest:
            yield rest


def compute_checksum(path: str, size: int) -> int:
    """Return the CRC-32 of the first bytes of a file, and of all of a shorter one."""
    found = 0
    with open(os.open(path, _READ_FLAGS), "rb", buffering=0) as file:
        while size > 0 and (data := file.read(min(16 * _CHUNK, size))):
            found = crc32(data, found)
            size -= len(data)
    return found


def iter_lines_backwards(fd: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield each line before a byte with its offset, last line first; it may lack a line end."""
    rest = b""
    while end > 0:
        begin = max(end - _CHUNK, 0)
        data = os.pread(fd, end - begin, begin) + rest
        pieces = data.splitlines(keepends=True) if b"\r" not in data else _split_lines(data)
        at = begin + len(data)
        for piece in reversed(pieces[1:]):
            at -= len(piece)
            yield at, piece
        rest, end = pieces[0] if pieces else b"", begin
    if rest:
        yield 0, rest


def iter_lines_containing(
    fd: int, begin: int, end: int, what: bytes
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that contain some bytes, as ``iter_lines_backwards`` does, but faster."""
    rest = b""
    while end > begin:
        at = max(end - 4 * _CHUNK, begin)
        data = os.pread(fd, end - at, at) + rest
        cut = data.find(b"\n") + 1 or len(data) if at > begin else 0
        stop = len(data)
        while (found := data.rfind(what, cut, stop)) >= 0:
            stop = data.rfind(b"\n", 0, found) + 1
            yield at + stop, data[stop : data.find(b"\n", found) + 1 or len(data)]
        rest, end = data[:cut], at


def find_line_start(fd: int, at: int) -> int:
    """Return the offset of the first line that begins at or after ``at``, or the file's end."""
    if at <= 0:
        return 0
    at -= 1
    while data := os.pread(fd, _CHUNK, at):
        if (found := data.find(b"\n")) >= 0:
            return at + found + 1
        at += len(data)
    return at


def _split_lines(data: bytes) -> list[bytes]:
    *whole, rest = data.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


def repair_end(fd: int, path: str) -> int:
    """Return the size of a day's file, after what follows its last sound line was cut off.

    That is the end of a write that a crash cut short, and is kept beside the file as
    ``<file>.torn-<ns>``. Raises ``OSError``.
    """
    size = os.fstat(fd).st_size
    sound = next(
        (at + len(line) for at, line in iter_lines_backwards(fd, size) if _is_valid(line)), 0
    )
    if sound == size:
        return size
    aside = f"{path}.torn-{time.time_ns()}"
    log.error("%s ends torn: %d bytes were set aside as %s", path, size - sound, aside)
    with open(os.open(aside, _CREATE_FLAGS, 0o600), "wb") as file:
        for at in range(sound, size, _CHUNK):
            file.write(os.pread(fd, min(_CHUNK, size - at), at))
        file.flush()
        os.fsync(file.fileno())
    os.ftruncate(fd, sound)
    os.fsync(fd)
    return sound


def _is_valid(line: bytes) -> bool:
    return line.endswith(b"\n") and has_valid_checksum(line)
