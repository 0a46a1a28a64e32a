"""JSON lines that end with their own checksum, for journals and caches.

Each line is one JSON object on one line whose last key is ``crc``: the CRC-32, in eight
hexadecimal digits, of every byte before ``,"crc":``. Any JSON tool still reads it. Bytes in,
values out: nothing here touches a file.
"""

from zlib import crc32

import msgspec

CHECKSUM_SIZE = len(b',"crc":"01234567"}')
"""Bytes of the checksum field, without the line end."""

_encoder = msgspec.json.Encoder(decimal_format="string")


class ChecksumMismatch(ValueError):
    """The bytes are not what was written."""


def encode_checksummed(value: object) -> bytes:
    """Return a line with its checksum for a value that encodes to a non-empty JSON object."""
    body = _encoder.encode(value)[:-1]
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


def decode_checksummed(line: bytes) -> bytes:
    """Return the JSON text of one line; raise ``ChecksumMismatch`` when it was altered."""
    if line.endswith(b"\n"):
        line = line[:-1]
    body = line[:-CHECKSUM_SIZE]
    if not body or not line.endswith(b',"crc":"%08x"}' % crc32(body)):
        raise ChecksumMismatch("the checksum does not match")
    return body + b"}"
