"""One day's file of the ledger: sealed lines, read forwards, backwards, and mended at its end.

Everything here blocks.
"""

import contextlib
import logging
import os
import re
import time
from collections.abc import Iterator
from zlib import crc32

import msgspec
from msgspec import Struct, field, structs

from agentd.disk.document import trouble
from agentd.disk.lines import Broken, unseal
from agentd.proxy.entry import Entry

log = logging.getLogger(__name__)

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 64 * 1024
"""Bytes read at once: between two reads, other threads have their turn."""
_DAY = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})\.jsonl?")
_MOST_MONEY = 12
"""Digits before the point of what a request can cost: what has more is no cost."""

_entries = msgspec.json.Decoder(Entry)


class Damaged(Struct, frozen=True):
    """A line that is not sound, with a sound one somewhere after it."""

    line: int
    offset: int
    reason: str


class Standing(Struct):
    """How far a day's file was read, and what stood there: its first ``size`` bytes."""

    size: int = 0
    lines: int = 0
    sum: int = 0
    """The CRC-32 of those bytes."""
    damaged: list[Damaged] = field(default_factory=list)


def days_in(folder: str) -> list[str]:
    """The days that have a file in a folder, in order."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise trouble(folder, "read", error) from error
    return sorted(match[1] for name in names if (match := _DAY.fullmatch(name)))


def entry_in(line: bytes) -> Entry:
    """The request of one sealed line; ``Broken`` when it is none."""
    try:
        entry = _entries.decode(unseal(line))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Broken(f"a sound line of an unknown form: {error}") from error
    if not entry.cost.is_finite() or entry.cost.adjusted() > _MOST_MONEY:
        raise Broken("a sound line whose cost is none")
    counts = entry.received, entry.sent, *entry.hidden.values(), *structs.astuple(entry.usage)
    if entry.cost < 0 or min(counts) < 0:
        raise Broken("a sound line with less than nothing")
    return entry


def read_on(path: str, standing: Standing, upto: int | None = None) -> Iterator[Entry]:
    """The requests after a standing, which moves on with them, up to a byte or the file's end.

    Lines that are not sound are noted as damaged once a sound one follows; at the very end they
    may be a write on its way, and are left for later. Raises ``OSError``.
    """
    doubtful: list[Damaged] = []
    waiting = b""
    for line in lines_of(path, standing.size, upto):
        number = standing.lines + len(doubtful) + 1
        try:
            if not line.endswith(b"\n"):
                raise Broken("it has no end")
            entry = entry_in(line)
        except Broken as error:
            at = standing.size + len(waiting)
            doubtful.append(Damaged(number, at, str(error)))
            waiting += line
            continue
        standing.damaged += doubtful
        standing.size += len(waiting) + len(line)
        standing.sum = crc32(line, crc32(waiting, standing.sum))
        standing.lines = number
        doubtful, waiting = [], b""
        yield entry


def lines_of(path: str, begin: int = 0, upto: int | None = None) -> Iterator[bytes]:
    """Each line between two bytes of a file as it stands; the last one may have no end."""
    with open(os.open(path, _READ), "rb", buffering=0) as file:
        file.seek(begin)
        rest, left = b"", float("inf") if upto is None else upto - begin
        while left > 0 and (data := file.read(int(min(_CHUNK, left)))):
            left -= len(data)
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                yield line + b"\n"
        if rest:
            yield rest


def sum_of(path: str, size: int) -> int:
    """The CRC-32 of the first bytes of a file, and of all of a shorter one."""
    found = 0
    with open(os.open(path, _READ), "rb", buffering=0) as file:
        while size > 0 and (data := file.read(min(16 * _CHUNK, size))):
            found = crc32(data, found)
            size -= len(data)
    return found


def backwards(fd: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Each line before a byte with its offset, the last one first; only the last has no end."""
    rest = b""
    while end > 0:
        begin = max(end - _CHUNK, 0)
        data = os.pread(fd, end - begin, begin) + rest
        pieces = data.splitlines(keepends=True) if b"\r" not in data else _pieces(data)
        at = begin + len(data)
        for piece in reversed(pieces[1:]):
            at -= len(piece)
            yield at, piece
        rest, end = pieces[0] if pieces else b"", begin
    if rest:
        yield 0, rest


def holding(fd: int, begin: int, end: int, what: bytes) -> Iterator[tuple[int, bytes]]:
    """Each line between two line ends that has some bytes in it, as ``backwards``: much faster."""
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


def line_begin(fd: int, at: int) -> int:
    """Where the first line begins at or after a byte; the file's end where there is none."""
    if at <= 0:
        return 0
    at -= 1
    while data := os.pread(fd, _CHUNK, at):
        if (found := data.find(b"\n")) >= 0:
            return at + found + 1
        at += len(data)
    return at


def _pieces(data: bytes) -> list[bytes]:
    *whole, rest = data.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


def mend(fd: int, path: str) -> int:
    """The size of a day's file, after what follows its last sound line was cut off.

    That is the end of a write that a crash cut short, and is kept beside the file as
    ``<file>.torn-<ns>``. Raises ``OSError``.
    """
    size = os.fstat(fd).st_size
    sound = next((at + len(line) for at, line in backwards(fd, size) if _is_sound(line)), 0)
    if sound == size:
        return size
    aside = f"{path}.torn-{time.time_ns()}"
    log.error("%s ends torn: %d bytes were set aside as %s", path, size - sound, aside)
    with open(os.open(aside, _WRITE, 0o600), "wb") as file:
        for at in range(sound, size, _CHUNK):
            file.write(os.pread(fd, min(_CHUNK, size - at), at))
        file.flush()
        os.fsync(file.fileno())
    os.ftruncate(fd, sound)
    os.fsync(fd)
    return sound


def _is_sound(line: bytes) -> bool:
    with contextlib.suppress(Broken):
        return line.endswith(b"\n") and bool(unseal(line))
    return False
