"""The lines of a chat's journal, read back; bytes in, entries out."""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from agentd.chats.records import JournalEntry
from agentd.storage.checksummed_json import (
    ChecksumMismatch,
    decode_checksummed,
    has_valid_checksum,
)


def _has_valid_line(rest: bytes) -> bool:
    *whole, _unfinished = rest.split(b"\n")
    return any(map(has_valid_checksum, whole))


_entries = msgspec.json.Decoder(JournalEntry)


def decode_entry(line: bytes) -> JournalEntry:
    """Decode one checksummed line; ``ChecksumMismatch`` when it is invalid."""
    try:
        return _entries.decode(decode_checksummed(line))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ChecksumMismatch(f"a sound line of an unknown form: {error}") from error


class JournalDamage(Struct, frozen=True):
    """The place and reason at which reading a journal had to stop."""

    line: int
    offset: int
    reason: str
    torn: bool
    """True for an unfinished write at the very end, which was never acknowledged."""


def read_entries(
    data: bytes, line: int = 0, offset: int = 0
) -> Iterator[tuple[JournalEntry, int] | JournalDamage]:
    """Yield each entry with its line's length, and one ``JournalDamage`` last at a corrupt line.

    ``data`` is the journal from ``offset`` on, before which stand ``line`` lines.
    """
    start = offset
    *lines, unfinished = data.split(b"\n")
    for text in lines:
        line += 1
        try:
            entry = decode_entry(text)
            if entry.n != line:
                raise ChecksumMismatch(f"it says it is line {entry.n}")
        except ChecksumMismatch as error:
            torn = not _has_valid_line(data[offset - start :])
            yield JournalDamage(line, offset, str(error), torn)
            return
        size = len(text) + 1
        offset += size
        yield entry, size
    if unfinished:
        yield JournalDamage(line + 1, offset, "the line has no end", True)
