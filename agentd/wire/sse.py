"""Server-sent events (the HTML standard, section 9.2): what is written, and a reader of it."""

import codecs
import re
from collections.abc import Iterator

from msgspec import Struct

from agentd.errors import TooLarge

EVENT_LIMIT = 8 * 1024 * 1024
"""Bytes of one event that the reader takes by default."""

_LINE_END = re.compile(rb"\r\n|\r|\n")
_TEXT_LINE_END = re.compile("\r\n|\r|\n")


class Received(Struct, frozen=True):
    """One event: ``id`` is the last that was seen so far, ``""`` when there was none."""

    name: str
    data: str
    id: str


def event(data: str, name: str = "", id: int | str | None = None) -> bytes:  # noqa: A002
    """One event. Without ``name`` it is a ``message``; ``id`` is what a client comes back with.

    Raises ``ValueError`` for a line break in ``name`` or ``id``, or a NUL in ``id``. A line break
    of any kind in ``data`` arrives as a line feed.
    """
    lines = [] if id is None else [f"id: {_id(id)}"]
    if name:
        lines.append(f"event: {_field(name)}")
    lines += [f"data: {line}" for line in _TEXT_LINE_END.split(data)]
    return ("\n".join(lines) + "\n\n").encode()


def json_event(data: bytes, name: str, id: str | None = None) -> bytes:  # noqa: A002
    """As ``event``, for JSON as encoders write it, which has no line break, and fields of ours."""
    place = b"" if id is None else b"id: %b\n" % id.encode()
    return b"%bevent: %b\ndata: %b\n\n" % (place, name.encode(), data)


def mark(id: int | str) -> bytes:  # noqa: A002
    """What a client comes back with from now on, without an event; ``ValueError`` as above."""
    return f"id: {_id(id)}\n\n".encode()


def retry(seconds: float) -> bytes:
    """How long a client waits before it comes back."""
    return b"retry: %d\n\n" % round(seconds * 1000)


class Reader:
    """Reads a stream, however it was split on the way.

    ``last_id`` and ``retry`` (seconds, None when it was never told) are what a client uses to
    come back.
    """

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self.last_id = ""
        self.retry: float | None = None
        self._limit = limit
        self._rest = bytearray()
        self._after_return = False
        self._begun = False
        self._name = ""
        self._id = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Received]:
        """Each event that is whole now; what is unfinished at the end of a stream is none.

        Raises ``TooLarge`` for a line, or the data of one event, over the limit; then the reader
        is of no more use.
        """
        if not data:
            return
        fresh = data.removeprefix(b"\n") if self._after_return else data
        self._after_return = data.endswith(b"\r")
        *ended, rest = _LINE_END.split(fresh)
        for piece in ended:
            self._append(piece)
            line, self._rest = bytes(self._rest), bytearray()
            if received := self._line(line):
                yield received
        self._append(rest)

    def _append(self, piece: bytes) -> None:
        self._rest += piece
        if len(self._rest) > self._limit:
            raise TooLarge(f"An event is at most {self._limit} bytes")

    def _line(self, line: bytes) -> Received | None:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(codecs.BOM_UTF8)
        if not line:
            return self._dispatched()
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

    def _dispatched(self) -> Received | None:
        name, data = self._name or "message", self._data
        self.last_id = self._id  # only now: an event that broke off half-way was not seen
        self._name, self._data, self._size = "", [], 0
        return Received(name, "\n".join(data), self.last_id) if data else None


def _id(given: int | str) -> str:
    if "\0" in str(given):
        raise ValueError("an id holds no NUL")
    return _field(str(given))


def _field(text: str) -> str:
    if _TEXT_LINE_END.search(text):
        raise ValueError(f"{text[:80]!r} holds a line break")
    return text
