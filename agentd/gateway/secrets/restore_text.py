"""Placeholders replaced by their secrets in plain text or JSON."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from agentd.gateway.secrets.escape_layers import EscapedSecret, escape_at_depth
from agentd.gateway.secrets.json_strings import StringSpan, decode_text, escape, iter_strings
from agentd.gateway.secrets.json_text import JsonDepthTracker

_BEGIN = "SECRET_"


class TextEdit(NamedTuple):
    """A place in a text, and the secret that belongs there."""

    start: int
    end: int
    value: str


class ByteEdit(NamedTuple):
    """A place in bytes, and its replacement."""

    start: int
    end: int
    data: bytes


class PlaceholderMap:
    """The secrets that may have to be restored, by placeholder."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = secrets
        self._sorted = sorted(secrets)
        self._lengths = sorted({len(one) for one in secrets}, reverse=True)
        self._longest = max(self._lengths, default=0)
        self.delicate = any(map(_needs_escaping, secrets.values()))
        """True if the escaping of any of them depends on its place."""

    def find_placeholders(self, text: str, to_the_end: bool = True) -> tuple[list[TextEdit], int]:
        """Return the placeholders in a text, and from where on another one may begin.

        ``to_the_end``: nothing follows, so that none can begin.
        """
        edits: list[TextEdit] = []
        at = text.find("S")
        while at >= 0:
            edit = self._match_at(text, at)
            if edit:
                edits.append(edit)
            elif not to_the_end and self._may_begin(text[at : at + self._longest]):
                return edits, at
            at = text.find("S", edit.end if edit else at + 1)
        return edits, len(text)

    def _match_at(self, text: str, at: int) -> TextEdit | None:
        if not text.startswith(_BEGIN, at):
            return None
        for length in self._lengths:
            value = self._secrets.get(text[at : at + length])
            if value is not None:
                return TextEdit(at, at + length, value)
        return None

    def _may_begin(self, text: str) -> bool:
        near = bisect_left(self._sorted, text)
        return near < len(self._sorted) and self._sorted[near].startswith(text)


def restore_in_json(
    placeholders: PlaceholderMap, raw: bytes, skipped: Collection[int] = ()
) -> list[ByteEdit]:
    """Return the edits of a JSON text; strings that begin at ``skipped`` are left alone."""
    splices: list[ByteEdit] = []
    structure: list[StringSpan] = []
    texts = iter_strings(raw, 0, len(raw), False, structure=structure)
    for literal in chain(texts, structure):
        content = raw[literal.start : literal.end]
        if literal.start in skipped or not may_hold(content):
            continue
        text = decode_text(content).decode("utf-8", "surrogatepass")
        edits, _ = placeholders.find_placeholders(text)
        if edits:
            is_json = literal.name == b"arguments" and text.lstrip()[:1] in ("{", "[")
            if placeholders.delicate:
                edits = list(
                    escape_edits(text, edits, JsonDepthTracker(), least=1 if is_json else 0)
                )
            made = escape(apply_text_edits(text, edits)).encode("utf-8", "surrogatepass")
            splices.append(ByteEdit(literal.start, literal.end, made))
    return splices


def may_hold(raw: bytes) -> bool:
    """Return whether JSON text may hold a whole placeholder, even with its letters escaped."""
    return b"SECRET_" in raw or b"\\u00" in raw


def apply_text_edits(text: str, edits: Collection[TextEdit]) -> str:
    """Return the text with the edits applied; they are in order."""
    pieces: list[str] = []
    at = 0
    for edit in edits:
        pieces += (text[at : edit.start], edit.value)
        at = edit.end
    return "".join((*pieces, text[at:]))


def apply_byte_edits(raw: bytes, splices: Collection[ByteEdit]) -> bytes:
    """Return the bytes with the edits applied, in whatever order they are."""
    pieces: list[bytes] = []
    at = 0
    for splice in sorted(splices):
        pieces += (raw[at : splice.start], splice.data)
        at = splice.end
    return b"".join((*pieces, raw[at:]))


def escape_edits(
    text: str, edits: Iterable[TextEdit], so_far: JsonDepthTracker, least: int
) -> Iterator[TextEdit]:
    """Yield the edits, escaped for the JSON strings around them.

    ``so_far`` has followed the text before. A secret is at least ``least`` strings deep.
    """
    at = 0
    for edit in edits:
        so_far.feed(text[at : edit.start])
        at = edit.start
        yield edit._replace(value=escape_at_depth(edit.value, max(least, so_far.depth)))
    so_far.feed(text[at:])


def _needs_escaping(value: str) -> bool:
    """Return whether the value is written differently inside JSON."""
    return isinstance(value, EscapedSecret) or escape(value) != value
