"""Freeform ("custom") tools of the Responses API, as functions with one string for everyone else.

OpenAI's models write the input of such a tool as bare text. Others are offered a function whose
only argument is that text, and what they write is told as the text again while it is streamed.
"""

import re

import msgspec

FIELD = "input"
"""The function's only argument."""

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {FIELD: {"type": "string", "description": "The whole input, as plain text."}},
    "required": [FIELD],
    "additionalProperties": False,
}

_BEGIN = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_LONGEST_BEGIN = 64
"""Characters after which a beginning is none; models put no more blanks there."""
_WHOLE = re.compile(
    r'(?:[^"\\]+|\\u(?![dD][89abAB])[0-9a-fA-F]{4}'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\[^u])*"
)
"""Characters and escapes that stand for whole characters."""


def as_arguments(text: str) -> str:
    """Return the arguments of the function for this input of the tool."""
    return msgspec.json.encode({FIELD: text}).decode()


def as_text(arguments: str) -> str:
    """Return the input that a model meant; what is not of the function's form is it itself."""
    try:
        fields = msgspec.json.decode(arguments, type=dict[str, object], strict=True)
    except (msgspec.DecodeError, UnicodeError):  # cut off, or with bare line feeds
        return InputReader().feed(arguments) or arguments
    found = fields.get(FIELD, next(iter(fields.values()), "") if len(fields) == 1 else None)
    if isinstance(found, str):
        return found
    return arguments if fields else ""


class InputReader:
    """Gives the input piece by piece while the function's arguments are streamed."""

    def __init__(self) -> None:
        self._rest = ""
        self._begun = self._over = False
        self._given: list[str] = []

    def feed(self, piece: str) -> str:
        """Return what can be told of the input now."""
        if self._over:
            return ""
        self._rest += piece
        if not self._begun:
            begin = _BEGIN.match(self._rest)
            if begin is None:
                self._over = len(self._rest) > _LONGEST_BEGIN
                return ""
            self._begun, self._rest = True, self._rest[begin.end() :]
        found = _WHOLE.match(self._rest)
        assert found is not None  # it matches the empty text
        self._rest = self._rest[found.end() :]
        self._over = self._rest.startswith('"')
        return self._decoded(found[0])

    def close(self, arguments: str) -> str:
        """Return the rest of the input, once all ``arguments`` are there."""
        given, whole = "".join(self._given), as_text(arguments)
        return whole[len(given) :] if whole.startswith(given) else ""

    @property
    def text(self) -> str:
        """All that was given so far."""
        return "".join(self._given)

    def _decoded(self, written: str) -> str:
        try:
            text = msgspec.json.decode(f'"{written}"', type=str)
        except (msgspec.DecodeError, UnicodeError):  # bare line feeds, which models write, too
            text = written.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")
        if text:
            self._given.append(text)
        return text
