"""Listening to streams that are passed on: only what may tell of usage or the end is decoded.

A token's own event costs a few searches in its bytes. Inside JSON text a quotation mark is
escaped, so what a model writes is never taken for a field.
"""

import re
from collections.abc import Callable
from typing import TypeAlias

import msgspec
from msgspec import Struct

from agentd.proxy.dialects import anthropic, gemini, openai_chat, openai_responses
from agentd.proxy.dialects.caller import Glance
from agentd.proxy.dialects.conversation import Finished, SupplierError, UsageSeen
from agentd.proxy.dialects.dialect import Reader
from agentd.proxy.dialects.reading import EVENT_LIMIT
from agentd.proxy.price import Usage, from_gemini

HELD_BYTES = 64 * 1024
"""A longer event cannot be the usage that nobody asked for, and is not waited for."""

Search: TypeAlias = Callable[[bytes], int]
"""Where the first thing stands in whole events that may tell something; -1: nowhere."""

Test: TypeAlias = Callable[[bytes], bool]
"""Whether this is an event of some kind."""

_EVENT_ENDS = (b"\n\n", b"\n\r\n", b"\r\r")
_EVENT = re.compile(rb".*?(?:\n\r?\n|\r\r)", re.DOTALL)
_LINE_END = re.compile(rb"\r\n|\r|\n")
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


class StreamTap:
    """See ``caller.Tap``: what may ``tell`` something is read, and dropped if it ``is_ours``."""

    def __init__(self, reader: Reader, tells: Search, is_ours: Test | None = None) -> None:
        self.usage: Usage | None = None
        self.end: Finished | SupplierError | None = None
        self._reader = reader
        self._tells = tells
        self._is_ours = is_ours
        self._held = HELD_BYTES if is_ours else 0
        self._rest = bytearray()
        """An event that is not whole yet."""
        self._passed = 0
        """Bytes of it that were passed on."""

    def feed(self, data: bytes) -> bytes:
        """As ``caller.Tap.feed``."""
        if self._rest:
            return self._heard(data)
        if self.end is not None:
            return data
        return self._listened(data) if data.endswith(_EVENT_ENDS) else self._heard(data)

    def close(self) -> bytes:
        """As ``caller.Tap.close``."""
        rest = bytes(self._rest[self._passed :])
        self._rest.clear()
        if self.end is None:
            self._told(b"", closed=True)
        return rest

    def _heard(self, data: bytes) -> bytes:
        searched = max(len(self._rest) - 2, 0)
        self._rest += data
        cut = _last_end(self._rest, searched)
        passed = b""
        if cut:
            events = bytes(self._rest[:cut])
            del self._rest[:cut]
            passed = self._listened(events)
        if len(self._rest) > self._held:
            passed += self._rest[self._passed :]
            self._passed = len(self._rest)
        if len(self._rest) > EVENT_LIMIT:
            self._deafened()
        return passed

    def _listened(self, events: bytes) -> bytes:
        """What of these events is passed on; nearly all tell nothing, and are not even counted."""
        gone, self._passed = self._passed, 0
        tells = self._tells(events)
        if tells < 0:
            return events[gone:]
        quiet = _last_end(events[:tells], 0)
        passed = [events[gone:quiet]]
        gone = max(gone - quiet, 0)
        for found in _EVENT.finditer(events, quiet):
            event, ours = found[0], False
            if self.end is None and self._tells(event) >= 0:
                ours = not gone and self._is_ours is not None and self._is_ours(event)
                self._told(event)
            if not ours:
                passed.append(event[gone:])
            gone = 0
        return b"".join(passed)

    def _told(self, event: bytes, *, closed: bool = False) -> None:
        for told in self._reader.close() if closed else self._reader.feed(event):
            if isinstance(told, UsageSeen):
                self.usage = told.usage
            elif isinstance(told, Finished | SupplierError):
                self.end = told

    def _deafened(self) -> None:
        """Nobody could use so large an event; what comes is passed on all the same."""
        self._rest.clear()
        self._passed = 0
        if self.end is None:
            why = f"The supplier sent more than {EVENT_LIMIT} bytes in one event"
            self.end = SupplierError("garbled", why)


class GeminiTap(StreamTap):
    """Gemini counts in every piece, and ends with the first that counts and tells a reason."""

    def __init__(self) -> None:
        super().__init__(gemini.reader(), _gemini_tells)
        self._ended = False

    def _told(self, event: bytes, *, closed: bool = False) -> None:
        piece = _piece(event)
        if piece.usageMetadata:
            self.usage = from_gemini(piece.usageMetadata)
        self._ended = self._ended or piece.ends
        if closed or piece.ends or piece.error:
            super()._told(event, closed=closed)
        if self._ended and piece.usageMetadata and self.end is None:
            super()._told(b"", closed=True)


def chat(glance: Glance) -> StreamTap:
    """For OpenAI's chat. The usage that we asked for instead of the caller is dropped."""
    reader = openai_chat.reader()
    return StreamTap(reader, _chat_tells, None if glance.wants_usage else _is_usage)


def responses(glance: Glance) -> StreamTap:
    """For OpenAI's Responses API."""
    return StreamTap(openai_responses.reader(), _responses_tells)


def messages(glance: Glance) -> StreamTap:
    """For Anthropic's messages."""
    return StreamTap(anthropic.reader(), _messages_tells)


def pieces(glance: Glance) -> StreamTap:
    """For Gemini's answers."""
    return GeminiTap()


def counted(body: bytes, read: Callable[[object], Usage]) -> Usage | None:
    """What a whole answer counts, in the words that ``read`` understands; None: nothing."""
    try:
        told = msgspec.json.decode(body, type=_Counted)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    counts = told.usageMetadata if told.usage is None else told.usage
    return None if counts is None else read(counts)


def _chat_tells(data: bytes) -> int:
    return _first(_FINISH(data), _USAGE(data), data.find(b"[DONE]"), _ERROR(data))


def _responses_tells(data: bytes) -> int:
    return _first(*map(data.find, _RESPONSE_ENDS), _IS_ERROR(data))


def _messages_tells(data: bytes) -> int:
    # message_start, message_delta, message_stop
    return _first(data.find(b'"message_'), data.find(b'"error"'))


def _gemini_tells(data: bytes) -> int:
    return _first(_COUNTS(data), _ENDS(data), _ERROR(data))


def _first(*places: "int | re.Match[bytes] | None") -> int:
    """The first of these places, of those that there are; -1: there is none."""
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
        """Whether it tells why there is no more."""
        reasons = [candidate.finishReason for candidate in self.candidates or ()]
        return any(reasons) or bool(self.promptFeedback and self.promptFeedback.blockReason)


def _piece(event: bytes) -> _Piece:
    try:
        return msgspec.json.decode(_data(event), type=_Piece)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Piece()


class _Counted(Struct):
    usage: dict[str, object] | None = None
    usageMetadata: dict[str, object] | None = None  # noqa: N815


class _Chunk(Struct):
    choices: list[msgspec.Raw] | None = None
    usage: dict[str, object] | None = None


def _is_usage(event: bytes) -> bool:
    """Whether this is the extra chunk of ``include_usage``, which holds nothing else."""
    if not _USAGE(event):
        return False
    try:
        chunk = msgspec.json.decode(_data(event), type=_Chunk)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return not chunk.choices and chunk.usage is not None


def _data(event: bytes) -> bytes:
    lines = _LINE_END.split(event)
    return b"\n".join(line[5:] for line in lines if line.startswith(b"data:"))


def _last_end(data: bytes | bytearray, start: int) -> int:
    """Where the last whole event ends, looked for from ``start`` on; 0: there is none."""
    places = ((data.rfind(end, start), len(end)) for end in _EVENT_ENDS)
    return max(place + size if place >= 0 else 0 for place, size in places)
