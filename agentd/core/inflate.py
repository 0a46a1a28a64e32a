"""Decompress gzip and zlib streams with bounded memory.

For responses that arrive compressed although compression was not requested.
"""

import zlib
from collections.abc import Iterator

_MAX_OUTPUT = 256 * 1024
_AUTO_DETECT = zlib.MAX_WBITS | 32
"""The window bits with which zlib detects gzip or zlib from the header."""

SUPPORTED_ENCODINGS = frozenset(("gzip", "x-gzip", "deflate"))
_MAX_INPUT = 4 * 1024
"""Input bytes per step: zlib copies the unused input each time a stream ends."""


class Inflater:
    """Decompressor for a gzip or zlib stream; raises ``ValueError`` for anything else."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(_AUTO_DETECT)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield decompressed chunks of at most 256 KiB, never an empty one."""
        try:
            for at in range(0, len(data), _MAX_INPUT):
                yield from self._inflate(data[at : at + _MAX_INPUT])
        except zlib.error as error:
            raise ValueError(str(error)) from error

    def _inflate(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._zlib.eof:  # a gzip file may consist of several streams
                self._zlib = zlib.decompressobj(_AUTO_DETECT)
            if plain := self._zlib.decompress(data, _MAX_OUTPUT):
                yield plain
            data = self._zlib.unconsumed_tail or self._zlib.unused_data

    def finish(self) -> Iterator[bytes]:
        """Yield the remaining bytes; raise ``ValueError`` when the stream is truncated."""
        if plain := self._zlib.flush():
            yield plain
        if not self._zlib.eof:
            raise ValueError("the compressed stream is truncated")
