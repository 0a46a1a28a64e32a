"""Records that wait, in order and bounded."""

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from agentd.wire.signalr.records import Record

R = TypeVar("R", bound=Record)

BYTES_LIMIT = 8 * 1024 * 1024
RECORDS_LIMIT = 5_000


class Backlog(Generic[R]):
    """A queue of records that knows its size.

    The same record may wait for many clients; its bytes are counted in full for each.
    """

    __slots__ = ("_bytes", "_records")

    def __init__(self) -> None:
        self._records: deque[R] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[R]:
        return iter(self._records)

    @property
    def full(self) -> bool:
        """Over its bounds. One record alone may be as large as it is."""
        count = len(self._records)
        return count > RECORDS_LIMIT or (self._bytes > BYTES_LIMIT and count > 1)

    @property
    def half_full(self) -> bool:
        """At half of its bounds, or over."""
        return 2 * len(self._records) >= RECORDS_LIMIT or 2 * self._bytes >= BYTES_LIMIT

    def append(self, record: R) -> None:
        """Wait behind all others."""
        self._records.append(record)
        self._bytes += len(record.data)

    def popleft(self) -> R:
        """The record that waited longest."""
        record = self._records.popleft()
        self._bytes -= len(record.data)
        return record

    def clear(self) -> None:
        """Nothing waits any more."""
        self._records.clear()
        self._bytes = 0
