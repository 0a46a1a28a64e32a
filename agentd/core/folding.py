"""Texts as they are compared: in any case of letters, and however their accents are written."""

import unicodedata
from collections.abc import Iterator

_PIECE = 256
"""Characters that are normalized at once: the time for many accents in a row grows with the square
of their number."""


def fold_text(text: str) -> str:
    """Return the form in which equal texts are equal. Linear in the text.

    The same accent may be part of its letter, as keyboards write it, or follow it, as in the
    names of macOS and in text that is copied from PDF.
    """
    return text.lower() if text.isascii() else "".join(map(_fold_piece, _split(text)))


def _fold_piece(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _split(text: str) -> Iterator[str]:
    """Split a text into pieces, but no letter from its accents unless it has hundreds."""
    start = 0
    while start < len(text):
        end, most = start + _PIECE, min(start + 2 * _PIECE, len(text))
        while end < most and _continues_letter(text[end]):
            end += 1
        yield text[start:end]
        start = end


def _continues_letter(char: str) -> bool:
    return unicodedata.combining(char) > 0 or "\u1160" <= char <= "\u11ff"  # of a Korean syllable
