"""Placeholders replaced by what they stand for, wherever they are in a text or a JSON text."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import msgspec

from agentd.proxy.secrets.json_text import JsonText
from agentd.proxy.secrets.walk import Literal, escaped, literals, text_of

_BEGIN = "SECRET_"


class Edit(NamedTuple):
    """A place in a text, and the secret that belongs there."""

    start: int
    end: int
    value: str
    delicate: bool = False
    """Whether the secret has to be escaped to stand in JSON."""


class Splice(NamedTuple):
    """A place in bytes, and what is to stand there."""

    start: int
    end: int
    data: bytes


class Vault:
    """The secrets that may have to be put back, by their placeholders."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = secrets
        self._sorted = sorted(secrets)
        self._lengths = sorted({len(one) for one in secrets}, reverse=True)
        self.delicate = frozenset(value for value in secrets.values() if _delicate(value))
        """Those that have to be written in another way inside JSON inside a string."""

    def found(self, text: str, to_the_end: bool = True) -> tuple[list[Edit], int]:
        """The placeholders in a text, and from where on it may be the beginning of one.

        ``to_the_end``: nothing follows, so that there is no such beginning.
        """
        edits: list[Edit] = []
        at = text.find("S")
        while at >= 0:
            edit = self._at(text, at)
            if edit:
                edits.append(edit)
            elif not to_the_end and self._begins(text[at:]):
                return edits, at
            at = text.find("S", edit.end if edit else at + 1)
        return edits, len(text)

    def _at(self, text: str, at: int) -> Edit | None:
        if not text.startswith(_BEGIN, at):
            return None
        for length in self._lengths:
            value = self._secrets.get(text[at : at + length])
            if value is not None:
                return Edit(at, at + length, value, value in self.delicate)
        return None

    def _begins(self, text: str) -> bool:
        near = bisect_left(self._sorted, text)
        return near < len(self._sorted) and self._sorted[near].startswith(text)


def in_json(vault: Vault, raw: bytes, skipped: Collection[int] = ()) -> list[Splice]:
    """What to change in a JSON text; strings that begin at ``skipped`` are left alone."""
    splices: list[Splice] = []
    structure: list[Literal] = []
    texts = literals(raw, 0, len(raw), False, structure=structure)
    for literal in chain(texts, structure):
        content = raw[literal.start : literal.end]
        if literal.start in skipped or not may_hold(content):
            continue
        text = text_of(content).decode("utf-8", "surrogatepass")
        edits, _ = vault.found(text)
        if edits:
            if literal.name == b"arguments" and text.lstrip()[:1] in ("{", "["):
                edits = list(inside_arguments(text, edits, JsonText(deep=2)))
            elif literal.free and vault.delicate:
                edits = list(inside_text(text, edits))
            made = escaped(edited(text, edits)).encode("utf-8", "surrogatepass")
            splices.append(Splice(literal.start, literal.end, made))
    return splices


def may_hold(raw: bytes) -> bool:
    """Whether JSON text may hold a whole placeholder, be it with its letters escaped."""
    return b"SECRET_" in raw or b"\\u00" in raw


def edited(text: str, edits: Collection[Edit]) -> str:
    """The text with the edits made; they are in order."""
    pieces: list[str] = []
    at = 0
    for edit in edits:
        pieces += (text[at : edit.start], edit.value)
        at = edit.end
    return "".join((*pieces, text[at:]))


def spliced(raw: bytes, splices: Collection[Splice]) -> bytes:
    """The bytes with the splices made, in whatever order they are."""
    pieces: list[bytes] = []
    at = 0
    for splice in sorted(splices):
        pieces += (raw[at : splice.start], splice.data)
        at = splice.end
    return b"".join((*pieces, raw[at:]))


def inside_arguments(text: str, edits: Iterable[Edit], so_far: JsonText) -> Iterator[Edit]:
    """The edits as they are made in a JSON text, such as a tool's arguments, or its next piece.

    A secret that cannot stand in JSON as it is, such as one of several lines, is written with
    escapes once more where a string of the text is JSON itself. One that was found with its
    escapes has them.
    """
    at = 0
    for edit in edits:
        so_far.feed(text[at : edit.start])
        at = edit.start
        inner = so_far.inner if so_far.open else None
        twice = edit.delicate and inner is not None and inner.may_be_json and inner.open
        yield edit._replace(value=escaped(edit.value, 2 if twice else 1))
    so_far.feed(text[at:])


def inside_text(text: str, edits: Iterable[Edit]) -> Iterator[Edit]:
    """The edits as they are made in a tool's text, which may be JSON."""
    so_far = JsonText()
    at = 0
    for edit in edits:
        so_far.feed(text[at : edit.start])
        at = edit.start
        once = edit.delicate and so_far.may_be_json and so_far.open
        yield edit._replace(value=escaped(edit.value, 1 if once else 0))


def _delicate(value: str) -> bool:
    """Whether it cannot stand between the quotes of JSON as it is."""
    try:
        msgspec.json.decode(f'"{value}"', type=str)
    except (msgspec.DecodeError, UnicodeError):
        return True
    return "\n" in value or "\r" in value
