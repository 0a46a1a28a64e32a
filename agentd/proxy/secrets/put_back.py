"""Placeholders replaced by what they stand for, wherever they are in a text or a JSON text."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from agentd.proxy.secrets.json_text import JsonText
from agentd.proxy.secrets.walk import Literal, escaped, literals, text_of
from agentd.proxy.secrets.writing import Written, written_at

_BEGIN = "SECRET_"


class Edit(NamedTuple):
    """A place in a text, and the secret that belongs there."""

    start: int
    end: int
    value: str


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
        self._longest = max(self._lengths, default=0)
        self.delicate = any(map(_delicate, secrets.values()))
        """Whether it depends for any of them on where it stands how it is written."""

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
            elif not to_the_end and self._begins(text[at : at + self._longest]):
                return edits, at
            at = text.find("S", edit.end if edit else at + 1)
        return edits, len(text)

    def _at(self, text: str, at: int) -> Edit | None:
        if not text.startswith(_BEGIN, at):
            return None
        for length in self._lengths:
            value = self._secrets.get(text[at : at + length])
            if value is not None:
                return Edit(at, at + length, value)
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
            is_json = literal.name == b"arguments" and text.lstrip()[:1] in ("{", "[")
            if vault.delicate:
                edits = list(inside(text, edits, JsonText(), least=1 if is_json else 0))
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


def inside(text: str, edits: Iterable[Edit], so_far: JsonText, least: int) -> Iterator[Edit]:
    """The edits as they are made in a text, or its next piece, where JSON may stand in JSON.

    ``so_far`` has followed what came before. A secret is at ``least`` so deep in strings of JSON.
    """
    at = 0
    for edit in edits:
        so_far.feed(text[at : edit.start])
        at = edit.start
        yield edit._replace(value=written_at(edit.value, max(least, so_far.depth)))
    so_far.feed(text[at:])


def _delicate(value: str) -> bool:
    """Whether it depends on where it stands how it is written."""
    return isinstance(value, Written) or escaped(value) != value
