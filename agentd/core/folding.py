"""Texts as they are compared: in any case of letters, and however their accents are written."""

import unicodedata


def fold_text(text: str) -> str:
    """Return the form in which equal texts are equal.

    The same accent may be part of its letter, as keyboards write it, or follow it, as in the
    names of macOS and in text that is copied from PDF.
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
