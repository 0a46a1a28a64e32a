"""Stored events as they are kept and sent: encoded, all those of one record together."""

from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

PORTION = 256 * 1024
"""About how many bytes are read and sent at a time."""


class Encoded(NamedTuple):
    """All that one record tells, as server-sent events."""

    seq: int
    chat: int
    size: int
    """Bytes of the chat's journal up to and with this record."""
    data: bytes


class Portion(NamedTuple):
    """The events of some records that follow one another, in the order of their ``seq``."""

    upto: int
    """All that is wanted of the records up to this seq has now been told."""
    data: bytes
    rows: "array[int]"
    """For each record three numbers: ``seq``, chat, and how many bytes of ``data`` it has."""

    def records(self) -> Iterator[tuple[int, int, bytes]]:
        """The ``seq``, the chat and the events of each record."""
        at = 0
        for seq, chat, size in triples(self.rows):
            yield seq, chat, self.data[at : at + size]
            at += size


def triples(rows: "array[int]") -> Iterator[tuple[int, int, int]]:
    """What such rows hold, record by record."""
    return zip(rows[::3], rows[1::3], rows[2::3], strict=True)


def portions(records: Iterable[Encoded], chats: frozenset[int] | None) -> Iterator[Portion]:
    """The records of some chats (None: of all), in portions."""
    gathered: list[bytes] = []
    rows: array[int] = array("q")
    size = seq = 0
    for seq, chat, _, data in records:
        if chats is not None and chat not in chats:
            continue
        gathered.append(data)
        rows.extend((seq, chat, len(data)))
        size += len(data)
        if size >= PORTION:
            yield Portion(seq, b"".join(gathered), rows)
            gathered, rows, size = [], array("q"), 0
    if gathered:
        yield Portion(seq, b"".join(gathered), rows)
