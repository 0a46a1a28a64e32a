"""Observers of passed-through streams: they decode only events that may carry usage or the end.

An ordinary token event costs a few byte searches. Inside JSON strings quotation marks are escaped,
so text written by a model is never mistaken for a field.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from agentd.core.sse import split_lines
from agentd.llm.conversation import ReplyFinished, SupplierError, UsageUpdated
from agentd.llm.dialects.anthropic import upstream as anthropic_upstream
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.dialect import ReplyReader
from agentd.llm.dialects.gemini import upstream as gemini_upstream
from agentd.llm.dialects.openai_chat import upstream as openai_chat_upstream
from agentd.llm.dialects.openai_responses import upstream as openai_responses_upstream
from agentd.llm.dialects.stream_reader import EVENT_LIMIT, decode_json
from agentd.llm.dialects.value_count import has_too_many_parts
from agentd.llm.price import Usage, parse_gemini_usage

HELD_BYTES = 64 * 1024
"""Bytes of an unfinished event that are held back: no client can use them yet, and if the stream
breaks there, they can be left out. A usage event to drop is never longer."""

S = TypeVar("S", bound=Struct)

Search: TypeAlias = Callable[[bytes], int]
"""Returns the position of the first event of interest in whole events; -1: none."""

Test: TypeAlias = Callable[[bytes], bool]
"""True if this is an event of some kind."""

EVENT_ENDS = (b"\n\n", b"\n\r\n", b"\r\r")
"""The bytes with which whole events end."""

_USAGE = re.compile(rb'"usage"\s*:\s*\{').search
_FINISH = re.compile(rb'"finish_reason"\s*:\s*"').search
_ERROR = re.compile(rb'"error"\s*:\s*[{"]').search
_ENDS = re.compile(rb'"(?:finishReason|blockReason)"\s*:\s*"').search
_COUNTS = re.compile(rb'"usageMetadata"\s*:\s*\{').search
_RESPONSE_ENDS = (
    b"response.completed",
    b"response.incomplete",
    b"response.failed",
    b"response.cancelled",
)
_IS_ERROR = re.compile(rb'"type"\s*:\s*"error"').search


class StreamObserver:
    """See ``caller.UsageObserver``: reads events of interest, and drops those that ``is_ours``."""

    def __init__(
        self, reader: ReplyReader, may_carry_usage: Search, is_ours: Test | None = None
    ) -> None:
        self.usage: Usage | None = None
        self.end: ReplyFinished | SupplierError | None = None
        self._reader = reader
        self._may_carry_usage = may_carry_usage
        self._is_ours = is_ours
        self._rest = bytearray()
        """An event that is not whole yet."""
        self._passed = 0
        """Bytes of it that were passed on."""

    def feed(self, data: bytes) -> bytes:
        """Do as ``caller.UsageObserver.feed``."""
        if self._rest:
            return self._buffer(data)
        if self.end is not None:
            return data
        return self._scan(data) if data.endswith(EVENT_ENDS) else self._buffer(data)

    def close(self) -> bytes:
        """Do as ``caller.UsageObserver.close``."""
        rest = bytes(self._rest[self._passed :])
        self._rest.clear()
        if self.end is None:
            self._observe(b"", closed=True)
        return rest

    def _buffer(self, data: bytes) -> bytes:
        searched = max(len(self._rest) - 2, 0)
        self._rest += data
        cut = _find_last_end(self._rest, searched)
        passed = b""
        if cut:
            events = bytes(self._rest[:cut])
            del self._rest[:cut]
            passed = self._scan(events)
        if len(self._rest) > HELD_BYTES:
            passed += self._rest[self._passed :]
            self._passed = len(self._rest)
        if len(self._rest) > EVENT_LIMIT:
            self._stop_observing()
        return passed

    def _scan(self, events: bytes) -> bytes:
        """Return the part of these events to pass on; nearly all carry nothing."""
        gone, self._passed = self._passed, 0
        may_carry_usage = self._may_carry_usage(events)
        if may_carry_usage < 0:
            return events[gone:]
        quiet = _find_last_end(events[:may_carry_usage], 0)
        passed = [events[gone:quiet]]
        gone = max(gone - quiet, 0)
        for event in _iter_events(events, quiet):
            ours = False
            if self.end is None and self._may_carry_usage(event) >= 0:
                ours = not gone and self._is_ours is not None and self._is_ours(event)
                self._observe(event)
            if not ours:
                passed.append(event[gone:])
            gone = 0
        return b"".join(passed)

    def _observe(self, event: bytes, *, closed: bool = False) -> None:
        for found in self._reader.close() if closed else self._reader.feed(event):
            if isinstance(found, UsageUpdated):
                self.usage = found.usage
            elif isinstance(found, ReplyFinished | SupplierError):
                self.end = found

    def _stop_observing(self) -> None:
        """Give up on an event that no client could use; the stream is passed on all the same."""
        self._rest.clear()
        self._passed = 0
        if self.end is None:
            why = f"The supplier sent more than {EVENT_LIMIT} bytes in one event"
            self.end = SupplierError("garbled", why)


class GeminiStreamObserver(StreamObserver):
    """Reads the usage in every chunk; ends with the first that has usage and a finish reason."""

    def __init__(self) -> None:
        super().__init__(gemini_upstream.create_passthrough_reader(), _find_in_gemini)
        self._ended = False

    def _observe(self, event: bytes, *, closed: bool = False) -> None:
        piece = _parse_chunk(event)
        if piece.usageMetadata:
            self.usage = parse_gemini_usage(piece.usageMetadata)
        self._ended = self._ended or piece.ends
        if closed or piece.ends or piece.error:
            super()._observe(event, closed=closed)
        if self._ended and piece.usageMetadata and self.end is None:
            super()._observe(b"", closed=True)


def observe_chat(summary: RequestSummary) -> StreamObserver:
    """Observe an OpenAI chat stream; drops the usage chunk that the caller did not ask for."""
    reader = openai_chat_upstream.create_reader()
    return StreamObserver(reader, _find_in_chat, None if summary.wants_usage else _is_usage)


def observe_responses(summary: RequestSummary) -> StreamObserver:
    """Observe an OpenAI Responses stream."""
    return StreamObserver(openai_responses_upstream.create_reader(), _find_in_responses)


def observe_anthropic(summary: RequestSummary) -> StreamObserver:
    """Observe an Anthropic stream."""
    return StreamObserver(anthropic_upstream.create_reader(), _find_in_anthropic)


def observe_gemini(summary: RequestSummary) -> StreamObserver:
    """Observe a Gemini stream."""
    return GeminiStreamObserver()


def read_usage(body: bytes, read: Callable[[object], Usage]) -> Usage | None:
    """Return the usage in a whole response, parsed by ``read``, or None."""
    fields = _decode_as(body, _UsageFields) or _UsageFields()
    counts = fields.usageMetadata if fields.usage is None else fields.usage
    return None if counts is None else read(counts)


def _find_in_chat(data: bytes) -> int:
    return _find_first(_FINISH(data), _USAGE(data), data.find(b"[DONE]"), _ERROR(data))


def _find_in_responses(data: bytes) -> int:
    return _find_first(*map(data.find, _RESPONSE_ENDS), _IS_ERROR(data))


def _find_in_anthropic(data: bytes) -> int:
    # message_start, message_delta, message_stop
    return _find_first(data.find(b'"message_'), data.find(b'"error"'))


def _find_in_gemini(data: bytes) -> int:
    return _find_first(_COUNTS(data), _ENDS(data), _ERROR(data))


def _find_first(*places: "int | re.Match[bytes] | None") -> int:
    """Return the first of these positions; -1 if there is none."""
    first = -1
    for place in places:
        if place is None or place == -1:  # nearly always
            continue
        at = place if isinstance(place, int) else place.start()
        if first < 0 or at < first:
            first = at
    return first


class _Candidate(Struct):
    finishReason: str | None = None  # noqa: N815


class _Feedback(Struct):
    blockReason: str | None = None  # noqa: N815


class _Piece(Struct):
    candidates: list[_Candidate] | None = None
    promptFeedback: _Feedback | None = None  # noqa: N815
    usageMetadata: dict[str, object] | None = None  # noqa: N815
    error: object = None

    @property
    def ends(self) -> bool:
        """True if it has the reason for the end."""
        reasons = [candidate.finishReason for candidate in self.candidates or ()]
        return any(reasons) or bool(self.promptFeedback and self.promptFeedback.blockReason)


def _parse_chunk(event: bytes) -> _Piece:
    return _decode_as(_get_data(event), _Piece) or _Piece()


class _UsageFields(Struct):
    usage: dict[str, object] | None = None
    usageMetadata: dict[str, object] | None = None  # noqa: N815


class _Chunk(Struct):
    choices: list[Any] | None = None
    usage: dict[str, object] | None = None


def _is_usage(event: bytes) -> bool:
    """Return whether this is the extra chunk of ``include_usage``, which holds nothing else."""
    if not _USAGE(event):
        return False
    chunk = _decode_as(_get_data(event), _Chunk)
    return chunk is not None and not chunk.choices and chunk.usage is not None


def _decode_as(data: bytes, shape: type[S]) -> S | None:
    """Decode the fields of ``shape``; None for what does not have them so, or is too much."""
    if has_too_many_parts(data):
        return None
    try:
        return msgspec.json.decode(data, type=shape)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return msgspec.convert(decode_json(data), shape)
    except msgspec.ValidationError:
        return None


def _get_data(event: bytes) -> bytes:
    lines = split_lines(event)
    return b"\n".join(line[5:] for line in lines if line.startswith(b"data:"))


def _iter_events(data: bytes, start: int) -> Iterator[bytes]:
    """Yield the whole events from ``start`` on. A pattern would take seconds for a picture."""
    places = [data.find(end, start) for end in EVENT_ENDS]
    while found := [
        place + len(end) for place, end in zip(places, EVENT_ENDS, strict=True) if place >= 0
    ]:
        stop = min(found)
        yield data[start:stop]
        start = stop
        places = [
            data.find(end, start) if 0 <= place < start else place
            for place, end in zip(places, EVENT_ENDS, strict=True)
        ]


def _find_last_end(data: bytes | bytearray, start: int) -> int:
    """Return the end of the last complete event, searching from ``start``; 0 if none."""
    places = ((data.rfind(end, start), len(end)) for end in EVENT_ENDS)
    return max(place + size if place >= 0 else 0 for place, size in places)
