"""A JSON text followed as it comes: whether a string is open at its end, and what that holds."""

import re

_TOKEN = re.compile(r'\\u[0-9a-fA-F]{4}|\\.|"|[^"\\]+', re.DOTALL)
_UNFINISHED = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_MEANT = {'\\"': '"', "\\\\": "\\", "\\u0022": '"', "\\u005c": "\\", "\\u005C": "\\"}


class JsonText:
    """Feed it the text. ``deep``: how many texts inside one another are followed."""

    def __init__(self, deep: int = 1) -> None:
        self.open = False
        """Whether a string is open."""
        self.inner: JsonText | None = None
        """The string that was opened last, as a text of its own."""
        self._deep = deep
        self._first = ""
        self._rest = ""

    @property
    def may_be_json(self) -> bool:
        """Whether it begins as an object or a list does."""
        return self._first in ("{", "[")

    def feed(self, text: str) -> None:
        """What comes next."""
        text = self._rest + text
        self._first = self._first or text.lstrip()[:1]
        unfinished = _UNFINISHED.search(text)
        end = unfinished.start() if unfinished and _odd(text, unfinished.start()) else len(text)
        self._rest = text[end:]
        for token in _TOKEN.finditer(text, 0, end):
            if token[0] == '"':
                self.open = not self.open
                if self.open and self._deep > 1:
                    self.inner = JsonText(self._deep - 1)
            elif self.open and self.inner:
                self.inner.feed(_MEANT.get(token[0], "x" if token[0][0] == "\\" else token[0]))


def _odd(text: str, at: int) -> bool:
    """Whether the backslash there is not itself escaped."""
    before = len(text[:at]) - len(text[:at].rstrip("\\"))
    return before % 2 == 0
