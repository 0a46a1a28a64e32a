"""The framing of journals and caches: JSON that ends with its own checksum.

A sealed object is one JSON object on one line whose last key is ``crc``: the CRC-32, in eight
hexadecimal digits, of every byte before ``,"crc":``. Any JSON tool still reads it. Bytes in,
values out: nothing here touches a file.
"""

from collections.abc import Iterator
from zlib import crc32

import msgspec
from msgspec import Struct

from agentd.chats.records import Entry

SEAL = len(b',"crc":"01234567"}')
"""The bytes of a seal, without the line's end."""

_encoder = msgspec.json.Encoder(decimal_format="string")
_entries = msgspec.json.Decoder(Entry)


class Broken(ValueError):
    """Bytes that are not what was written."""


def seal(value: object) -> bytes:
    """A value that encodes to a non-empty JSON object, as one sealed line."""
    body = _encoder.encode(value)[:-1]
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


def unseal(line: bytes) -> bytes:
    """The JSON text of one sealed line, with or without its line end; ``Broken`` when altered."""
    line = line.removesuffix(b"\n")
    body = line[:-SEAL]
    if not body or line[-SEAL:] != b',"crc":"%08x"}' % crc32(body):
        raise Broken("the checksum does not match")
    return body + b"}"


def entry_in(line: bytes) -> Entry:
    """The journal entry of one sealed line; ``Broken`` when it is none."""
    try:
        return _entries.decode(unseal(line))
    except msgspec.DecodeError as error:
        raise Broken(f"a sound line of an unknown form: {error}") from error


class Damage(Struct, frozen=True):
    """Where reading a journal had to stop, and why."""

    line: int
    offset: int
    reason: str
    torn: bool
    """True for an unfinished write at the very end, which was never acknowledged."""


def read(data: bytes, line: int = 0, offset: int = 0) -> Iterator[tuple[Entry, int] | Damage]:
    """Each entry with the bytes of its line; at a line that is not sound, one ``Damage``, last.

    ``data`` is the journal from ``offset`` on, before which stand ``line`` lines.
    """
    at = 0
    while at < len(data):
        end = data.find(b"\n", at) + 1 or len(data)
        try:
            entry = entry_in(data[at:end])
            if entry.n != line + 1 or data[end - 1 : end] != b"\n":
                raise Broken(f"it says it is line {entry.n}, or has no end")
        except Broken as error:
            yield Damage(line + 1, offset + at, str(error), not _any_sound(data[at:]))
            return
        yield entry, end - at
        line, at = line + 1, end


def _any_sound(rest: bytes) -> bool:
    *whole, _unfinished = rest.split(b"\n")
    for line in whole:
        try:
            unseal(line)
        except Broken:
            continue
        return True
    return False
