"""What a build says: its beginning and its end are kept, the rest is counted.

Written to by the thread that reads the build's output, and read by the daemon's loop.
"""

from codecs import getincrementaldecoder
from collections.abc import Collection
from threading import Lock
from typing import NamedTuple

from agentd.workspace.build import Said
from agentd.workspace.problems import Finder, ToolName

KEPT = 5 * 2**20
"""Bytes of the beginning, and as many of the end, that are kept."""
TOLD = 16 * 1024
"""Bytes that are told at a time to those who listen; what is older is passed over."""


def decode_part(data: bytes) -> tuple[str, int]:
    """Return the text of a part of an output, and how many bytes at its end are half a character.

    These are not in the text: the rest of the character may come yet.
    """
    decoder = getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data)
    return text, len(decoder.getstate()[0])


def last_lines(data: bytes, count: int) -> bytes:
    """Return the last lines of an output, the last of which need not be whole."""
    begin = len(data) - data.endswith(b"\n")
    for _ in range(count):
        begin = data.rfind(b"\n", 0, begin)
        if begin < 0:
            return data
    return data[begin + 1 :]


class News(NamedTuple):
    """What was said since the last time, but for ``skipped`` bytes before it."""

    text: str
    skipped: int


class Transcript:
    """One run's output, and the problems in it; ``kept`` bytes of each end stay."""

    def __init__(self, tools: Collection[ToolName] = (), kept: int = KEPT) -> None:
        self._lock = Lock()
        self._kept = kept
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0
        self._omitted = 0
        self._news = bytearray()
        self._skipped = 0
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._finder = Finder(tools)

    def take(self, data: bytes) -> None:
        """It said this."""
        with self._lock:
            self._size += len(data)
            room = self._kept - len(self._head)
            self._head += data[:room] if room > 0 else b""
            self._tail += data[max(room, 0) :]
            if len(self._tail) > 2 * self._kept:  # not at each: moving the rest costs
                self._omitted += len(self._tail) - self._kept
                del self._tail[: -self._kept]
            self._news += data
            if len(self._news) > 2 * TOLD:
                self._skipped += len(self._news) - TOLD
                del self._news[:-TOLD]
            self._finder.feed(data)

    def end(self) -> None:
        """It says no more."""
        with self._lock:
            self._finder.end()
            surplus = len(self._tail) - self._kept
            if surplus > 0:
                self._omitted += surplus
                del self._tail[:surplus]

    def news(self) -> News | None:
        """What nobody was told so far; None when there is nothing."""
        with self._lock:
            if not self._news:
                return None
            surplus = max(len(self._news) - TOLD, 0)
            skipped = self._skipped + surplus
            if skipped:
                self._decoder.reset()
            text = self._decoder.decode(bytes(self._news[surplus:]))
            self._news.clear()
            self._skipped = 0
        return News(text, skipped)

    def said(self) -> Said:
        """What it amounts to so far."""
        with self._lock:
            finder = self._finder
            problems = tuple(finder.problems)
            return Said(finder.errors, finder.warnings, problems, self._size, self._omitted)

    def output(self) -> bytes:
        """What is kept, with a line in the place of what is not."""
        with self._lock:
            if not self._omitted:
                return bytes(self._head + self._tail)
            gap = b"\n[agentd: %d bytes are left out here]\n" % self._omitted
            return bytes(self._head + gap + self._tail)
