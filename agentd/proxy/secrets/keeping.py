"""Bodies without any secret, for keeping: also those that are only reported, or that a model told.

Nothing is passed on or put back here, so no place is spared: names, seals and pictures are looked
at like text. A streamed text is looked at as a whole, for its pieces hold parts of a secret each.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeAlias

import msgspec

from agentd.proxy.channel import ChannelDialect
from agentd.proxy.secrets.put_back import Splice, spliced
from agentd.proxy.secrets.request import Part
from agentd.proxy.secrets.scan import Scanner, Spot
from agentd.proxy.secrets.streams import DEEPEST, TELLING, Slot
from agentd.proxy.secrets.walk import escaped, places, text_of

_DATA_LINE = re.compile(rb"(?:\A|(?<=[\r\n]))data:([^\r\n]*)")

Naming: TypeAlias = Callable[[Spot], str]
"""What is to stand for a secret."""


class _Piece(NamedTuple):
    """A piece of a streamed text: its bytes in the body, and what they mean."""

    start: int
    end: int
    text: bytes


def without_secrets(
    scanner: Scanner, naming: Naming, dialect: ChannelDialect, body: bytes
) -> bytes:
    """Return a request, or an answer that came whole or as a stream, without any secret."""
    if _is_json(body):
        return spliced(body, list(_in_json(scanner, naming, body, 0, ())))
    if _DATA_LINE.search(body):
        return spliced(body, list(_in_stream(scanner, naming, dialect, body)))
    return spliced(body, [_splice(naming, spot) for spot in scanner.text(body)])


def _in_json(
    scanner: Scanner, naming: Naming, raw: bytes, offset: int, skipped: Iterable[int]
) -> Iterator[Splice]:
    """What to change in a JSON text; its place in the body is ``offset``."""
    done = frozenset(skipped)
    for literal, spots in scanner.strings(raw, [(Part(0, len(raw), "", free=True), [])]):
        if literal.start not in done:
            for spot in spots:
                yield _splice(naming, spot.moved(offset))


def _in_stream(
    scanner: Scanner, naming: Naming, dialect: ChannelDialect, body: bytes
) -> Iterator[Splice]:
    texts: dict[Slot, list[_Piece]] = {}
    for line in _DATA_LINE.finditer(body):
        start, raw = line.start(1), line[1]
        try:
            event = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield from (_splice(naming, spot.moved(start)) for spot in scanner.text(raw))
            continue
        pieces = TELLING[dialect](event).pieces if isinstance(event, dict) else ()
        found = {way: span for way, *span in places(raw, DEEPEST)} if pieces else {}
        skipped = []
        for piece in pieces:
            if piece.way in found:
                begin, end = found[piece.way]
                skipped.append(begin)
                content = text_of(raw[begin:end])
                texts.setdefault(piece.slot, []).append(_Piece(start + begin, start + end, content))
        yield from _in_json(scanner, naming, raw, start, skipped)
    for text in texts.values():
        yield from _in_pieces(scanner, naming, text)


def _in_pieces(scanner: Scanner, naming: Naming, pieces: list[_Piece]) -> Iterator[Splice]:
    """What to change in the pieces of one text.

    The first one that a secret is in tells what stands for it; others lose their parts of it.
    """
    spots = scanner.text(b"".join(piece.text for piece in pieces))
    at = number = 0
    for piece in pieces:
        size = len(piece.text)
        while number < len(spots) and spots[number].end <= at:
            number += 1
        edits: list[Splice] = []
        for spot in islice(spots, number, None):
            if spot.start >= at + size:
                break
            name = naming(spot).encode() if spot.start >= at else b""
            edits.append(Splice(max(spot.start - at, 0), min(spot.end - at, size), name))
        if edits:
            text = spliced(piece.text, edits).decode("utf-8", "replace")
            yield Splice(piece.start, piece.end, escaped(text).encode())
        at += size


def _splice(naming: Naming, spot: Spot) -> Splice:
    return Splice(spot.start, spot.end, naming(spot).encode())


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
