"""The secrets in the strings of a JSON text, each by its place in the text's own bytes."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import msgspec

from agentd.proxy.secrets.detect import Detector, Hit, Known
from agentd.proxy.secrets.json_text import JsonText
from agentd.proxy.secrets.placeholder import LONGEST, Placeholders
from agentd.proxy.secrets.request import Part
from agentd.proxy.secrets.rules import SHORTEST, Mode
from agentd.proxy.secrets.walk import IDENTIFIERS, Literal, literals, raw_places, text_of
from agentd.proxy.secrets.writing import identity

_TELLING = re.compile(rb"(?i)pass|pwd|secret|token|key|credential|auth|cookie")
"""In a member's name: its value may be a secret although it does not look like one."""


_TOGETHER = 32 * 1024
"""Bytes of strings that are looked at together."""

_CHOSEN = IDENTIFIERS | {b"name"}
"""Names whose values a caller chose, or a supplier for him, and may choose otherwise."""

_IDENTIFIER = re.compile(rb"[!-~]+")
_LONGEST_NAME = 64
"""Characters that suppliers take for the name of a tool."""

_WORDS = frozenset(
    (
        *(b"messages", b"content", b"tool_calls", b"function", b"arguments", b"tool_call_id"),
        *(b"assistant", b"system", b"developer", b"tool_use", b"tool_use_id", b"tool_result"),
        *(b"cache_control", b"ephemeral", b"message", b"input_text", b"output_text", b"call_id"),
        *(b"function_call", b"function_call_output", b"output", b"status", b"completed"),
        *(b"functionCall", b"functionResponse", b"response", b"description", b"parameters"),
        *(b"input_schema", b"reasoning", b"thinking", b"signature"),
    )
)
"""What every request is full of, and is no secret."""


class Spot(NamedTuple):
    """A secret in a JSON text: the bytes that it takes there, and what they stand for."""

    start: int
    end: int
    value: bytes
    """As it is known: its ``writing.identity``."""
    rule: str
    mode: Mode

    def moved(self, by: int) -> "Spot":
        """The same in a text in which that many bytes come before."""
        return self._replace(start=self.start + by, end=self.end + by)


class Scanner:
    """Looks through JSON text for one access key, whose own placeholders are no secrets."""

    def __init__(
        self, detector: Detector, placeholders: Placeholders, key_id: str, known: Known | None
    ) -> None:
        self._detector = detector
        self._placeholders = placeholders
        self._key_id = key_id
        self._known = known

    def strings(
        self, raw: bytes, parts: Iterable[tuple[Part, list[Literal]]]
    ) -> Iterator[tuple[Literal, list[Spot]]]:
        """Every string of these parts with secrets in it, and those, in order.

        What is no text goes to the list beside its part, for ``in_structure``.
        """
        every = chain.from_iterable(
            literals(raw, part.start, part.end, part.free, part.name.encode(), structure)
            for part, structure in parts
        )
        for literal in self._suspects(raw, every):
            spots = self._spots(raw[literal.start : literal.end], literal, literal.name)
            if spots:
                yield literal, [spot.moved(literal.start) for spot in spots]

    def _suspects(self, raw: bytes, every: Iterable[Literal]) -> Iterator[Literal]:
        """Yield those in which there may be secrets; some are looked at together."""
        batch: list[Literal] = []
        texts: list[bytes] = []
        owners: list[int] = []
        size = 0
        for literal in every:
            if literal.end - literal.start < SHORTEST:
                continue
            for text in _texts(raw[literal.start : literal.end], literal, literal.name):
                texts.append(text)
                owners.append(len(batch))
            batch.append(literal)
            size += literal.end - literal.start
            if size >= _TOGETHER:
                yield from self._suspects_of(batch, texts, owners)
                batch, texts, owners, size = [], [], [], 0
        yield from self._suspects_of(batch, texts, owners)

    def _suspects_of(
        self, batch: list[Literal], texts: list[bytes], owners: list[int]
    ) -> Iterator[Literal]:
        numbers = {owners[number] for number in self._detector.suspects(texts, self._known)}
        return (batch[number] for number in sorted(numbers))

    def is_harmless(self, raw: bytes, structure: Iterable[Literal]) -> bool:
        """Whether none of these holds a secret. All together they are looked at much quicker."""
        contents = {raw[one.start : one.end] for one in structure} - _WORDS
        return not self._detector.find(text_of(b"\n".join(contents)), self._known)

    def in_structure(
        self, raw: bytes, structure: Iterable[Literal]
    ) -> Iterator[tuple[Literal, list[Spot]]]:
        """As ``strings``, of names and identifiers of the protocol."""
        for literal in structure:
            spots = self._in_structure(raw[literal.start : literal.end], literal)
            if spots:
                yield literal, [spot.moved(literal.start) for spot in spots]

    def _in_structure(self, content: bytes, literal: Literal) -> list[Spot]:
        """Those in a name or an identifier, which stays one: it is hidden as a whole, if need be.

        A word of the protocol may be somebody's password: there only the rules tell a secret.
        """
        text = text_of(content)
        chosen = not literal.is_name and literal.name in _CHOSEN
        spots = self._found(text, self._known if chosen else None)
        whole = literal.name in IDENTIFIERS and not literal.is_name
        whole = whole or len(text) + LONGEST * len(spots) > _LONGEST_NAME
        hides = [spot for spot in spots if spot.mode != "report"]
        if hides and whole and _IDENTIFIER.fullmatch(text):
            mode: Mode = "block" if any(spot.mode == "block" for spot in hides) else "hide"
            spots = [Spot(0, len(text), text, hides[0].rule, mode)]
        return _in_content(content, spots)

    def text(self, text: bytes) -> list[Spot]:
        """Those in a text that is no JSON."""
        return self._found(text, self._known)

    def _found(self, text: bytes, known: Known | None) -> list[Spot]:
        spots = [
            Spot(hit.start, hit.end, text[hit.start : hit.end], hit.rule, hit.mode)
            for hit in self._foreign(text, self._detector.find(text, known))
        ]
        if any(b"\\" in spot.value or spot.value.startswith(b"\0") for spot in spots):
            return list(_identified(text, spots))
        return spots

    def _spots(self, content: bytes, literal: Literal, name: bytes) -> list[Spot]:
        """Those in one string, by their place in its content."""
        text = text_of(content)
        if name == b"arguments" and not literal.is_name and _is_json(text):
            spots = [
                spot.moved(inner.start)
                for inner in literals(text, 0, len(text), True)
                for spot in self._spots(text[inner.start : inner.end], inner, b"")
            ]
        else:
            spots = self.text(text)
            if literal.free and not literal.is_name and _TELLING.search(literal.name):
                spots = spots or self._named(literal.name, text)
        return _in_content(content, spots)

    def _named(self, name: bytes, text: bytes) -> list[Spot]:
        """Those that only a member's name tells: ``{"password": "…"}``."""
        before = len(name) + 2
        found = []
        for spot in self.text(_assigned(name, text)):
            start, end = max(spot.start - before, 0), min(spot.end - before, len(text))
            if end - start >= SHORTEST:
                found.append(Spot(start, end, text[start:end], spot.rule, spot.mode))
        return found

    def _foreign(self, text: bytes, hits: list[Hit]) -> Iterator[Hit]:
        """The hits without our own placeholders in them."""
        ours = self._placeholders.in_text(text, self._key_id) if hits and b"SECRET_" in text else []
        reach = 0  # the number of the first placeholder that ends behind where the hit begins
        for hit in hits:
            while reach < len(ours) and ours[reach][1] <= hit.start:
                reach += 1
            at, near = hit.start, reach
            while near < len(ours) and ours[near][0] < hit.end:
                start, end = ours[near]
                if start - at >= SHORTEST:
                    yield hit._replace(start=at, end=start)
                at, near = end, near + 1
            if at == hit.start or hit.end - at >= SHORTEST:
                yield hit._replace(start=at)


def _texts(content: bytes, literal: Literal, name: bytes) -> Iterator[bytes]:
    """Yield all that ``Scanner`` looks at in a string."""
    text = text_of(content)
    if name == b"arguments" and not literal.is_name and _is_json(text):
        for inner in literals(text, 0, len(text), True):
            yield from _texts(text[inner.start : inner.end], inner, b"")
        return
    yield text
    if literal.free and not literal.is_name and _TELLING.search(literal.name):
        yield _assigned(literal.name, text)


def _assigned(name: bytes, text: bytes) -> bytes:
    return b'%b="%b"' % (name, text)


def _identified(text: bytes, spots: list[Spot]) -> Iterator[Spot]:
    """The spots, each with what its secret is known by: escapes count by where they stand.

    What is hidden is told as a letter to what follows the text, as a reply has a placeholder there.
    """
    so_far = JsonText()
    at = 0
    for spot in spots:
        so_far.feed(text[at : spot.start].decode("utf-8", "replace"))
        at = spot.start
        found = spot.value.decode("utf-8", "surrogatepass")
        yield spot._replace(value=identity(found, so_far.depth))
        if spot.mode == "hide":
            so_far.feed("S")
            at = spot.end


def _in_content(content: bytes, spots: list[Spot]) -> list[Spot]:
    """Spots of a string's text, by their place in the string's bytes."""
    if not spots or b"\\" not in content:
        return spots
    offsets = sorted({offset for spot in spots for offset in (spot.start, spot.end)})
    raw = dict(zip(offsets, raw_places(content, offsets), strict=True))
    return [spot._replace(start=raw[spot.start], end=raw[spot.end]) for spot in spots]


def _is_json(text: bytes) -> bool:
    if text.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
