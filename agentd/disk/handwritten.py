"""YAML that a person wrote, read strictly: the schema says what a word means, never the word.

``no``, ``012``, ``12:30:45`` and ``1_000`` are text where text is expected and a mistake where a
number is. Every mistake is told at once. What could hurt the reader (a bomb of aliases, 400 KB
of ``[``) or deceive the writer (a duplicate key, a merge, an invisible character) is refused.
"""

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import yaml

from agentd.disk import schema
from agentd.errors import Misconfigured, Mistake

T = TypeVar("T")

LIMIT = 1024 * 1024
"""The largest file, in bytes."""

DEPTH = 64
"""How deep lists and maps may nest."""

_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

_INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""What YAML forbids, and what it takes for a line's end although no editor shows one."""

_VISIBLE = bytes((*b"\t\n\r", *range(0x20, 0x7F)))
"""What most files are made of, and nothing else."""


def load(
    where: str,
    text: bytes,
    shape: type[T],
    check: schema.Check[T] | None = None,
    *,
    others: bool = False,
) -> T:
    """The file ``where`` with this content, as a ``shape``, a ``msgspec.Struct``.

    An empty file is a ``shape`` of defaults. ``check`` and ``others`` are told in
    ``schema.convert``. Raises ``Misconfigured`` with every mistake.
    """
    content = decoded(where, text)
    mistakes = list(_forbidden(where, content))
    if mistakes:
        raise Misconfigured(mistakes)
    root = yaml.compose(content, Loader=_LOADER)
    return schema.convert(where, root, shape, check, others=others)


def lines(text: bytes) -> dict[str, int]:
    """The line of each entry of the outermost map, of a file that ``load`` has taken."""
    root = yaml.compose(text.decode("utf-8"), Loader=_LOADER)
    entries = root.value if isinstance(root, yaml.MappingNode) else []
    return {key.value: key.start_mark.line + 1 for key, _ in entries}


def by_hand(where: str) -> str:
    """What to tell the person when an edit is not possible."""
    return f"{where} is written in a way that cannot be edited by a program; do it by hand"


def decoded(where: str, text: bytes, limit: int = LIMIT) -> str:
    """The content as text, without what hides in it. Raises ``Misconfigured``."""
    if len(text) > limit:
        raise Misconfigured([Mistake(where, 0, f"is larger than {limit} bytes")])
    if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Misconfigured([Mistake(where, 1, "is UTF-16; save the file as UTF-8")])
    try:
        content = text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        what = f"byte 0x{text[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise Misconfigured([Mistake(where, line, what)]) from error
    if not text.translate(None, _VISIBLE):
        return content
    mistakes = [
        Mistake(where, content.count("\n", 0, found.start()) + 1, _told(found[0]))
        for found, _ in zip(_INVISIBLE.finditer(content), range(10), strict=False)
    ]
    if mistakes:
        raise Misconfigured(mistakes)
    return content


def _told(character: str) -> str:
    if character == "\ufeff":
        return "a byte order mark; save the file as UTF-8 without one"
    return f"the invisible character U+{ord(character):04X}; remove it"


def _forbidden(where: str, content: str) -> Iterator[Mistake]:
    """What the grammar allows and we do not, from the stream of events.

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
                if depth > DEPTH:
                    yield Mistake(where, line, f"nests deeper than {DEPTH} levels")
                    return
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents == 2:
                    yield Mistake(where, line, "a second document begins; one is expected")
            yield from _forbidden_mark(where, line, event)
    except yaml.YAMLError as error:
        yield _unreadable(where, content, error)


def _forbidden_mark(where: str, line: int, event: Any) -> Iterator[Mistake]:
    if isinstance(event, yaml.AliasEvent):
        yield Mistake(where, line, "an alias (*name); write the value out, or quote it")
        return
    if getattr(event, "anchor", None):
        yield Mistake(where, line, "an anchor (&name); write each value out, or quote it")
    if getattr(event, "tag", None):
        yield Mistake(where, line, "a tag (!name); the schema knows the types, or quote it")


def _unreadable(where: str, content: str, error: Any) -> Mistake:
    """The parser's complaint; ``error`` is any ``yaml.YAMLError``."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return Mistake(where, 0, f"not YAML: {error}")
    lines = content.splitlines()
    text = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in text[: len(text) - len(text.lstrip())]:
        return Mistake(where, mark.line + 1, "a tab in the indentation; use spaces")
    context = f" {error.context}:" if error.context else ""
    began = getattr(error, "context_mark", None)
    if context and began and began.line < mark.line:
        context = f" {error.context} that begins in line {began.line + 1}:"
    what = f"not YAML:{context} {error.problem} (column {mark.column + 1})"
    return Mistake(where, mark.line + 1, what)
