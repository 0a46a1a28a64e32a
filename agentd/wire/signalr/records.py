"""What the server sends, each encoded once, however many connections it goes to."""

from collections.abc import Sequence

import msgspec

from agentd.wire.signalr.framing import END, stream_unit, text_frame

_encoder = msgspec.json.Encoder(decimal_format="number")


class Record:
    """One encoded message, in the form that each transport carries.

    ``data`` (with its end mark) goes into the body of a poll, ``frame`` to a WebSocket and
    ``unit`` to a stream of server-sent events. ``tracked`` records are numbered under stateful
    reconnect (types 1 to 5).
    """

    __slots__ = ("_frame", "_unit", "data", "tracked")

    def __init__(self, message: object, *, tracked: bool = False) -> None:
        self.be(_encoder.encode(message), tracked=tracked)

    def be(self, data: bytes, *, tracked: bool = True) -> None:
        """Become the record of a message that was encoded already."""
        self.data = data + END
        self.tracked = tracked
        self._frame = b""
        self._unit = b""

    @property
    def frame(self) -> bytes:
        """The record as one WebSocket message; made once."""
        if not self._frame:
            self._frame = text_frame(self.data)
        return self._frame

    @property
    def unit(self) -> bytes:
        """The record as one server-sent event; made once."""
        if not self._unit:
            self._unit = stream_unit(self.data)
        return self._unit

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.data[:80]!r})"


class Event(Record):
    """Something that changed (specification, section 6).

    ``seq`` is its number in the journal, None when it is not stored; ``chat`` is the chat that it
    is about, None when it concerns everybody. Clients match ``name`` letter by letter. There is no
    ``invocationId`` and no other field: null stops the JavaScript client, more stop a Python one.
    """

    __slots__ = ("chat", "seq")

    def __init__(
        self,
        name: str,
        arguments: Sequence[object],
        *,
        seq: int | None = None,
        chat: int | None = None,
    ) -> None:
        super().__init__({"type": 1, "target": name, "arguments": arguments}, tracked=True)
        self.seq = seq
        self.chat = chat


def completion(call: str, error: str = "") -> Record:
    """The one answer to a call: done, or why not. It holds no result and no null."""
    message: dict[str, object] = {"type": 3, "invocationId": call}
    if error:
        message["error"] = error
    return Record(message, tracked=True)


def acknowledgement(number: int) -> Record:
    """All tracked messages of the client up to this number have arrived."""
    return Record({"type": 8, "sequenceId": number})


def sequence(number: int) -> Record:
    """The next tracked record has this number: the oldest that was not acknowledged."""
    return Record({"type": 9, "sequenceId": number})


def closing(error: str) -> Record:
    """The end for good: the JavaScript client does not come back."""
    return Record({"type": 7, "error": error})


def refusal(error: str) -> Record:
    """The answer to a handshake that cannot be taken."""
    return Record({"error": error})


WELCOME = Record({})
"""The answer to a handshake; a ``type`` in it would be refused."""

PING = Record({"type": 6})

COME_BACK = Record({"type": 7, "allowReconnect": True})
"""The end for now. Without ``error``: with one, the Python client dies."""
