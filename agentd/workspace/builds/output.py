"""The output of a build: its beginning and its end are kept, the rest is counted.

Written to by the thread that reads the build's output, and read by the daemon's loop.
"""

from codecs import getincrementaldecoder
from collections.abc import Collection
from threading import Lock
from typing import NamedTuple

from agentd.workspace.builds.build import BuildProgress
from agentd.workspace.builds.problems import ProblemFinder, ToolName

MAX_KEPT = 5 * 2**20
"""Bytes of the beginning, and as many of the end, that are kept."""
MAX_PUBLISHED = 16 * 1024
"""The maximum bytes published at a time; older output is skipped."""


def decode_part(data: bytes) -> tuple[str, int]:
    """Return the text of a part of an output, and how many bytes at its end are half a character.

    These are not in the text: the rest of the character may come yet.
    """
    decoder = getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data)
    return text, len(decoder.getstate()[0])


def take_last_lines(data: bytes, count: int) -> bytes:
    """Return the last lines of an output, the last of which need not be whole."""
    begin = len(data) - data.endswith(b"\n")
    for _ in range(count):
        begin = data.rfind(b"\n", 0, begin)
        if begin < 0:
            return data
    return data[begin + 1 :]


class OutputNews(NamedTuple):
    """The output since the last time, without ``skipped`` bytes before it."""

    text: str
    skipped: int
    offset: int
    """The offset of the first byte of ``text`` in the run's whole output ..."""
    end: int
    """... and of the byte behind it."""


class KeptOutput(NamedTuple):
    """The kept output of a run, and the number of bytes that the run has written in all."""

    data: bytes
    size: int


class BuildTranscript:
    """The output of a run, and the problems in it; ``kept`` bytes of each end stay."""

    def __init__(self, tools: Collection[ToolName] = (), kept: int = MAX_KEPT) -> None:
        self._lock = Lock()
        self._kept = kept
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0
        self._omitted = 0
        self._news = bytearray()
        self._skipped = 0
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._finder = ProblemFinder(tools)

    def append(self, data: bytes) -> None:
        """Append output."""
        with self._lock:
            self._size += len(data)
            room = self._kept - len(self._head)
            self._head += data[:room] if room > 0 else b""
            self._tail += data[max(room, 0) :]
            if len(self._tail) > 2 * self._kept:  # not at each: moving the rest costs
                self._omitted += len(self._tail) - self._kept
                del self._tail[: -self._kept]
            self._news += data
            if len(self._news) > 2 * MAX_PUBLISHED:
                self._skipped += len(self._news) - MAX_PUBLISHED
                del self._news[:-MAX_PUBLISHED]
            self._finder.feed(data)

    def close(self) -> None:
        """Close the transcript."""
        with self._lock:
            self._finder.close()
            surplus = len(self._tail) - self._kept
            if surplus > 0:
                self._omitted += surplus
                del self._tail[:surplus]

    def take_news(self) -> OutputNews | None:
        """Return the output not yet published; None if there is none."""
        with self._lock:
            if not self._news:
                return None
            surplus = max(len(self._news) - MAX_PUBLISHED, 0)
            skipped = self._skipped + surplus
            if skipped:
                self._decoder.reset()
            offset = self._size - len(self._news) + surplus - len(self._decoder.getstate()[0])
            text = self._decoder.decode(bytes(self._news[surplus:]))
            self._news.clear()
            self._skipped = 0
            end = self._size - len(self._decoder.getstate()[0])
        return OutputNews(text, skipped, offset, end)

    def get_progress(self) -> BuildProgress:
        """Return the progress so far."""
        with self._lock:
            finder = self._finder
            problems = tuple(finder.problems)
            return BuildProgress(
                finder.errors, finder.warnings, problems, self._size, self._omitted
            )

    def get_output(self) -> KeptOutput:
        """Return the kept output, with a line in place of what is missing."""
        with self._lock:
            if not self._omitted:
                return KeptOutput(bytes(self._head + self._tail), self._size)
            gap = b"\n[agentd: %d bytes are left out here]\n" % self._omitted
            return KeptOutput(bytes(self._head + gap + self._tail), self._size)
