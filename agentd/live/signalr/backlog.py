"""A bounded queue of records that wait to be sent."""

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from agentd.live.signalr.records import Record

R = TypeVar("R", bound=Record)

BYTES_LIMIT = 8 * 1024 * 1024
RECORDS_LIMIT = 5_000


class Backlog(Generic[R]):
    """A queue of records that knows its size.

    A record may be in the queues of many clients; its bytes count in full for each.
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
    def is_full(self) -> bool:
        """True if it is above its limits; a single record may have any size."""
        count = len(self._records)
        return count > RECORDS_LIMIT or (self._bytes > BYTES_LIMIT and count > 1)

    @property
    def is_half_full(self) -> bool:
        """True if it has reached half of its limits."""
        return 2 * len(self._records) >= RECORDS_LIMIT or 2 * self._bytes >= BYTES_LIMIT

    def append(self, record: R) -> None:
        """Add a record at the end."""
        self._records.append(record)
        self._bytes += len(record.data)

    def popleft(self) -> R:
        """Remove and return the first record."""
        record = self._records.popleft()
        self._bytes -= len(record.data)
        return record

    def clear(self) -> None:
        """Remove all records."""
        self._records.clear()
        self._bytes = 0
