"""Placeholders replaced by what they stand for, wherever they are in a text or a JSON text."""

from bisect import bisect_left
from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from agentd.proxy.secrets.walk import escaped, literals, text_of

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
        self.delicate = any(_delicate(value) for value in secrets.values())
        """Whether one of them has to be written in another way inside JSON inside a string."""

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
                return Edit(at, at + length, value)
        return None

    def _begins(self, text: str) -> bool:
        near = bisect_left(self._sorted, text)
        return near < len(self._sorted) and self._sorted[near].startswith(text)


def in_json(vault: Vault, raw: bytes, skipped: Collection[int] = ()) -> list[Splice]:
    """What to change in a JSON text; strings that begin at ``skipped`` are left alone."""
    splices: list[Splice] = []
    for literal in literals(raw, 0, len(raw), False):
        content = raw[literal.start : literal.end]
        if literal.start in skipped or not (b"SECRET_" in content or b"\\u00" in content):
            continue
        text = text_of(content).decode("utf-8", "surrogatepass")
        edits, _ = vault.found(text)
        if edits:
            if literal.name == b"arguments" and not literal.is_name and _may_be_json(text):
                edits = [inside_arguments(text[: edit.start], edit) for edit in edits]
            elif literal.free:
                edits = [nested(text[: edit.start], edit) for edit in edits]
            made = escaped(edited(text, edits)).encode("utf-8", "surrogatepass")
            splices.append(Splice(literal.start, literal.end, made))
    return splices


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


def inside_arguments(before: str, edit: Edit) -> Edit:
    """The edit as it is made in a JSON text, such as a tool's arguments, of which that is told."""
    value = edit.value
    if _delicate(value):
        opened = _open_string(before)
        if opened is not None:
            said = text_of(opened.encode("utf-8", "surrogatepass"))
            value = nested(said.decode("utf-8", "surrogatepass"), edit).value
    return edit._replace(value=escaped(value))


def nested(before: str, edit: Edit) -> Edit:
    """The edit as it is made in a text that may be JSON itself.

    There a secret that cannot stand in a string as it is, such as one of several lines, is
    written with escapes. One that was found with its escapes has them.
    """
    if _delicate(edit.value) and _may_be_json(before) and _open_string(before) is not None:
        return edit._replace(value=escaped(edit.value))
    return edit


def _may_be_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


def _delicate(value: str) -> bool:
    """Whether it cannot stand between the quotes of JSON as it is."""
    try:
        msgspec.json.decode(f'"{value}"', type=str)
    except (msgspec.DecodeError, UnicodeError):
        return True
    return "\n" in value or "\r" in value


def _open_string(before: str) -> str | None:
    """The content of the string that is still open at the end of a JSON text; None: none is."""
    opened = -1
    at = 0
    while (at := _next_quote(before, at)) >= 0:
        opened = at + 1 if opened < 0 else -1
        at += 1
    return before[opened:] if opened >= 0 else None


def _next_quote(text: str, at: int) -> int:
    """The next quote that is not escaped."""
    while (found := text.find('"', at)) >= 0:
        back = found
        while back > at and text[back - 1] == "\\":
            back -= 1
        if (found - back) % 2 == 0:
            return found
        at = found + 1
    return -1
