"""Split a stream of bytes into lines, with bounded memory."""

from collections.abc import Iterator

LONGEST_LINE = 8 * 2**20
"""Bytes."""


class Lines:
    """Incremental line splitter. A line that is too long is skipped."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self.passed_over = 0
        """Number of lines skipped because they were too long."""
        self._longest = longest
        self._begun = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines completed by ``data``, without their line ends."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._add(data[start:end])
            if self._skipping:
                self._skipping = False
            else:
                line = bytes(self._begun).removesuffix(b"\r")
                self._begun.clear()
                yield line
            start = end + 1
        self._add(data[start:])

    def iter_rest(self) -> Iterator[bytes]:
        """Yield the last line if the stream ended without a line end."""
        if self._begun:
            yield bytes(self._begun)
            self._begun.clear()

    def _add(self, piece: bytes) -> None:
        if self._skipping:
            return
        if len(self._begun) + len(piece) > self._longest:
            self._begun = bytearray()  # gives the memory back, unlike clear()
            self._skipping = True
            self.passed_over += 1
        else:
            self._begun += piece
