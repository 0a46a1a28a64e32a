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

from agentd.disk.document import told
from agentd.disk.layout import Layout
from agentd.disk.ledger_file import days_in, entry_in, lines_of
from agentd.disk.lines import Broken
from agentd.proxy.export.days import CHUNK_ROWS, Chunk, Stamp
from agentd.proxy.export.needs import Portion, Sample, Write

SAMPLE = 256 * 1024
"""Bytes of a day's file from which the size of its rows is told."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PIECE = 64 * 1024
_FAST = 1
BREATH_ROWS = 20
BREATH = 0.0005


class LedgerDays:
    """The days of a ledger; satisfies ``proxy.export.needs.Files``."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def there(self) -> dict[str, Stamp]:
        """The days that have a file, each with its stamp. Raises ``Unavailable``."""
        found = {}
        for day in days_in(self._layout.ledger):
            stamp = _stamp(self._layout.ledger_day(day))
            if stamp:
                found[day] = stamp
        return found

    def portion(self, day: str, line: Write, begin: int, end: int | None = None) -> Portion | None:
        """The next rows of a day from a byte on, or those up to ``end``; None: there are none.

        Lines that are not sound are left out; those at the very end are left for later.
        """
        packed = io.BytesIO()
        taken = hashlib.sha256()
        waiting = b""
        rows = size = 0
        at = begin
        path = self._layout.ledger_day(day)
        with (
            told(path, "read"),
            gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=_FAST, mtime=0) as out,
        ):
            for text in lines_of(path, begin, end):
                waiting += text
                try:
                    if not text.endswith(b"\n"):
                        raise Broken("it has no end")
                    row = line(entry_in(text))
                except Broken:
                    continue
                size += out.write(row)
                rows += 1
                taken.update(waiting)
                at += len(waiting)
                waiting = b""
                if end is None and rows == CHUNK_ROWS:
                    break
                if rows % BREATH_ROWS == 0:
                    time.sleep(BREATH)
        if not rows:
            return None
        return Portion(Chunk(begin, at, rows, taken.hexdigest()), packed.getvalue(), size)

    def sums(self, day: str, ends: Sequence[int]) -> list[str]:
        """The SHA-256 of each stretch of a day's file that ends at one of these bytes.

        The first begins with the file, each other one where the one before ended. A file that is
        shorter has other sums.
        """
        path = self._layout.ledger_day(day)
        with told(path, "read"), open(os.open(path, _READ), "rb", buffering=0) as file:
            return [_sum(file, end - begin) for begin, end in _stretches(ends)]

    def sample(self, day: str, line: Write, begin: int) -> Sample:
        """What the requests of a day from a byte on come to as rows, by looking at the first."""
        path = self._layout.ledger_day(day)
        rows = size = seen = 0
        with told(path, "read"):
            left = max(os.stat(path, follow_symlinks=False).st_size - begin, 0)
            for text in lines_of(path, begin, begin + SAMPLE):
                seen += len(text)
                try:
                    size += len(line(entry_in(text)))
                    rows += 1
                except Broken:
                    continue
        if left <= SAMPLE or not seen:
            return Sample(rows, size, exact=True)
        return Sample(rows * left // seen, size * left // seen, exact=False)


def _stamp(path: str) -> Stamp | None:
    try:
        info = os.stat(path, follow_symlinks=False)
    except OSError:  # it went meanwhile
        return None
    return info.st_ino, info.st_mtime_ns, info.st_size


def _stretches(ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    return zip((0, *ends), ends, strict=False)


def _sum(file: io.RawIOBase, size: int) -> str:
    found = hashlib.sha256()
    while size > 0 and (data := file.read(min(_PIECE, size))):
        found.update(data)
        size -= len(data)
    return found.hexdigest() if size <= 0 else ""
