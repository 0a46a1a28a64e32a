"""The day files of the ledger as the export reads them: in portions, each as the rows to be sent.

Everything here blocks. It is in no hurry, and lets other threads have their turn after a few rows:
a request that is being answered waits for one of these turns, not for a portion.
"""

import gzip
import hashlib
import io
import os
import time
from collections.abc import Iterator, Sequence

from agentd.gateway.export.days import CHUNK_ROWS, Chunk, FileStamp
from agentd.gateway.export.ports import PackedChunk, RowEncoder, SizeEstimate
from agentd.gateway.ledger.day_file import decode_record, iter_lines, list_days
from agentd.storage.checksummed_json import ChecksumMismatch
from agentd.storage.document import translate_os_errors
from agentd.storage.layout import Layout

SAMPLE_BYTES = 256 * 1024
"""Bytes of a day's file from which the size of its rows is estimated."""

_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 64 * 1024
_COMPRESSION_LEVEL = 1
PAUSE_ROWS = 20
PAUSE = 0.0005


class LedgerFileReader:
    """The days of a ledger; satisfies ``gateway.export.ports.LedgerFiles``."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def get_stamps(self) -> dict[str, FileStamp]:
        """Return the days that have a file, each with its stamp. Raises ``Unavailable``."""
        found = {}
        for day in list_days(self._layout.ledger):
            stamp = _get_stamp(self._layout.get_ledger_day_path(day))
            if stamp:
                found[day] = stamp
        return found

    def read_chunk(
        self, day: str, line: RowEncoder, begin: int, end: int | None = None
    ) -> PackedChunk | None:
        """Return the next rows of a day from a byte on, or those up to ``end``.

        None: there are none.

        Lines that are not sound are left out; those at the very end are left for later.
        """
        packed = io.BytesIO()
        taken = hashlib.sha256()
        waiting = b""
        rows = size = 0
        at = begin
        path = self._layout.get_ledger_day_path(day)
        with (
            translate_os_errors(path, "read"),
            gzip.GzipFile(
                fileobj=packed, mode="wb", compresslevel=_COMPRESSION_LEVEL, mtime=0
            ) as out,
        ):
            for text in iter_lines(path, begin, end):
                waiting += text
                try:
                    if not text.endswith(b"\n"):
                        raise ChecksumMismatch("it has no end")
                    row = line(decode_record(text))
                except ChecksumMismatch:
                    continue
                size += out.write(row)
                rows += 1
                taken.update(waiting)
                at += len(waiting)
                waiting = b""
                if end is None and rows == CHUNK_ROWS:
                    break
                if rows % PAUSE_ROWS == 0:
                    time.sleep(PAUSE)
        if not rows:
            return None
        return PackedChunk(Chunk(begin, at, rows, taken.hexdigest()), packed.getvalue(), size)

    def compute_checksums(self, day: str, ends: Sequence[int]) -> list[str]:
        """Return the SHA-256 of each stretch of a day's file that ends at one of these bytes.

        The first begins with the file, each other one where the one before ended. A file that is
        shorter has other sums.
        """
        path = self._layout.get_ledger_day_path(day)
        with (
            translate_os_errors(path, "read"),
            open(os.open(path, _READ_FLAGS), "rb", buffering=0) as file,
        ):
            return [_compute_checksum(file, end - begin) for begin, end in _split_ranges(ends)]

    def estimate(self, day: str, line: RowEncoder, begin: int) -> SizeEstimate:
        """Estimate the rows of a day from a byte on, from a sample at its beginning."""
        path = self._layout.get_ledger_day_path(day)
        rows = size = seen = 0
        with translate_os_errors(path, "read"):
            left = max(os.stat(path, follow_symlinks=False).st_size - begin, 0)
            for text in iter_lines(path, begin, begin + SAMPLE_BYTES):
                seen += len(text)
                try:
                    size += len(line(decode_record(text)))
                    rows += 1
                except ChecksumMismatch:
                    continue
        if left <= SAMPLE_BYTES or not seen:
            return SizeEstimate(rows, size, exact=True)
        return SizeEstimate(rows * left // seen, size * left // seen, exact=False)


def _get_stamp(path: str) -> FileStamp | None:
    try:
        info = os.stat(path, follow_symlinks=False)
    except OSError:  # it went meanwhile
        return None
    return info.st_ino, info.st_mtime_ns, info.st_size


def _split_ranges(ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    return zip((0, *ends), ends, strict=False)


def _compute_checksum(file: io.RawIOBase, size: int) -> str:
    found = hashlib.sha256()
    while size > 0 and (data := file.read(min(_CHUNK, size))):
        found.update(data)
        size -= len(data)
    return found.hexdigest() if size <= 0 else ""
