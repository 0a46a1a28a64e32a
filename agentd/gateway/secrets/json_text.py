"""The nesting depth in JSON strings of a place in a text, tracked as the text arrives.

A text may be JSON, hold a piece of it, or neither; and a string in it may be JSON in its turn. A
secret is written there with as many layers of escapes. Only the text before a place counts, so
that the same place has the same depth in a request and in a reply that comes in pieces.
"""

import json
import re

_PIECE = re.compile(
    r'\\u[0-9a-fA-F]{4}|\\.|["\n{}\[\],:]|[ \t\r]+|[^"\\\n{}\[\],: \t\r]+', re.DOTALL
)
_UNFINISHED = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_BEFORE_STRING = frozenset("{[,:")

DEEPEST = 4
"""Strings in one another that are followed."""


class JsonDepthTracker:
    """Tracks the depth at the end of the text fed so far."""

    def __init__(self, deepest: int = DEEPEST) -> None:
        self._deepest = deepest
        self._quoted = False
        """True if a string is open ..."""
        self._inner: JsonDepthTracker | None = None
        """... and what is in it, if it is one of JSON."""
        self._brackets = 0
        self._last = ""
        """The last non-blank character outside strings."""
        self._names = False
        """True if that is a colon behind a string."""
        self._rest = ""

    @property
    def depth(self) -> int:
        """The number of open JSON strings, one inside another."""
        return 1 + self._inner.depth if self._quoted and self._inner else 0

    def feed(self, text: str) -> None:
        """Process the next piece of the text."""
        text = self._rest + text
        unfinished = _UNFINISHED.search(text)
        end = (
            unfinished.start()
            if unfinished and _is_unescaped(text, unfinished.start())
            else len(text)
        )
        self._rest = text[end:]
        for found in _PIECE.finditer(text, 0, end):
            if self._quoted:
                self._scan_string(found[0])
            else:
                self._scan_outside(found[0])

    def _scan_string(self, piece: str) -> None:
        """Scan a string. No JSON string contains a line's end: then what was open is not JSON."""
        if piece in ('"', "\n"):
            self._quoted = False
            self._last = piece if piece == '"' else "x"
        elif self._inner:
            self._inner.feed(_decode_escape(piece) if piece[0] == "\\" else piece)

    def _scan_outside(self, piece: str) -> None:
        if piece == '"':
            expected = self._brackets and self._last in _BEFORE_STRING
            is_json = (expected or self._names) and self._deepest > 0
            self._inner = JsonDepthTracker(self._deepest - 1) if is_json else None
            self._quoted = True
        elif piece in "{[":
            self._brackets += 1
        elif piece in "}]":
            self._brackets = max(self._brackets - 1, 0)
        if not piece.isspace():
            self._names = piece == ":" and self._last == '"'
            self._last = piece


def _decode_escape(escape: str) -> str:
    """Decode an escape; the result for an invalid one does not matter."""
    try:
        return str(json.loads(f'"{escape}"'))
    except ValueError:
        return "x"


def _is_unescaped(text: str, at: int) -> bool:
    """Return whether the backslash there is not itself escaped."""
    before = len(text[:at]) - len(text[:at].rstrip("\\"))
    return before % 2 == 0
