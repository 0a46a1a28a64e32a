"""Secrets put back into the replies that go to the caller.

A placeholder may be split over several events. An event whose text ends as one begins is held
back until more of that text, or its end, has come; then it goes on as it was, or with the secret
in it. Events are never made, merged or reordered, and what holds no placeholder passes byte for
byte.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from agentd.proxy.channel import ChannelDialect
from agentd.proxy.secrets.json_text import JsonText
from agentd.proxy.secrets.put_back import (
    Edit,
    Splice,
    Vault,
    edited,
    in_json,
    inside,
    may_hold,
    spliced,
)
from agentd.proxy.secrets.streams import DEEPEST, TELLING, Slot, Told
from agentd.proxy.secrets.walk import escaped, places, text_of

HELD_LIMIT = 4 * 2**20
"""Bytes that are held back at most; above it they pass as they are."""

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n")
_SUSPECT = re.compile(rb'SECRET_|S(?:E(?:C(?:R(?:ET?)?)?)?)?"|\\u00[2-7]')
_DATA = re.compile(rb"(?:\A|[\r\n])data:")
_LINES = re.compile(rb"\r\n|\r|\n")


class Restorer:
    """One streamed reply, in the caller's dialect. Feed it all bytes, then close it."""

    def __init__(self, dialect: ChannelDialect, secrets: Mapping[str, str]) -> None:
        self._told = TELLING[dialect]
        self._vault = Vault(secrets)
        self._texts: dict[Slot, _Text] = {}
        self._frames: deque[_Frame] = deque()
        self._size = 0
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """The bytes to pass on now."""
        if not self._rest and data.endswith(b"\n\n") and self._idle(data):
            return data
        at = 0
        looked = max(len(self._rest) - 3, 0)
        self._rest += data
        out: list[bytes] = []
        while end := _END.search(self._rest, max(at, looked)):
            out.append(self._passed(self._rest[at : end.end()]))
            at = end.end()
        self._rest = self._rest[at:]
        if self._size + len(self._rest) > HELD_LIMIT:
            out.append(self._released())
        return b"".join(out)

    def close(self) -> bytes:
        """The reply is over: what was held back."""
        out = self._passed(self._rest) if self._rest else b""
        self._rest = b""
        return out + self._released()

    def _released(self) -> bytes:
        self._settle()
        rest, self._rest = self._rest, b""
        return b"".join((*self._ready(), rest))

    def _passed(self, raw: bytes) -> bytes:
        """One event more; what may go on now."""
        if self._idle(raw):
            return raw
        frame = _Frame(raw)
        self._frames.append(frame)
        self._size += len(raw)
        self._look(frame)
        return b"".join(self._ready())

    def _idle(self, raw: bytes) -> bool:
        """Whether these events need not be looked at: nothing waits for them, nor begins in them.

        Texts are followed from their beginning where a secret's form may depend on that.
        """
        return not (self._frames or self._vault.delicate or _SUSPECT.search(raw))

    def _look(self, frame: "_Frame") -> None:
        begin = _DATA.search(frame.raw)
        if begin is None:
            return
        data = b"\n".join(
            line[5:] for line in _LINES.split(frame.raw) if line.startswith(b"data:")
        ).strip()
        if data == b"[DONE]":
            self._settle()
            return
        try:
            fields = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if isinstance(fields, dict):
            self._take(frame, begin.end(), self._told(fields))

    def _take(self, frame: "_Frame", at: int, told: Told) -> None:
        raw = frame.raw[at:]
        found = (
            {way: (start, end) for way, start, end in places(raw, DEEPEST)} if told.pieces else {}
        )
        skipped: set[int] = set()
        for piece in told.pieces:
            if piece.way not in found:
                continue
            start, end = found[piece.way]
            skipped.add(start)
            text = self._texts.get(piece.slot)
            if text is None:
                text = self._texts[piece.slot] = _Text(self._vault, piece.is_json)
            text.add(frame, at + start, at + end)
        frame.splices += [
            Splice(at + splice.start, at + splice.end, splice.data)
            for splice in (in_json(self._vault, raw, skipped) if may_hold(raw) else ())
        ]
        for slot in list(self._texts):
            if told.all_ended or slot[0] in told.ended:
                self._texts.pop(slot).settle()

    def _settle(self) -> None:
        for text in self._texts.values():
            text.settle()
        self._texts.clear()

    def _ready(self) -> Iterator[bytes]:
        while self._frames and not self._frames[0].waits:
            frame = self._frames.popleft()
            self._size -= len(frame.raw)
            yield frame.rendered()


class _Frame:
    """One event on its way."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.waits = 0
        """Pieces in it whose text is not yet settled."""
        self.splices: list[Splice] = []

    def rendered(self) -> bytes:
        return spliced(self.raw, self.splices) if self.splices else self.raw


class _Piece:
    """A piece of a text, in its event."""

    def __init__(self, frame: _Frame, start: int, end: int) -> None:
        self.frame = frame
        self.start = start
        self.end = end
        self.text = text_of(frame.raw[start:end]).decode("utf-8", "surrogatepass")
        self.edits: list[Edit] = []
        frame.waits += 1

    def settle(self) -> None:
        """Nothing more of it will change."""
        self.frame.waits -= 1
        if self.edits:
            made = escaped(edited(self.text, self.edits)).encode("utf-8", "surrogatepass")
            self.frame.splices.append(Splice(self.start, self.end, made))


class _Text:
    """A text that comes in pieces."""

    def __init__(self, vault: Vault, is_json: bool) -> None:
        self._vault = vault
        self._is_json = is_json
        self._pieces: list[_Piece] = []
        self._from = 0
        """In the first piece: where the text begins that may be the beginning of a placeholder."""
        self._before = JsonText()
        """All before that, on which a secret's form may depend."""

    def add(self, frame: _Frame, start: int, end: int) -> None:
        """The next piece; those before it are settled where it shows what they are."""
        self._pieces.append(_Piece(frame, start, end))
        text = "".join(piece.text for piece in self._pieces)[self._from :]
        edits, held = self._vault.found(text, to_the_end=False)
        for edit in self._written(text[:held], edits):
            self._edit(edit)
        held += self._from
        while self._pieces and held >= len(self._pieces[0].text):
            piece = self._pieces.pop(0)
            held -= len(piece.text)
            piece.settle()
        self._from = held

    def settle(self) -> None:
        """No piece follows."""
        for piece in self._pieces:
            piece.settle()
        self._pieces = []

    def _written(self, text: str, edits: list[Edit]) -> Iterable[Edit]:
        """The edits as they are made in such a text."""
        if not self._vault.delicate:
            return edits
        return inside(text, edits, self._before, least=1 if self._is_json else 0)

    def _edit(self, edit: Edit) -> None:
        """Put the secret where its placeholder begins, and take away the rest of that."""
        value = edit.value
        start, end = edit.start + self._from, edit.end + self._from
        at = 0
        for piece in self._pieces:
            size = len(piece.text)
            if start < at + size and at < end:
                piece.edits.append(Edit(max(start - at, 0), min(end - at, size), value))
                value = ""
            at += size


def restorer(dialect: ChannelDialect, secrets: Mapping[str, str]) -> Restorer:
    """For a streamed answer. ``secrets``: as ``Hidden.secrets``."""
    return Restorer(dialect, secrets)


def restored(dialect: ChannelDialect, secrets: Mapping[str, str], body: bytes) -> bytes:
    """A whole answer, with the secrets put back; what is no JSON stays as it is."""
    splices = in_json(Vault(secrets), body) if may_hold(body) else []
    return spliced(body, splices) if splices else body
