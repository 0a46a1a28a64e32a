"""Undoing a compression that nobody asked for, in bounded steps."""

import zlib
from collections.abc import Iterator

_STEP = 256 * 1024
_EITHER = zlib.MAX_WBITS | 32
"""The stream itself says whether it is gzip or zlib."""

KNOWN = frozenset(("gzip", "x-gzip", "deflate"))
_PORTION = 4 * 1024
"""Bytes that are decompressed at once: zlib copies what it leaves of them, after each stream."""


class Inflater:
    """Decompresses a stream of gzip or zlib. Raises ``ValueError`` for what is neither."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(_EITHER)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The decompressed bytes, at most 256 KiB at a time, none empty."""
        try:
            for at in range(0, len(data), _PORTION):
                yield from self._inflated(data[at : at + _PORTION])
        except zlib.error as error:
            raise ValueError(str(error)) from error

    def _inflated(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._zlib.eof:  # gzip streams may follow one another
                self._zlib = zlib.decompressobj(_EITHER)
            if plain := self._zlib.decompress(data, _STEP):
                yield plain
            data = self._zlib.unconsumed_tail or self._zlib.unused_data

    def finish(self) -> Iterator[bytes]:
        """What is left at the end. ``ValueError`` when the stream is cut off."""
        if plain := self._zlib.flush():
            yield plain
        if not self._zlib.eof:
            raise ValueError("the compressed stream is cut off")
