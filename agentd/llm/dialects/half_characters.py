r"""Decodes JSON of suppliers whose text is cut between the two halves of a character.

Servers that count in UTF-16 write an emoji as ``\ud83d`` at the end of one piece of a text and
``\ude00`` at the beginning of the next. Neither is a character, and neither can be sent on.
"""

import json
import re
from typing import Any, TypeAlias

_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_FIRST = range(0xD800, 0xDC00)
_SECOND = range(0xDC00, 0xE000)

_JsonPath: TypeAlias = tuple[str | int, ...]

LONGEST_PATH = 16
"""Steps to a text of which halves are remembered: those of replies are less than ten away."""
MOST_HALVES = 1_000
"""First halves that are remembered: a reply has a few texts at a time."""


class HalfCharacterDecoder:
    """Decodes what msgspec refuses. One for each reply, because halves are joined across events."""

    def __init__(self) -> None:
        self._first_halves: dict[_JsonPath, str] = {}
        """The halves with which texts ended, by the path of the text in its event."""

    def decode(self, data: str | bytes) -> object:
        """Return the value; raises ``ValueError`` for what is no JSON, ``RecursionError``.

        A first half at the end of a text is moved to the beginning of the next text at its path.
        Halves without the other are replaced. The time and memory grow with the data alone, however
        deep it is.
        """
        return self._repair(json.loads(data), ())

    def _repair(self, value: Any, path: _JsonPath | None) -> Any:
        """Return the value at a path; None is one that is too long to remember."""
        match value:
            case str():
                return self._repair_text(value, path)
            case list():
                return [self._repair(inner, _extend(path, at)) for at, inner in enumerate(value)]
            case dict():
                return {
                    _replace_halves(name): self._repair(inner, _extend(path, name))
                    for name, inner in value.items()
                }
        return value

    def _repair_text(self, text: str, path: _JsonPath | None) -> str:
        if path is None:
            return _replace_halves(text)
        first = self._first_halves.get(path, "")
        if first and text:
            del self._first_halves[path]
            text = first + text if ord(text[0]) in _SECOND else text
        if text and ord(text[-1]) in _FIRST and len(self._first_halves) < MOST_HALVES:
            self._first_halves[path] = text[-1]
            text = text[:-1]
        return _replace_halves(text)


def _extend(path: _JsonPath | None, step: str | int) -> _JsonPath | None:
    return None if path is None or len(path) >= LONGEST_PATH else (*path, step)


def may_hold_halves(data: str | bytes) -> bool:
    """Return whether halves of characters are written in this JSON."""
    return _HALF.search(data.encode() if isinstance(data, str) else data) is not None


def _replace_halves(text: str) -> str:
    """Join halves that stand beside each other, and replace those that are alone."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
