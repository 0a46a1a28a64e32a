"""Server-sent events (HTML standard, section 9.2): encoding, and an incremental reader."""

import codecs
import re
from collections.abc import Iterator

from msgspec import Struct

from agentd.core.errors import TooLarge

MAX_EVENT_SIZE = 8 * 1024 * 1024
"""Default limit of the reader for one event, in bytes."""

_TEXT_LINE_END = re.compile("\r\n|\r|\n")


class ServerSentEvent(Struct, frozen=True):
    """A server-sent event; ``id`` is the last id seen so far, ``""`` when there was none."""

    name: str
    data: str
    id: str


def encode_event(data: str, name: str = "", id: int | str | None = None) -> bytes:  # noqa: A002
    """Return one event; its type is ``message`` without ``name``. A client reconnects with ``id``.

    Raises ``ValueError`` for a line break in ``name`` or ``id``, or a NUL in ``id``. Any kind of
    line break in ``data`` arrives as a line feed.
    """
    lines = [] if id is None else [f"id: {_check_id(id)}"]
    if name:
        lines.append(f"event: {_check_field(name)}")
    lines += [f"data: {line}" for line in _TEXT_LINE_END.split(data)]
    return ("\n".join(lines) + "\n\n").encode()


def encode_json_event(data: bytes, name: str, id: str | None = None) -> bytes:  # noqa: A002
    """Encode an event with our own fields and JSON without line breaks, as encoders write it."""
    place = b"" if id is None else b"id: %b\n" % id.encode()
    return b"%bevent: %b\ndata: %b\n\n" % (place, name.encode(), data)


def encode_id(id: int | str) -> bytes:  # noqa: A002
    """Return a line that sets the client's last event id without an event.

    Raises ``ValueError`` as ``encode_event`` does.
    """
    return f"id: {_check_id(id)}\n\n".encode()


def encode_retry(seconds: float) -> bytes:
    """Return a line that sets how long a client waits before it reconnects."""
    return b"retry: %d\n\n" % round(seconds * 1000)


class SseReader:
    """Incremental parser of an event stream, however it was split on the way.

    ``last_id`` and ``retry`` (seconds; ``None`` when never sent) are what a client reconnects with.
    """

    def __init__(self, limit: int = MAX_EVENT_SIZE) -> None:
        self.last_id = ""
        self.retry: float | None = None
        self._limit = limit
        self._rest = bytearray()
        self._after_return = False
        self._started = False
        self._name = ""
        self._id = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[ServerSentEvent]:
        """Yield each event completed by ``data``; an unfinished one at the end is dropped.

        Raises ``TooLarge`` for a line, or the data of one event, over the limit; the reader cannot
        be used afterwards.
        """
        if not data:
            return
        fresh = data.removeprefix(b"\n") if self._after_return else data
        self._after_return = data.endswith(b"\r")
        *ended, rest = split_lines(fresh)
        for piece in ended:
            self._append(piece)
            line, self._rest = bytes(self._rest), bytearray()
            if received := self._process_line(line):
                yield received
        self._append(rest)

    def _append(self, piece: bytes) -> None:
        self._rest += piece
        if len(self._rest) > self._limit:
            raise TooLarge(f"An event is at most {self._limit} bytes")

    def _process_line(self, line: bytes) -> ServerSentEvent | None:
        if not self._started:
            self._started = True
            line = line.removeprefix(codecs.BOM_UTF8)
        if not line:
            return self._dispatch()
        field, _, value = line.decode(errors="replace").partition(":")
        value = value.removeprefix(" ")
        match field:
            case "data":
                self._data.append(value)
                self._size += len(line)
                if self._size > self._limit:
                    raise TooLarge(f"An event is at most {self._limit} bytes")
            case "event":
                self._name = value
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if value.isascii() and value.isdigit() and len(value) < 16:
                self.retry = int(value) / 1000
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        name, data = self._name or "message", self._data
        self.last_id = self._id  # only now: an event that was cut off does not count as seen
        self._name, self._data, self._size = "", [], 0
        return ServerSentEvent(name, "\n".join(data), self.last_id) if data else None


def split_lines(data: bytes) -> list[bytes]:
    """Split at every line end of the three kinds, much quicker than a pattern does."""
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")


def _check_id(given: int | str) -> str:
    if "\0" in str(given):
        raise ValueError("an id cannot contain NUL")
    return _check_field(str(given))


def _check_field(text: str) -> str:
    if _TEXT_LINE_END.search(text):
        raise ValueError(f"{text[:80]!r} contains a line break")
    return text
