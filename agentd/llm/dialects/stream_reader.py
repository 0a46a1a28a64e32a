"""Shared code of readers of suppliers' streams: events in, JSON objects out, exactly one end."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from agentd.core import sse
from agentd.core.errors import TooLarge
from agentd.llm.conversation import ReplyEvent, ReplyFinished, SupplierError
from agentd.llm.dialects.half_characters import HalfCharacterDecoder, may_hold_halves
from agentd.llm.dialects.value_count import has_too_many_parts
from agentd.llm.upstream.protocol import BODY_LIMIT

Fields: TypeAlias = Mapping[str, Any]
"""A JSON object of a supplier. Nothing in it can be relied on: ask with the functions below."""

EVENT_LIMIT = BODY_LIMIT
"""Bytes of one event: an event may be a whole reply, and hold pictures of many megabytes."""

_DONE = "[DONE]"


class ReplyParser(Protocol):
    """Parses a reply of one dialect."""

    def parse_event(self, fields: Fields) -> Iterator[ReplyEvent]:
        """Parse one event; the last result is ``ReplyFinished`` once the reply is whole."""
        ...

    def finish(self) -> Iterator[ReplyEvent]:
        """Handle the end of the stream: yield ``ReplyFinished`` if that is a valid end."""
        ...


class StreamReader:
    """Reads a stream with a ``ReplyParser``; see ``dialect.ReplyReader``."""

    def __init__(self, reply: ReplyParser, limit: int = EVENT_LIMIT) -> None:
        self._reply = reply
        self._stream = sse.SseReader(limit)
        self._halves = HalfCharacterDecoder()
        self._over = False

    def feed(self, data: bytes) -> list[ReplyEvent]:
        """Return the events in these bytes."""
        return list(self._iter_until_end(self._read(data)))

    def close(self) -> list[ReplyEvent]:
        """Return the final events of the stream."""
        return list(self._iter_until_end(self._finish()))

    def _iter_until_end(self, events: Iterator[ReplyEvent]) -> Iterator[ReplyEvent]:
        if self._over:
            return
        for event in events:
            yield event
            if isinstance(event, ReplyFinished | SupplierError):
                self._over = True
                return

    def _read(self, data: bytes) -> Iterator[ReplyEvent]:
        try:
            for received in self._stream.feed(data):
                if received.data.strip() == _DONE:
                    yield from self._finish()
                elif received.data.strip():
                    yield from parse_json_event(self._reply, received.data, self._halves)
        except TooLarge as error:
            yield SupplierError("garbled", f"The supplier sent too much at once: {error}")

    def _finish(self) -> Iterator[ReplyEvent]:
        yield from self._reply.finish()
        yield SupplierError("broken", "The supplier's response ended before the reply was complete")


def decode_json(data: str | bytes, halves: HalfCharacterDecoder | None = None) -> object:
    """Decode a supplier's JSON, also with halves of characters.

    None for what is no JSON, or has so many parts that to decode it would hold up the loop.
    """
    if has_too_many_parts(data):
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass  # as it hardly ever is
    try:
        return (halves or HalfCharacterDecoder()).decode(data) if may_hold_halves(data) else None
    except (ValueError, RecursionError):
        return None


def parse_json_event(
    reply: ReplyParser, data: str | bytes, halves: HalfCharacterDecoder | None = None
) -> Iterator[ReplyEvent]:
    """Pass the JSON object in ``data`` to a parser; anything else is an error."""
    fields = decode_json(data, halves)
    if isinstance(fields, dict):
        yield from reply.parse_event(fields)
    else:
        start = data[:80] if isinstance(data, str) else data[:80].decode(errors="replace")
        yield SupplierError(
            "garbled", f"The supplier sent something other than a JSON object: {start!r}"
        )


def parse_single_event(reply: ReplyParser, body: bytes) -> list[ReplyEvent]:
    """Return the events of an unstreamed response that has the form of one stream event."""

    def iter_events() -> Iterator[ReplyEvent]:
        yield from parse_json_event(reply, body)
        yield from reply.finish()

    return collect_events(iter_events())


def collect_events(events: Iterator[ReplyEvent]) -> list[ReplyEvent]:
    """Return the events up to the reply's end; a missing end becomes an error."""
    found: list[ReplyEvent] = []
    for event in events:
        found.append(event)
        if isinstance(event, ReplyFinished | SupplierError):
            return found
    found.append(SupplierError("broken", "The supplier's response contains no complete reply"))
    return found


def get_text(fields: Fields, name: str) -> str:
    """Return a string field; empty when missing or of another type."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def get_number(fields: Fields, name: str, otherwise: int) -> int:
    """Return a non-negative integer field, or ``otherwise``."""
    value = fields.get(name)
    whole_one = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if whole_one else otherwise  # type: ignore[return-value]


def get_object(fields: Fields, name: str) -> Fields:
    """Return an object field; empty when missing or of another type."""
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def get_objects(fields: Fields, name: str) -> list[Fields]:
    """Return the objects in a list field; other elements are skipped."""
    value = fields.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
