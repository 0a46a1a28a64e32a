"""Redacts bodies for storage: reported-only secrets, and those in replies, too.

Nothing is passed on or put back here, so no place is spared: names, seals and pictures are looked
at like text. A streamed text is looked at as a whole, for its pieces hold parts of a secret each.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeAlias

import msgspec

from agentd.gateway.secrets.json_strings import decode_text, escape, iter_values
from agentd.gateway.secrets.restore_text import ByteEdit, apply_byte_edits
from agentd.gateway.secrets.scan import Scanner, SecretSpan
from agentd.gateway.secrets.split_body import BodyPart
from agentd.gateway.secrets.streams import DEEPEST, TELLING, Slot
from agentd.llm.endpoint import ChannelDialect

_DATA_LINE = re.compile(rb"(?:\A|(?<=[\r\n]))data:([^\r\n]*)")

Naming: TypeAlias = Callable[[SecretSpan], str]
"""A function that returns the replacement of a secret."""


class _Piece(NamedTuple):
    """A piece of a streamed text: its bytes in the body, and what they mean."""

    start: int
    end: int
    text: bytes


def redact_secrets(scanner: Scanner, naming: Naming, dialect: ChannelDialect, body: bytes) -> bytes:
    """Return a request, or an answer that came whole or as a stream, without any secret."""
    if _is_json(body):
        return apply_byte_edits(body, list(_redact_json(scanner, naming, body, 0, ())))
    if _DATA_LINE.search(body):
        return apply_byte_edits(body, list(_redact_stream(scanner, naming, dialect, body)))
    return apply_byte_edits(body, [_make_edit(naming, spot) for spot in scanner.scan_text(body)])


def _redact_json(
    scanner: Scanner, naming: Naming, raw: bytes, offset: int, skipped: Iterable[int]
) -> Iterator[ByteEdit]:
    """Yield the edits of a JSON text that begins at ``offset`` in the body."""
    done = frozenset(skipped)
    for literal, spots in scanner.scan_strings(raw, [(BodyPart(0, len(raw), "", free=True), [])]):
        if literal.start not in done:
            for spot in spots:
                yield _make_edit(naming, spot.shift(offset))


def _redact_stream(
    scanner: Scanner, naming: Naming, dialect: ChannelDialect, body: bytes
) -> Iterator[ByteEdit]:
    texts: dict[Slot, list[_Piece]] = {}
    for line in _DATA_LINE.finditer(body):
        start, raw = line.start(1), line[1]
        try:
            event = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield from (_make_edit(naming, spot.shift(start)) for spot in scanner.scan_text(raw))
            continue
        pieces = TELLING[dialect](event).pieces if isinstance(event, dict) else ()
        found = {path: span for path, *span in iter_values(raw, DEEPEST)} if pieces else {}
        skipped = []
        for piece in pieces:
            if piece.path in found:
                begin, end = found[piece.path]
                skipped.append(begin)
                content = decode_text(raw[begin:end])
                texts.setdefault(piece.slot, []).append(_Piece(start + begin, start + end, content))
        yield from _redact_json(scanner, naming, raw, start, skipped)
    for text in texts.values():
        yield from _redact_pieces(scanner, naming, text)


def _redact_pieces(scanner: Scanner, naming: Naming, pieces: list[_Piece]) -> Iterator[ByteEdit]:
    """Yield the edits of the pieces of one text.

    The first one that contains a secret gets the placeholder; others lose their parts of it.
    """
    spots = scanner.scan_text(b"".join(piece.text for piece in pieces))
    at = number = 0
    for piece in pieces:
        size = len(piece.text)
        while number < len(spots) and spots[number].end <= at:
            number += 1
        edits: list[ByteEdit] = []
        for spot in islice(spots, number, None):
            if spot.start >= at + size:
                break
            name = naming(spot).encode() if spot.start >= at else b""
            edits.append(ByteEdit(max(spot.start - at, 0), min(spot.end - at, size), name))
        if edits:
            text = apply_byte_edits(piece.text, edits).decode("utf-8", "replace")
            yield ByteEdit(piece.start, piece.end, escape(text).encode())
        at += size


def _make_edit(naming: Naming, spot: SecretSpan) -> ByteEdit:
    return ByteEdit(spot.start, spot.end, naming(spot).encode())


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
