"""Files of rows by name: a header with an index, then the rows in small slices.

Each line is sealed. What is asked reads only the slices that it is about, and reading one keeps no
other thread waiting for longer than a few milliseconds. Everything here blocks.
"""

import os
import time
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct

from agentd.storage.checksummed_json import ChecksumMismatch, decode_checksummed, encode_checksummed

T = TypeVar("T")

SLICE_BYTES = 16 * 1024
"""Bytes above which a slice ends: a question about one row reads as much."""
PAUSE = 0.0002
"""Seconds in which other threads have their turn ..."""
PAUSE_EVERY = 128 * 1024
"""... each time that so many bytes were read."""
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class SliceIndex(Struct, array_like=True, frozen=True, gc=False):
    """The position of a part: its first byte after the header; first row and bytes per slice."""

    at: int
    names: list[str]
    sizes: list[int]


class _Slice(Struct, Generic[T], frozen=True):
    rows: T


Rows: TypeAlias = Iterable[tuple[str, object]]
"""Each with its name, in the order of the names; several may share one."""

Decoder: TypeAlias = "msgspec.json.Decoder[_Slice[list[tuple[str, T]]]]"


def create_decoder(kind: Any) -> "Decoder[Any]":
    """Return the decoder for rows of a kind."""
    return msgspec.json.Decoder(_Slice[list[tuple[str, kind]]])


def encode_table(parts: Mapping[str, Rows]) -> tuple[dict[str, SliceIndex], list[bytes]]:
    """Return the position of each part, and the lines of all parts."""
    places, lines, at = {}, [], 0
    for part, rows in parts.items():
        place = places[part] = SliceIndex(at, [], [])
        for name, slice_ in _encode_slices(rows):
            place.names.append(name)
            place.sizes.append(len(slice_))
            lines.append(slice_)
            at += len(slice_)
    return places, lines


def read_header(path: str, kind: "msgspec.json.Decoder[T]") -> tuple[T, int]:
    """Return a file's head, and its bytes. Raises ``ChecksumMismatch`` or ``OSError``."""
    with open(os.open(path, _READ_FLAGS), "rb") as file:
        line = file.readline()
    return _decode(kind, line), len(line)


class SlicedTable:
    """The parts of a file, whose head has so many bytes.

    What is read raises ``ChecksumMismatch`` where it was altered, and ``OSError``.
    """

    def __init__(self, path: str, head: int, places: Mapping[str, SliceIndex]) -> None:
        self._path = path
        self._head = head
        self._parts = places

    def __contains__(self, part: str) -> bool:
        """Return whether there is such a part."""
        return part in self._parts

    def iter_slices(
        self, part: str, kind: "Decoder[T]", names: Collection[str] | None = None
    ) -> Iterator[list[tuple[str, T]]]:
        """Iterate over every row, or those of some names, in order, one slice at a time."""
        firsts = self._parts[part].names
        numbers: Iterable[int] = range(len(firsts))
        if names is not None and len(names) < len(firsts):
            numbers = _find_slices(firsts, sorted(names))
        for rows in self._read_slices(part, kind, numbers):
            yield rows if names is None else [row for row in rows if row[0] in names]

    def _read_slices(
        self, part: str, kind: "Decoder[T]", numbers: Iterable[int]
    ) -> Iterator[list[tuple[str, T]]]:
        """Yield the slices of these numbers."""
        place = self._parts[part]
        begins = list(accumulate(place.sizes, initial=self._head + place.at))
        since = 0
        fd = os.open(self._path, _READ_FLAGS)
        try:
            for number in numbers:
                size = place.sizes[number]
                try:
                    yield _decode(kind, os.pread(fd, size, begins[number])).rows
                except ChecksumMismatch as error:
                    raise ChecksumMismatch(f"its part {part}: {error}") from error
                since += size
                if since >= PAUSE_EVERY:
                    since = 0
                    time.sleep(PAUSE)
        finally:
            os.close(fd)


def _find_slices(firsts: Sequence[str], names: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of the slices that may hold some names; both are in order."""
    at = end = 0
    while at < len(names):
        begin = max(bisect_left(firsts, names[at]) - 1, end, 0)
        end = max(bisect_right(firsts, names[at]), end)
        yield from range(begin, end)
        if end == len(firsts):
            return
        at = bisect_left(names, firsts[end], at)  # those before it were already yielded


def _encode_slices(rows: Rows) -> Iterator[tuple[str, bytes]]:
    """Yield the name of the first row of each slice, and its line."""
    first, held, size = "", list[Raw](), 0
    for name, row in rows:
        if size >= SLICE_BYTES:
            yield first, encode_checksummed(_Slice(held))
            held, size = [], 0
        first = first if held else name
        held.append(Raw(msgspec.json.encode((name, row))))
        size += len(held[-1])
    if held:
        yield first, encode_checksummed(_Slice(held))


def _decode(kind: "msgspec.json.Decoder[T]", line: bytes) -> T:
    try:
        return kind.decode(decode_checksummed(line))
    except msgspec.DecodeError as error:
        raise ChecksumMismatch(f"it is of an unknown form: {error}") from error
