"""YAML that a person wrote, read strictly: the schema says what a word means, never the word.

``no``, ``012``, ``12:30:45`` and ``1_000`` are text where text is expected and an error where a
number is. Every problem is reported at once. What could hurt the reader (a bomb of aliases, 400 KB
of ``[``) or deceive the writer (a duplicate key, a merge, an invisible character) is refused.
"""

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import yaml

from agentd.core.errors import ConfigError, ConfigProblem
from agentd.storage.yaml import schema

T = TypeVar("T")

MAX_FILE_SIZE = 1024 * 1024
"""The largest file, in bytes."""

MAX_DEPTH = 64
"""The maximum nesting depth of lists and maps."""

_TOO_DEEP = f"nests deeper than {MAX_DEPTH} levels"

_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

_INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that YAML forbids, and line ends that no editor shows."""

_VISIBLE = bytes((*b"\t\n\r", *range(0x20, 0x7F)))
"""The bytes that most files consist of, exclusively."""


def load_yaml(
    where: str,
    text: bytes,
    shape: type[T],
    check: schema.ValueCheck[T] | None = None,
    *,
    ignore_unknown: bool = False,
) -> T:
    """Return the file ``where`` with this content, as a ``shape``, a ``msgspec.Struct``.

    An empty file is a ``shape`` of defaults. ``check`` and ``ignore_unknown`` are as in
    ``schema.convert_node``. Raises ``ConfigError`` with every problem.
    """
    content = decode_text(where, text)
    problems = list(_find_forbidden(where, content))
    if problems:
        raise ConfigError(problems)
    root = yaml.compose(content, Loader=_LOADER)
    return schema.convert_node(where, root, shape, check, ignore_unknown=ignore_unknown)


def find_entry_lines(text: bytes) -> dict[str, int]:
    """Return the line of each entry of the outermost map, of a file that ``load_yaml`` accepted."""
    root = yaml.compose(text.decode("utf-8"), Loader=_LOADER)
    entries = root.value if isinstance(root, yaml.MappingNode) else []
    return {key.value: key.start_mark.line + 1 for key, _ in entries}


def explain_not_editable(where: str) -> str:
    """Return the error message for a file that a program cannot edit."""
    return f"{where} is written in a way that cannot be edited by a program; do it by hand"


def decode_text(where: str, text: bytes, limit: int = MAX_FILE_SIZE) -> str:
    """Return the content as text. Raises ``ConfigError`` for invisible characters and others."""
    if len(text) > limit:
        raise ConfigError([ConfigProblem(where, 0, f"is larger than {limit} bytes")])
    if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ConfigError([ConfigProblem(where, 1, "is UTF-16; save the file as UTF-8")])
    try:
        content = text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        what = f"byte 0x{text[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise ConfigError([ConfigProblem(where, line, what)]) from error
    if not text.translate(None, _VISIBLE):
        return content
    problems = [
        ConfigProblem(
            where, content.count("\n", 0, found.start()) + 1, _describe_character(found[0])
        )
        for found, _ in zip(_INVISIBLE.finditer(content), range(10), strict=False)
    ]
    if problems:
        raise ConfigError(problems)
    return content


def _describe_character(character: str) -> str:
    if character == "\ufeff":
        return "a byte order mark; save the file as UTF-8 without one"
    return f"the invisible character U+{ord(character):04X}; remove it"


def _find_forbidden(where: str, content: str) -> Iterator[ConfigProblem]:
    """Yield a problem for what the grammar allows and we do not, from the stream of events.

    The stream is read step by step and left at the first level too deep: building the tree of
    a hostile file first would overflow the C stack.
    """
    depth = documents = 0
    try:
        events: Iterator[Any] = yaml.parse(content, Loader=_LOADER)
        for event in events:
            line = event.start_mark.line + 1
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    yield ConfigProblem(where, line, _TOO_DEEP)
                    return
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents == 2:
                    yield ConfigProblem(where, line, "a second document begins; one is expected")
            yield from _explain_forbidden(where, line, event)
    except yaml.YAMLError as error:
        yield _explain_parse_error(where, content, error)


def _explain_forbidden(where: str, line: int, event: Any) -> Iterator[ConfigProblem]:
    if isinstance(event, yaml.AliasEvent):
        yield ConfigProblem(where, line, "an alias (*name); write the value out, or quote it")
        return
    if getattr(event, "anchor", None):
        yield ConfigProblem(where, line, "an anchor (&name); write each value out, or quote it")
    if getattr(event, "tag", None):
        yield ConfigProblem(where, line, "a tag (!name); the schema knows the types, or quote it")


def _explain_parse_error(where: str, content: str, error: Any) -> ConfigProblem:
    """Return the parser's error as a problem; ``error`` is any ``yaml.YAMLError``."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return ConfigProblem(where, 0, f"not YAML: {error}")
    if "nesting depth" in str(error.problem):  # libyaml from 0.2.6 on has a limit of its own
        return ConfigProblem(where, mark.line + 1, _TOO_DEEP)
    lines = content.splitlines()
    text = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in text[: len(text) - len(text.lstrip())]:
        return ConfigProblem(where, mark.line + 1, "a tab in the indentation; use spaces")
    context = f" {error.context}:" if error.context else ""
    began = getattr(error, "context_mark", None)
    if context and began and began.line < mark.line:
        context = f" {error.context} that begins in line {began.line + 1}:"
    what = f"not YAML:{context} {error.problem} (column {mark.column + 1})"
    return ConfigProblem(where, mark.line + 1, what)
