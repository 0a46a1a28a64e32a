"""Finds words in what was said in chats, by reading their journals; nothing is kept for it.

Everything here blocks. A search has a budget of bytes: who asks goes on where it ended.
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from agentd.chats.records import messages_in
from agentd.disk.layout import Layout
from agentd.disk.lines import Broken, entry_in
from agentd.disk.load import open_journal

AROUND = 80
"""Characters of an excerpt on either side of what was found."""

_OPENING = 4096
"""What a journal counts beside its bytes: to open a small one costs more than to read it."""
_SAYING = (b'"message"', b'"history"')
"""A line of a journal without either of these says nothing."""


class MessageMatch(Struct, frozen=True):
    """The last message of a chat that has the words in it, and some text around them."""

    message: int
    excerpt: str


class MessageSearch:
    """One search, in any case of letters. Reads at most about ``budget`` bytes."""

    def __init__(self, layout: Layout, text: str, budget: int) -> None:
        self._layout = layout
        self._text = text.casefold()
        # As JSON writes it, which escapes quotes and backslashes: most lines need no decoding.
        self._json = msgspec.json.encode(self._text)[1:-1]
        self._left = budget

    @property
    def exhausted(self) -> bool:
        """Whether nothing more is to be read."""
        return self._left <= 0

    def find(self, chat_id: int) -> MessageMatch | None:
        """Return the last match in a chat; None as well where its journal cannot be read."""
        found = None
        self._left -= _OPENING
        try:
            with open(open_journal(self._layout, chat_id), "rb") as file:
                for message_id, text in self._messages(file):
                    at = text.casefold().find(self._text)
                    if at >= 0:
                        found = MessageMatch(message_id, self._excerpt(text, at))
        except OSError:
            return None
        return found

    def _messages(self, lines: Iterable[bytes]) -> Iterator[tuple[int, str]]:
        """Messages that may have the words in them."""
        for line in lines:
            self._left -= len(line)
            if not any(mark in line for mark in _SAYING) or not self._may_have(line):
                continue
            try:
                said = messages_in(entry_in(line.rstrip(b"\n")).body)
            except (Broken, UnicodeDecodeError):
                continue  # damaged: told elsewhere
            for message in said:
                yield message.id, message.text

    def _may_have(self, line: bytes) -> bool:
        if self._json.isascii() and line.isascii():
            return self._json in line.lower()
        return self._json.decode() in line.decode("utf-8", "replace").casefold()

    def _excerpt(self, text: str, at: int) -> str:
        # Where casefolding changed the length, the place is nearly right.
        start, end = max(at - AROUND, 0), at + len(self._text) + AROUND
        cut = " ".join(text[start:end].split())
        return f"{'…' if start else ''}{cut}{'…' if end < len(text) else ''}"
