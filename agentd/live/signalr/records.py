"""Messages from the server, each encoded once for all connections."""

from collections.abc import Sequence

import msgspec

from agentd.live.signalr.framing import END, encode_stream_event, encode_text_frame

NORMAL_CLOSURE = 1000
UNAUTHORIZED = 4401
"""The code of a WebSocket whose key or login is no longer valid, after the HTTP status 401."""

_encoder = msgspec.json.Encoder(decimal_format="number")


class Record:
    """An encoded message, in the form of each transport.

    ``data`` (with its separator) goes into the body of a poll, ``frame`` to a WebSocket and
    ``unit`` to a stream of server-sent events. ``tracked`` records are numbered under stateful
    reconnect (types 1 to 5).
    """

    __slots__ = ("_frame", "_unit", "data", "tracked")

    def __init__(self, message: object, *, tracked: bool = False) -> None:
        self.set_data(_encoder.encode(message), tracked=tracked)

    def set_data(self, data: bytes, *, tracked: bool = True) -> None:
        """Set the encoded message."""
        self.data = data + END
        self.tracked = tracked
        self._frame = b""
        self._unit = b""

    @property
    def frame(self) -> bytes:
        """The record as one WebSocket message; made once."""
        if not self._frame:
            self._frame = encode_text_frame(self.data)
        return self._frame

    @property
    def unit(self) -> bytes:
        """The record as one server-sent event; made once."""
        if not self._unit:
            self._unit = encode_stream_event(self.data)
        return self._unit

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.data[:80]!r})"


class EventRecord(Record):
    """A live event (specification, section 6).

    ``seq`` is its number in the journal, None when it is not stored; ``chat`` is the chat that it
    is about, None for events about no chat. Clients compare ``name`` exactly. There is no
    ``invocationId`` and no other field: null breaks the JavaScript client, others a Python one.
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


class CloseRecord(Record):
    """The last record of a connection, with the code of the WebSocket's close frame after it."""

    __slots__ = ("code",)

    def __init__(self, message: object, code: int) -> None:
        super().__init__(message)
        self.code = code


def make_completion(call: str, error: str = "") -> Record:
    """Return the answer to a call, with the error if it failed; no result, and no null."""
    message: dict[str, object] = {"type": 3, "invocationId": call}
    if error:
        message["error"] = error
    return Record(message, tracked=True)


def make_ack(number: int) -> Record:
    """Return the acknowledgement of the client's tracked messages up to this number."""
    return Record({"type": 8, "sequenceId": number})


def make_sequence(number: int) -> Record:
    """Return the announcement that the next tracked record has this number."""
    return Record({"type": 9, "sequenceId": number})


def make_close(error: str, code: int = NORMAL_CLOSURE) -> Record:
    """Return a final Close: the JavaScript client does not reconnect after it.

    ``code`` is that of the WebSocket's close frame, for clients that do not read records.
    """
    return CloseRecord({"type": 7, "error": error}, code)


def make_handshake_error(error: str) -> Record:
    """Return the answer to an invalid handshake."""
    return Record({"error": error})


WELCOME = Record({})
"""The answer to a handshake; clients refuse one with a ``type``."""

PING = Record({"type": 6})

COME_BACK = Record({"type": 7, "allowReconnect": True})
"""A Close after which clients reconnect. Without ``error``, which breaks the Python client."""
