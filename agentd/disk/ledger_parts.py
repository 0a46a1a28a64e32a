"""Files of rows by name: a head that tells where everything is, then the rows in small slices.

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

from agentd.disk.lines import Broken, seal, unseal

T = TypeVar("T")

SLICE = 16 * 1024
"""Bytes above which a slice ends: a question about one row reads as much."""
PAUSE = 0.0002
"""Seconds in which other threads have their turn ..."""
PAUSE_EVERY = 128 * 1024
"""... each time that so many bytes were read."""
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Place(Struct, array_like=True, frozen=True, gc=False):
    """Where a part is: its first byte after the head, and of each slice its first row and bytes."""

    at: int
    names: list[str]
    sizes: list[int]


class _Slice(Struct, Generic[T], frozen=True):
    rows: T


Rows: TypeAlias = Iterable[tuple[str, object]]
"""Each with its name, in the order of the names; several may share one."""

Decoder: TypeAlias = "msgspec.json.Decoder[_Slice[list[tuple[str, T]]]]"


def decoder(kind: Any) -> "Decoder[Any]":
    """What reads rows of a kind."""
    return msgspec.json.Decoder(_Slice[list[tuple[str, kind]]])


def laid_out(parts: Mapping[str, Rows]) -> tuple[dict[str, Place], list[bytes]]:
    """Where each part will be, and the lines of them all."""
    places, lines, at = {}, [], 0
    for part, rows in parts.items():
        place = places[part] = Place(at, [], [])
        for name, slice_ in _slices(rows):
            place.names.append(name)
            place.sizes.append(len(slice_))
            lines.append(slice_)
            at += len(slice_)
    return places, lines


def head_of(path: str, kind: "msgspec.json.Decoder[T]") -> tuple[T, int]:
    """A file's head, and its bytes. Raises ``Broken`` or ``OSError``."""
    with open(os.open(path, _READ), "rb") as file:
        line = file.readline()
    return _decoded(kind, line), len(line)


class Parts:
    """The parts of a file, whose head has so many bytes.

    What is read raises ``Broken`` where it was altered, and ``OSError``.
    """

    def __init__(self, path: str, head: int, places: Mapping[str, Place]) -> None:
        self._path = path
        self._head = head
        self._places = places

    def __contains__(self, part: str) -> bool:
        """Whether there is such a part."""
        return part in self._places

    def slices(
        self, part: str, kind: "Decoder[T]", names: Collection[str] | None = None
    ) -> Iterator[list[tuple[str, T]]]:
        """Every row, or those of some names, in their order: as many at once as a slice has."""
        firsts = self._places[part].names
        numbers: Iterable[int] = range(len(firsts))
        if names is not None and len(names) < len(firsts):
            numbers = _holding(firsts, sorted(names))
        for rows in self._read(part, kind, numbers):
            yield rows if names is None else [row for row in rows if row[0] in names]

    def _read(
        self, part: str, kind: "Decoder[T]", numbers: Iterable[int]
    ) -> Iterator[list[tuple[str, T]]]:
        """The slices of these numbers."""
        place = self._places[part]
        begins = list(accumulate(place.sizes, initial=self._head + place.at))
        since = 0
        fd = os.open(self._path, _READ)
        try:
            for number in numbers:
                size = place.sizes[number]
                try:
                    yield _decoded(kind, os.pread(fd, size, begins[number])).rows
                except Broken as error:
                    raise Broken(f"its part {part}: {error}") from error
                since += size
                if since >= PAUSE_EVERY:
                    since = 0
                    time.sleep(PAUSE)
        finally:
            os.close(fd)


def _holding(firsts: Sequence[str], names: Sequence[str]) -> Iterator[int]:
    """The numbers of the slices that may hold some names; both are in order."""
    at = end = 0
    while at < len(names):
        begin = max(bisect_left(firsts, names[at]) - 1, end, 0)
        end = max(bisect_right(firsts, names[at]), end)
        yield from range(begin, end)
        if end == len(firsts):
            return
        at = bisect_left(names, firsts[end], at)  # those before it are in what was told


def _slices(rows: Rows) -> Iterator[tuple[str, bytes]]:
    """The name of the first row of each slice, and its line."""
    first, held, size = "", list[Raw](), 0
    for name, row in rows:
        if size >= SLICE:
            yield first, seal(_Slice(held))
            held, size = [], 0
        first = first if held else name
        held.append(Raw(msgspec.json.encode((name, row))))
        size += len(held[-1])
    if held:
        yield first, seal(_Slice(held))


def _decoded(kind: "msgspec.json.Decoder[T]", line: bytes) -> T:
    try:
        return kind.decode(unseal(line))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Broken(f"it is of an unknown form: {error}") from error
