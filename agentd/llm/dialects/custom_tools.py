"""Freeform ("custom") tools of OpenAI's dialects, as one-string functions for other suppliers.

OpenAI's models write the input of such a tool as plain text. Others are offered a function whose
only argument is that text, and what they write is streamed to the caller as plain text again. A
``Conversation`` and the events of a reply always hold the function's arguments.
"""

import re

import msgspec

from agentd.llm.conversation import ToolDefinition

INPUT_FIELD = "input"
"""The function's only argument."""

INPUT_SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        INPUT_FIELD: {"type": "string", "description": "The whole input, as plain text."}
    },
    "required": [INPUT_FIELD],
    "additionalProperties": False,
}

_BEGIN = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_LONGEST_BEGIN = 64
"""The maximum blanks before a beginning; models emit no more there."""
_WHOLE = re.compile(
    r'(?:[^"\\]+|\\u(?![dD][89abAB])[0-9a-fA-F]{4}'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\[^u])*"
)
"""Characters and escapes that stand for whole characters."""


def describe_function(tool: ToolDefinition) -> str:
    """Return a tool's description for a supplier that only has functions.

    Such a supplier cannot enforce a grammar, so it is described in words.
    """
    form = tool.freeform
    if form is None or not form.definition:
        return tool.description
    rule = f"The input must fit this grammar ({form.syntax}):\n{form.definition}"
    return f"{tool.description}\n\n{rule}" if tool.description else rule


def wrap_input(text: str) -> str:
    """Return the arguments of the function for this input of the tool."""
    return msgspec.json.encode({INPUT_FIELD: text}).decode()


def unwrap_input(arguments: str) -> str:
    """Return the freeform input from a model's arguments; malformed ones are returned unchanged."""
    try:
        fields = msgspec.json.decode(arguments, type=dict[str, object], strict=True)
    except (msgspec.DecodeError, UnicodeError, RecursionError):  # cut off, or with bare line feeds
        return InputReader().feed(arguments) or arguments
    found = fields.get(INPUT_FIELD, next(iter(fields.values()), "") if len(fields) == 1 else None)
    if isinstance(found, str):
        return found
    return arguments if fields else ""


class ArgumentsWriter:
    """Encodes the function's arguments incrementally while the input is streamed."""

    def __init__(self) -> None:
        self._begun = False

    def feed(self, text: str) -> str:
        """Return the JSON of the arguments for this piece of the input."""
        begin = "" if self._begun else f'{{"{INPUT_FIELD}":"'
        self._begun = True
        return begin + msgspec.json.encode(text)[1:-1].decode()

    def close(self) -> str:
        """Return the end of the arguments; all of them where the input is empty."""
        return '"}' if self._begun else wrap_input("")


class InputReader:
    """Decodes the input incrementally while the function's arguments are streamed."""

    def __init__(self) -> None:
        self._rest = ""
        self._begun = self._over = False
        self._given: list[str] = []

    def feed(self, piece: str) -> str:
        """Return the part of the input that can be decoded now."""
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
        return self._decode(found[0])

    def close(self, arguments: str) -> str:
        """Return the rest of the input, given all ``arguments``."""
        given, whole = "".join(self._given), unwrap_input(arguments)
        return whole[len(given) :] if whole.startswith(given) else ""

    @property
    def text(self) -> str:
        """The input decoded so far."""
        return "".join(self._given)

    def _decode(self, written: str) -> str:
        try:
            text = msgspec.json.decode(f'"{written}"', type=str)
        except (msgspec.DecodeError, UnicodeError, RecursionError):  # or bare line feeds, by models
            text = written.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")
        if text:
            self._given.append(text)
        return text
