"""Finds words in the messages of chats by reading their journals, without an index.

Everything here blocks. A search has a budget of bytes: who asks goes on where it ended.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from agentd.chats.journal_reader import decode_entry
from agentd.chats.records import get_messages
from agentd.core.errors import Unavailable
from agentd.core.folding import fold_text
from agentd.core.markdown import strip_markdown
from agentd.storage.checksummed_json import ChecksumMismatch
from agentd.storage.journal import open_journal_file
from agentd.storage.layout import Layout

EXCERPT_MARGIN = 80
"""Characters of an excerpt on either side of what was found."""

_OPENING = 4096
"""The cost of opening a journal, in bytes: opening a small one costs more than reading it."""
_SAYING = (b'"message"', b'"history"')
"""A line of a journal without either of these says nothing."""


class MessageMatch(Struct, frozen=True):
    """The last message of a chat that has the words in it, and some text around them."""

    message: int
    excerpt: str


class MessageSearch:
    """A search for a text in any case. Reads at most about ``budget`` bytes."""

    def __init__(self, layout: Layout, text: str, budget: int) -> None:
        self._layout = layout
        self._text = fold_text(text)
        # As JSON writes it, which escapes quotes and backslashes: most lines need no decoding.
        self._json = msgspec.json.encode(self._text)[1:-1]
        self._left = budget

    @property
    def exhausted(self) -> bool:
        """True if nothing more is to be read."""
        return self._left <= 0

    def find(self, chat_id: int) -> MessageMatch | None:
        """Return the last match in a chat; None as well where its journal cannot be read."""
        found = None
        self._left -= _OPENING
        try:
            with open(open_journal_file(self._layout, chat_id), "rb") as file:
                for line in file:
                    for match in self._matches(line):
                        found = match
        except OSError:
            return None
        return found

    def list_matches(
        self, chat_id: int, place: int, most: int
    ) -> tuple[list[MessageMatch], int | None]:
        """List the matches in a chat from a byte of its journal on, the oldest first.

        Stops with the line that exhausts the budget, or has the last of ``most`` matches: then
        it returns where to go on as well. ``Unavailable`` if the journal cannot be read.
        """
        found: list[MessageMatch] = []
        try:
            with open(open_journal_file(self._layout, chat_id), "rb") as file:
                file.seek(place)
                for line in file:
                    found += self._matches(line)
                    place += len(line)
                    if self.exhausted or len(found) >= most:
                        return found, place
        except OSError as error:
            raise Unavailable(f"Chat {chat_id} cannot be read", str(error)) from error
        return found, None

    def _matches(self, line: bytes) -> Iterator[MessageMatch]:
        """Yield the matches in a line of a journal."""
        self._left -= len(line)
        if not any(mark in line for mark in _SAYING) or not self._may_contain(line):
            return
        try:
            messages = get_messages(decode_entry(line.rstrip(b"\n")).body)
        except (ChecksumMismatch, UnicodeDecodeError):
            return  # damaged: told elsewhere
        for message in messages:
            at = fold_text(message.text).find(self._text)
            if at >= 0:
                yield MessageMatch(message.id, self._excerpt(message.text, at))

    def _may_contain(self, line: bytes) -> bool:
        if self._json.isascii() and line.isascii():
            return self._json in line.lower()
        return self._json.decode() in fold_text(line.decode("utf-8", "replace"))

    def _excerpt(self, text: str, at: int) -> str:
        begin, stop = _find_place(text, at), _find_place(text, at + len(self._text))
        start, end = max(begin - EXCERPT_MARGIN, 0), stop + EXCERPT_MARGIN
        raw = text[start:end]
        plain = strip_markdown(raw)
        # Words in a link's address or the like are shown as they are written.
        cut = plain if self._text in fold_text(plain) else " ".join(raw.split())
        return f"{'…' if start else ''}{cut}{'…' if end < len(text) else ''}"


def _find_place(text: str, at: int) -> int:
    """Return where in a text, nearly, the character ``at`` of its folded form comes from."""
    if text.isascii():
        return at
    place, size = 0, len(text)
    while size > 1:  # each half is folded once
        half = size // 2
        length = len(fold_text(text[place : place + half]))
        if length <= at:
            place, at, size = place + half, at - length, size - half
        else:
            size = half
    return place + min(at, 1)
