"""Framing of records: the separator 0x1E, WebSocket frames, server-sent events."""

from collections.abc import Iterator

from agentd.core.errors import TooLarge

END = b"\x1e"
"""Ends every record; JSON never contains it unescaped."""

RECORD_LIMIT = 32 * 1024
"""The most bytes of a client's record, as in the reference server."""


class RecordReader:
    """Splits what a client sends into records, however it arrives."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield each complete record, without its separator.

        Raises ``TooLarge`` after the records before one that is over ``RECORD_LIMIT``.
        """
        *whole, rest = data.split(END)
        for piece in whole:
            record, self._rest = self._join(piece), b""
            yield record
        self._rest = self._join(rest)

    def _join(self, piece: bytes) -> bytes:
        if len(self._rest) + len(piece) > RECORD_LIMIT:
            raise TooLarge(f"A record is at most {RECORD_LIMIT} bytes")
        return self._rest + piece


def encode_text_frame(payload: bytes) -> bytes:
    """Return a complete unmasked text message of RFC 6455 (section 5.2)."""
    size = len(payload)
    if size < 126:
        header = bytes((0x81, size))
    elif size < 1 << 16:
        header = b"\x81\x7e" + size.to_bytes(2, "big")
    else:
        header = b"\x81\x7f" + size.to_bytes(8, "big")
    return header + payload


def encode_stream_event(payload: bytes) -> bytes:
    """Return one server-sent event; JSON has no raw line breaks, so one ``data:`` is enough."""
    return b"data: " + payload + b"\r\n\r\n"
