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


def has_valid_checksum(line: bytes) -> bool:
    """Return whether a line, with its end or without, was written as it is."""
    return bool(_cut_checksum(line))


def decode_checksummed(line: bytes) -> bytes:
    """Return the JSON text of one line, which is UTF-8; ``ChecksumMismatch`` if it was altered."""
    body = _cut_checksum(line)
    if not body:
        raise ChecksumMismatch("the checksum does not match")
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise ChecksumMismatch("the checksum is valid but the text is not UTF-8") from error
    return body + b"}"


def _cut_checksum(line: bytes) -> bytes:
    """Return what precedes the checksum of a line; empty if that does not match.

    A line can be a whole index of megabytes, so it is copied only once here.
    """
    end = len(line) - line.endswith(b"\n") - CHECKSUM_SIZE
    body = line[: max(end, 0)]
    return body if line.startswith(b',"crc":"%08x"}' % crc32(body), end) else b""
