"""Records and what carries them: 0x1E between records, WebSocket frames, server-sent events."""

from collections.abc import Iterator

from agentd.errors import TooLarge

END = b"\x1e"
"""Ends every record; JSON never holds it raw."""

RECORD_LIMIT = 32 * 1024
"""Bytes of one record of a client, as in the reference server."""

STREAM_OPENING = b":\r\n"
"""The first bytes of a stream of server-sent events: some browsers report "open" only then."""


class Records:
    """Cuts what a client sends into records, however it was split on the way."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Each record that is whole now, without its end mark.

        Raises ``TooLarge`` after the records before one that is over ``RECORD_LIMIT``.
        """
        *whole, rest = data.split(END)
        for piece in whole:
            record, self._rest = self._joined(piece), b""
            yield record
        self._rest = self._joined(rest)

    def _joined(self, piece: bytes) -> bytes:
        if len(self._rest) + len(piece) > RECORD_LIMIT:
            raise TooLarge(f"A record is at most {RECORD_LIMIT} bytes")
        return self._rest + piece


def text_frame(payload: bytes) -> bytes:
    """A whole unmasked text message of RFC 6455 (section 5.2), ready to be written to a socket."""
    size = len(payload)
    if size < 126:
        header = bytes((0x81, size))
    elif size < 1 << 16:
        header = b"\x81\x7e" + size.to_bytes(2, "big")
    else:
        header = b"\x81\x7f" + size.to_bytes(8, "big")
    return header + payload


def stream_unit(payload: bytes) -> bytes:
    """One server-sent event of SignalR: JSON has no raw line breaks, so one ``data:`` is enough."""
    return b"data: " + payload + b"\r\n\r\n"
