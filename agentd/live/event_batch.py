"""Encoded events, in batches of whole journal records, as they are logged and replayed."""

from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

BATCH_BYTES = 256 * 1024
"""The approximate size of a batch in bytes."""


class EncodedRecord(NamedTuple):
    """The events of one record, encoded as server-sent events."""

    seq: int
    chat: int
    size: int
    """Bytes of the chat's journal up to the end of this record."""
    data: bytes


class EventBatch(NamedTuple):
    """The events of consecutive records, in the order of their ``seq``."""

    upto: int
    """The seq up to which the batches so far are complete."""
    data: bytes
    rows: "array[int]"
    """For each record its ``seq``, chat, and number of bytes in ``data``."""

    def iter_records(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the ``seq``, the chat and the events of each record."""
        at = 0
        for seq, chat, size in iter_rows(self.rows):
            yield seq, chat, self.data[at : at + size]
            at += size


def iter_rows(rows: "array[int]") -> Iterator[tuple[int, int, int]]:
    """Yield ``seq``, chat and size of each record."""
    return zip(rows[::3], rows[1::3], rows[2::3], strict=True)


def batch_records(
    records: Iterable[EncodedRecord], chats: frozenset[int] | None
) -> Iterator[EventBatch]:
    """Yield the records of some chats (None: of all), in batches."""
    chunks: list[bytes] = []
    rows: array[int] = array("q")
    size = seq = 0
    for seq, chat, _, data in records:
        if chats is not None and chat not in chats:
            continue
        chunks.append(data)
        rows.extend((seq, chat, len(data)))
        size += len(data)
        if size >= BATCH_BYTES:
            yield EventBatch(seq, b"".join(chunks), rows)
            chunks, rows, size = [], array("q"), 0
    if chunks:
        yield EventBatch(seq, b"".join(chunks), rows)
