"""What all readers of streamed answers have in common: events in, a JSON object out, one end."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from agentd.errors import TooLarge
from agentd.proxy.dialects.conversation import Event, Finished, SupplierError
from agentd.wire import sse

Fields: TypeAlias = Mapping[str, Any]
"""A JSON object of a supplier. Nothing in it can be relied on: ask with the functions below."""

EVENT_LIMIT = sse.EVENT_LIMIT
"""Bytes of one event; the last one of the Responses API holds the whole reply."""

_DONE = "[DONE]"


class Reply(Protocol):
    """A reply as one dialect tells it."""

    def told(self, fields: Fields) -> Iterator[Event]:
        """The supplier said this. The last event is ``Finished`` once the reply is whole."""
        ...

    def ended(self) -> Iterator[Event]:
        """The supplier will say no more; ``Finished`` is told if that is all right."""
        ...


class StreamReader:
    """Reads a stream for a ``Reply``; see ``dialect.Reader``."""

    def __init__(self, reply: Reply, limit: int = EVENT_LIMIT) -> None:
        self._reply = reply
        self._stream = sse.Reader(limit)
        self._over = False

    def feed(self, data: bytes) -> list[Event]:
        """What these bytes tell."""
        return list(self._checked(self._read(data)))

    def close(self) -> list[Event]:
        """The stream ended."""
        return list(self._checked(self._closing()))

    def _checked(self, events: Iterator[Event]) -> Iterator[Event]:
        if self._over:
            return
        for event in events:
            yield event
            if isinstance(event, Finished | SupplierError):
                self._over = True
                return

    def _read(self, data: bytes) -> Iterator[Event]:
        try:
            for received in self._stream.feed(data):
                if received.data.strip() == _DONE:
                    yield from self._closing()
                elif received.data.strip():
                    yield from heard(self._reply, received.data)
        except TooLarge as error:
            yield SupplierError("garbled", f"The supplier sent too much at once: {error}")

    def _closing(self) -> Iterator[Event]:
        yield from self._reply.ended()
        yield SupplierError("broken", "The supplier's answer ended before the reply was whole")


def heard(reply: Reply, data: str | bytes) -> Iterator[Event]:
    """Tell a reply what stands in ``data``, a JSON object; anything else is an error."""
    try:
        fields = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        fields = None
    if isinstance(fields, dict):
        yield from reply.told(fields)
    else:
        start = data[:80] if isinstance(data, str) else data[:80].decode(errors="replace")
        yield SupplierError("garbled", f"The supplier sent what is no JSON object: {start!r}")


def answered(reply: Reply, body: bytes) -> list[Event]:
    """The events of an answer that was not streamed, where that is one piece of a stream."""

    def told() -> Iterator[Event]:
        yield from heard(reply, body)
        yield from reply.ended()

    return whole(told())


def whole(events: Iterator[Event]) -> list[Event]:
    """The events of an answer that was not streamed, up to its end, which is told in any case."""
    told: list[Event] = []
    for event in events:
        told.append(event)
        if isinstance(event, Finished | SupplierError):
            return told
    told.append(SupplierError("broken", "The supplier's answer holds no whole reply"))
    return told


def text(fields: Fields, name: str) -> str:
    """A text; empty when it is missing or something else."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def number(fields: Fields, name: str, otherwise: int) -> int:
    """A whole number from 0 on."""
    value = fields.get(name)
    whole_one = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if whole_one else otherwise  # type: ignore[return-value]


def inner(fields: Fields, name: str) -> Fields:
    """An object; an empty one when it is missing or something else."""
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def each(fields: Fields, name: str) -> list[Fields]:
    """The objects of a list; what else stands in it is passed over."""
    value = fields.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
