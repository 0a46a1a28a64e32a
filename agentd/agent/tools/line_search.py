"""Finds the lines of a text that match what is searched for. Pure, and in linear time."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from agentd.agent.tools.model import SearchText
from agentd.agent.tools.results import SearchHit
from agentd.core.errors import BadRequest

LONGEST_EXCERPT = 240
"""Characters of a line in search results."""
_LONGEST_REGEX = 1000
_REGEX_MEMORY = 8 << 20
"""Bytes that a compiled expression may take."""

LineMatcher: TypeAlias = Callable[[str], int]
"""Returns where a line matches; -1: nowhere."""


class TextSearch:
    """A prepared search. Raises ``BadRequest`` for an invalid expression."""

    def __init__(self, wanted: SearchText) -> None:
        if not wanted.text.strip():
            raise BadRequest("There is nothing to search for.")
        self._context = wanted.context
        self._find = _build_regex(wanted) if wanted.regex else _build_literal(wanted)
        self._needle = "" if wanted.regex else wanted.text
        self._exact = _has_capitals(wanted.text)

    def iter_hits(self, path: str, text: str) -> Iterator[SearchHit]:
        """Yield the lines of a file's text that match, with the lines around them."""
        if self._needle and self._is_absent(text):
            return
        lines = text.replace("\r\n", "\n").split("\n")
        for index, line in enumerate(lines):
            at = self._find(line)
            if at < 0:
                continue
            around = self._context
            before = lines[max(index - around, 0) : index] if around else []
            after = lines[index + 1 : index + 1 + around]
            yield SearchHit(
                path,
                index + 1,
                _excerpt(line, at),
                tuple(_excerpt(one, 0) for one in before),
                tuple(_excerpt(one, 0) for one in after),
            )

    def _is_absent(self, text: str) -> bool:
        """Return whether a literal text is not in the file, which is quick to see."""
        return self._needle not in text if self._exact else self._needle.lower() not in text.lower()


def _build_literal(wanted: SearchText) -> LineMatcher:
    exact = _has_capitals(wanted.text)
    needle = wanted.text if exact else wanted.text.lower()

    def find(line: str) -> int:
        return _find_position(line if exact else line.lower(), needle, wanted.whole_word)

    return find


def _build_regex(wanted: SearchText) -> LineMatcher:
    if len(wanted.text) > _LONGEST_REGEX:
        raise BadRequest(f"An expression has at most {_LONGEST_REGEX} characters.")
    import re2  # noqa: PLC0415 - few search by an expression

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _REGEX_MEMORY
    options.case_sensitive = _has_capitals_outside_escapes(wanted.text)
    pattern = rf"\b(?:{wanted.text})\b" if wanted.whole_word else wanted.text
    try:
        compiled = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise BadRequest(f"The expression cannot be understood (RE2): {error}.") from error

    def find(line: str) -> int:
        found = compiled.search(line)
        return found.start() if found else -1

    return find


def _has_capitals(text: str) -> bool:
    return any(sign.isupper() for sign in text)


def _has_capitals_outside_escapes(expression: str) -> bool:
    """Return whether an expression has capitals beside those of classes (as of no space)."""
    escaped = False
    for sign in expression:
        if sign.isupper() and not escaped:
            return True
        escaped = sign == "\\" and not escaped
    return False


def _find_position(line: str, needle: str, whole_word: bool) -> int:
    at = line.find(needle)
    while whole_word and at >= 0:
        around = line[at - 1 : at] + line[at + len(needle) : at + len(needle) + 1]
        if not any(sign.isalnum() or sign == "_" for sign in around):
            break
        at = line.find(needle, at + 1)
    return at


def _excerpt(line: str, at: int) -> str:
    if len(line) <= LONGEST_EXCERPT:
        return line
    start = max(0, min(at - LONGEST_EXCERPT // 4, len(line) - LONGEST_EXCERPT))
    end = start + LONGEST_EXCERPT
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"
