"""Restores secrets in the replies that go to the caller.

A placeholder may be split over several events. An event whose text ends with the beginning of one
is held back until more of that text, or its end, has arrived. Events are never added, merged or
reordered, and what holds no placeholder passes byte for byte.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from agentd.gateway.secrets.json_strings import decode_text, escape, iter_values
from agentd.gateway.secrets.json_text import JsonDepthTracker
from agentd.gateway.secrets.restore_text import (
    ByteEdit,
    PlaceholderMap,
    TextEdit,
    apply_byte_edits,
    apply_text_edits,
    escape_edits,
    may_hold,
    restore_in_json,
)
from agentd.gateway.secrets.streams import DEEPEST, TELLING, EventTexts, Slot
from agentd.llm.dialects.value_count import has_too_many_parts
from agentd.llm.endpoint import ChannelDialect

HELD_LIMIT = 4 * 2**20
"""Bytes that are held back at most; above it they pass as they are."""

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n")
_SUSPECT = re.compile(rb'SECRET_|S(?:E(?:C(?:R(?:ET?)?)?)?)?"|\\u00[2-7]')
_DATA = re.compile(rb"(?:\A|[\r\n])data:")
_LINES = re.compile(rb"\r\n|\r|\n")


class Restorer:
    """Restores one streamed reply, in the caller's dialect. Feed it all bytes, then close it."""

    def __init__(self, dialect: ChannelDialect, secrets: Mapping[str, str]) -> None:
        self._find_texts = TELLING[dialect]
        self._placeholders = PlaceholderMap(secrets)
        self._texts: dict[Slot, _Text] = {}
        self._frames: deque[_Frame] = deque()
        self._size = 0
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to pass on now."""
        if not self._rest and data.endswith(b"\n\n") and self._is_idle(data):
            return data
        at = 0
        looked = max(len(self._rest) - 3, 0)
        self._rest += data
        out: list[bytes] = []
        while end := _END.search(self._rest, max(at, looked)):
            out.append(self._pass_event(self._rest[at : end.end()]))
            at = end.end()
        self._rest = self._rest[at:]
        if self._size + len(self._rest) > HELD_LIMIT:
            out.append(self._release())
        return b"".join(out)

    def close(self) -> bytes:
        """Return the bytes that are still held back, at the end of the reply."""
        out = self._pass_event(self._rest) if self._rest else b""
        self._rest = b""
        return out + self._release()

    def _release(self) -> bytes:
        self._settle()
        rest, self._rest = self._rest, b""
        return b"".join((*self._iter_ready(), rest))

    def _pass_event(self, raw: bytes) -> bytes:
        """Process an event; return the bytes that can be forwarded."""
        if self._is_idle(raw):
            return raw
        frame = _Frame(raw)
        self._frames.append(frame)
        self._size += len(raw)
        self._read_event(frame)
        return b"".join(self._iter_ready())

    def _is_idle(self, raw: bytes) -> bool:
        """Return whether these events can be skipped: no placeholder continues or begins in them.

        Texts are followed from their beginning where a secret's form may depend on that.
        """
        return not (self._frames or self._placeholders.delicate or _SUSPECT.search(raw))

    def _read_event(self, frame: "_Frame") -> None:
        begin = _DATA.search(frame.raw)
        if begin is None:
            return
        data = b"\n".join(
            line[5:] for line in _LINES.split(frame.raw) if line.startswith(b"data:")
        ).strip()
        if data == b"[DONE]":
            self._settle()
            return
        if has_too_many_parts(data):
            return
        try:
            fields = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if isinstance(fields, dict):
            self._add_pieces(frame, begin.end(), self._find_texts(fields))

    def _add_pieces(self, frame: "_Frame", at: int, texts: EventTexts) -> None:
        raw = frame.raw[at:]
        found = (
            {path: (start, end) for path, start, end in iter_values(raw, DEEPEST)}
            if texts.pieces
            else {}
        )
        skipped: set[int] = set()
        for piece in texts.pieces:
            if piece.path not in found:
                continue
            start, end = found[piece.path]
            skipped.add(start)
            text = self._texts.get(piece.slot)
            if text is None:
                text = self._texts[piece.slot] = _Text(self._placeholders, piece.is_json)
            text.add(frame, at + start, at + end)
        edits = restore_in_json(self._placeholders, raw, skipped) if may_hold(raw) else ()
        frame.splices += [ByteEdit(at + edit.start, at + edit.end, edit.data) for edit in edits]
        for slot in list(self._texts):
            if texts.all_ended or slot[0] in texts.ended:
                self._texts.pop(slot).settle()

    def _settle(self) -> None:
        for text in self._texts.values():
            text.settle()
        self._texts.clear()

    def _iter_ready(self) -> Iterator[bytes]:
        while self._frames and not self._frames[0].waits:
            frame = self._frames.popleft()
            self._size -= len(frame.raw)
            yield frame.render()


class _Frame:
    """An event being processed."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.waits = 0
        """Pieces in it whose text is not yet settled."""
        self.splices: list[ByteEdit] = []

    def render(self) -> bytes:
        return apply_byte_edits(self.raw, self.splices) if self.splices else self.raw


class _Piece:
    """A piece of a text, in its event."""

    def __init__(self, frame: _Frame, start: int, end: int) -> None:
        self.frame = frame
        self.start = start
        self.end = end
        self.text = decode_text(frame.raw[start:end]).decode("utf-8", "surrogatepass")
        self.edits: list[TextEdit] = []
        frame.waits += 1

    def settle(self) -> None:
        """Settle the piece: nothing more of it will change."""
        self.frame.waits -= 1
        if self.edits:
            made = escape(apply_text_edits(self.text, self.edits)).encode("utf-8", "surrogatepass")
            self.frame.splices.append(ByteEdit(self.start, self.end, made))


class _Text:
    """A text that comes in pieces."""

    def __init__(self, placeholders: PlaceholderMap, is_json: bool) -> None:
        self._placeholders = placeholders
        self._is_json = is_json
        self._pieces: list[_Piece] = []
        self._from = 0
        """The offset in the first piece at which the possible beginning of a placeholder starts."""
        self._before = JsonDepthTracker()
        """All before that, on which a secret's form may depend."""

    def add(self, frame: _Frame, start: int, end: int) -> None:
        """Add the next piece; earlier ones are settled once it is clear what they contain."""
        self._pieces.append(_Piece(frame, start, end))
        text = "".join(piece.text for piece in self._pieces)[self._from :]
        edits, held = self._placeholders.find_placeholders(text, to_the_end=False)
        for edit in self._escape_edits(text[:held], edits):
            self._apply(edit)
        held += self._from
        while self._pieces and held >= len(self._pieces[0].text):
            piece = self._pieces.pop(0)
            held -= len(piece.text)
            piece.settle()
        self._from = held

    def settle(self) -> None:
        """Settle the text: no piece follows."""
        for piece in self._pieces:
            piece.settle()
        self._pieces = []

    def _escape_edits(self, text: str, edits: list[TextEdit]) -> Iterable[TextEdit]:
        """Return the edits as they are made in such a text."""
        if not self._placeholders.delicate:
            return edits
        return escape_edits(text, edits, self._before, least=1 if self._is_json else 0)

    def _apply(self, edit: TextEdit) -> None:
        """Put the secret where its placeholder begins, and take away the rest of that."""
        value = edit.value
        start, end = edit.start + self._from, edit.end + self._from
        at = 0
        for piece in self._pieces:
            size = len(piece.text)
            if start < at + size and at < end:
                piece.edits.append(TextEdit(max(start - at, 0), min(end - at, size), value))
                value = ""
            at += size


def create_restorer(dialect: ChannelDialect, secrets: Mapping[str, str]) -> Restorer:
    """Return a restorer for a streamed response. ``secrets``: as ``MaskedRequest.secrets``."""
    return Restorer(dialect, secrets)


def restore_body(dialect: ChannelDialect, secrets: Mapping[str, str], body: bytes) -> bytes:
    """Return a whole response with its secrets restored; what is not JSON stays unchanged."""
    splices = restore_in_json(PlaceholderMap(secrets), body) if may_hold(body) else []
    return apply_byte_edits(body, splices) if splices else body
