"""Finds the secrets in the strings of a JSON text, by their position in its bytes."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple

import msgspec

from agentd.gateway.secrets.detect import Detector, KnownValueMatcher, Match
from agentd.gateway.secrets.escape_layers import get_identity
from agentd.gateway.secrets.json_strings import (
    IDENTIFIERS,
    StringSpan,
    decode_text,
    iter_strings,
    to_raw_offsets,
)
from agentd.gateway.secrets.json_text import JsonDepthTracker
from agentd.gateway.secrets.placeholder import LONGEST, Placeholders
from agentd.gateway.secrets.rules import SHORTEST, Mode
from agentd.gateway.secrets.split_body import BodyPart

_TELLING = re.compile(rb"(?i)pass|pwd|secret|token|key|credential|auth|cookie")
"""Words in a member's name by which its value may be a secret even if it does not look like one."""


_TOGETHER = 32 * 1024
"""Bytes of strings that are scanned at once."""

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
"""Words that are in every request, and are not secrets."""


class SecretSpan(NamedTuple):
    """A secret in a JSON text: the bytes that it takes there, and what they stand for."""

    start: int
    end: int
    value: bytes
    """Its identity (``escape_layers.get_identity``)."""
    rule: str
    mode: Mode

    def shift(self, by: int) -> "SecretSpan":
        """Return the span moved by a number of bytes."""
        return self._replace(start=self.start + by, end=self.end + by)


class Scanner:
    """Scans JSON text for one access key, whose own placeholders are not secrets."""

    def __init__(
        self,
        detector: Detector,
        placeholders: Placeholders,
        key_id: str,
        known: KnownValueMatcher | None,
    ) -> None:
        self._detector = detector
        self._placeholders = placeholders
        self._key_id = key_id
        self._known = known

    def scan_strings(
        self, raw: bytes, parts: Iterable[tuple[BodyPart, list[StringSpan]]]
    ) -> Iterator[tuple[StringSpan, list[SecretSpan]]]:
        """Yield every string of these parts that contains secrets, with them, in order.

        Names and identifiers are added to the list beside their part, for ``scan_structure``.
        """
        every = chain.from_iterable(
            iter_strings(raw, part.start, part.end, part.free, part.name.encode(), structure)
            for part, structure in parts
        )
        for literal in self._find_suspects(raw, every):
            spots = self._scan_string(raw[literal.start : literal.end], literal, literal.name)
            if spots:
                yield literal, [spot.shift(literal.start) for spot in spots]

    def _find_suspects(self, raw: bytes, every: Iterable[StringSpan]) -> Iterator[StringSpan]:
        """Yield the strings that may contain secrets; they are scanned in batches."""
        long = (literal for literal in every if literal.end - literal.start >= SHORTEST)
        first = list(islice(long, 2))
        if len(first) < 2:  # a new message: to look at one together with none is to look twice
            yield from first
            return
        batch: list[StringSpan] = []
        texts: list[bytes] = []
        owners: list[int] = []
        size = 0
        for literal in chain(first, long):
            for text in _iter_texts(raw[literal.start : literal.end], literal, literal.name):
                texts.append(text)
                owners.append(len(batch))
            batch.append(literal)
            size += literal.end - literal.start
            if size >= _TOGETHER:
                yield from self._find_suspects_in_batch(batch, texts, owners)
                batch, texts, owners, size = [], [], [], 0
        yield from self._find_suspects_in_batch(batch, texts, owners)

    def _find_suspects_in_batch(
        self, batch: list[StringSpan], texts: list[bytes], owners: list[int]
    ) -> Iterator[StringSpan]:
        numbers = {owners[number] for number in self._detector.find_suspects(texts, self._known)}
        return (batch[number] for number in sorted(numbers))

    def is_harmless(self, raw: bytes, structure: Iterable[StringSpan]) -> bool:
        """Return whether none contains a secret; scanning them all at once is much faster."""
        contents = {raw[one.start : one.end] for one in structure} - _WORDS
        return not contents or not self._detector.find(
            decode_text(b"\n".join(contents)), self._known
        )

    def scan_structure(
        self, raw: bytes, structure: Iterable[StringSpan]
    ) -> Iterator[tuple[StringSpan, list[SecretSpan]]]:
        """Do as ``scan_strings`` for names and identifiers of the protocol."""
        for literal in structure:
            spots = self._scan_identifier(raw[literal.start : literal.end], literal)
            if spots:
                yield literal, [spot.shift(literal.start) for spot in spots]

    def _scan_identifier(self, content: bytes, literal: StringSpan) -> list[SecretSpan]:
        """Return the secrets in a name or identifier, which is masked as a whole if necessary.

        A word of the protocol may be somebody's password: there only the rules apply.
        """
        text = decode_text(content)
        chosen = not literal.is_name and literal.name in _CHOSEN
        spots = self._find(text, self._known if chosen else None)
        whole = literal.name in IDENTIFIERS and not literal.is_name
        whole = whole or len(text) + LONGEST * len(spots) > _LONGEST_NAME
        hides = [spot for spot in spots if spot.mode != "report"]
        if hides and whole and _IDENTIFIER.fullmatch(text):
            strictest = next((spot for spot in hides if spot.mode == "block"), hides[0])
            spots = [SecretSpan(0, len(text), text, strictest.rule, strictest.mode)]
        return _to_content_offsets(content, spots)

    def scan_text(self, text: bytes) -> list[SecretSpan]:
        """Return the secrets in a text that is not JSON."""
        return self._find(text, self._known)

    def _find(self, text: bytes, known: KnownValueMatcher | None) -> list[SecretSpan]:
        hits = self._detector.find(text, known)
        if not hits:  # nearly always
            return []
        spots = [
            SecretSpan(hit.start, hit.end, text[hit.start : hit.end], hit.rule, hit.mode)
            for hit in self._drop_own_placeholders(text, hits)
        ]
        if any(b"\\" in spot.value or spot.value.startswith(b"\0") for spot in spots):
            return list(_add_identities(text, spots))
        return spots

    def _scan_string(self, content: bytes, literal: StringSpan, name: bytes) -> list[SecretSpan]:
        """Return the secrets in one string, by their position in its content."""
        text = decode_text(content)
        if name == b"arguments" and not literal.is_name and _is_json(text):
            spots = [
                spot.shift(inner.start)
                for inner in iter_strings(text, 0, len(text), True)
                for spot in self._scan_string(text[inner.start : inner.end], inner, b"")
            ]
        else:
            spots = self.scan_text(text)
            if literal.free and not literal.is_name and _TELLING.search(literal.name):
                spots = spots or self._find_by_name(literal.name, text)
        return _to_content_offsets(content, spots)

    def _find_by_name(self, name: bytes, text: bytes) -> list[SecretSpan]:
        """Return secrets recognized only by the member's name: ``{"password": "…"}``."""
        before = len(name) + 2
        found = []
        for spot in self.scan_text(_format_assignment(name, text)):
            start, end = max(spot.start - before, 0), min(spot.end - before, len(text))
            if end - start >= SHORTEST:
                found.append(SecretSpan(start, end, text[start:end], spot.rule, spot.mode))
        return found

    def _drop_own_placeholders(self, text: bytes, hits: list[Match]) -> Iterator[Match]:
        """Yield the hits without our own placeholders in them."""
        ours = self._placeholders.find_in(text, self._key_id) if hits and b"SECRET_" in text else []
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


def _iter_texts(content: bytes, literal: StringSpan, name: bytes) -> Iterator[bytes]:
    """Yield all texts that ``Scanner`` scans in a string."""
    text = decode_text(content)
    if name == b"arguments" and not literal.is_name and _is_json(text):
        for inner in iter_strings(text, 0, len(text), True):
            yield from _iter_texts(text[inner.start : inner.end], inner, b"")
        return
    yield text
    if literal.free and not literal.is_name and _TELLING.search(literal.name):
        yield _format_assignment(literal.name, text)


def _format_assignment(name: bytes, text: bytes) -> bytes:
    return b'%b="%b"' % (name, text)


def _add_identities(text: bytes, spots: list[SecretSpan]) -> Iterator[SecretSpan]:
    """Yield the spans with the identities of their secrets, which depend on the escapes around.

    A masked secret counts as one letter for the text after it, as its placeholder does in a reply.
    """
    so_far = JsonDepthTracker()
    at = 0
    for spot in spots:
        so_far.feed(text[at : spot.start].decode("utf-8", "replace"))
        at = spot.start
        found = spot.value.decode("utf-8", "surrogatepass")
        yield spot._replace(value=get_identity(found, so_far.depth))
        if spot.mode == "hide":
            so_far.feed("S")
            at = spot.end


def _to_content_offsets(content: bytes, spots: list[SecretSpan]) -> list[SecretSpan]:
    """Convert spans of a string's text to spans of its bytes."""
    if not spots or b"\\" not in content:
        return spots
    offsets = sorted({offset for spot in spots for offset in (spot.start, spot.end)})
    raw = dict(zip(offsets, to_raw_offsets(content, offsets), strict=True))
    return [spot._replace(start=raw[spot.start], end=raw[spot.end]) for spot in spots]


def _is_json(text: bytes) -> bool:
    if text.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
