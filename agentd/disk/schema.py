"""From the nodes of a YAML file to a typed value, by the schema that a ``msgspec.Struct`` is.

Known kinds: structs, ``dict[str, X]``, ``list[X]``, ``tuple[X, ...]``, ``str``, ``int``,
``float``, ``Decimal``, ``bool``, ``Literal``, and ``X | None``; limits come from
``msgspec.Meta`` (a pattern covers the whole text). What is annotated with
``Meta(extra={"secret": True})`` is never shown.
"""

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import cache
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import inspect
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from agentd.errors import Misconfigured, Mistake, nearest

T = TypeVar("T")

Place: TypeAlias = tuple[str | int, ...]
"""Where in a file something stands: names of entries, and numbers of items from 0."""

Check: TypeAlias = Callable[[T], Iterable[tuple[Place, str]]]
"""Tells what is wrong with a value as a whole: the place of each mistake, and what it is."""

MISTAKES = 50
"""More are counted, not told."""

_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})")
_NUMBER = re.compile(r"[-+]?[0-9]{1,19}(?:\.[0-9]{1,19})?(?:[eE][-+]?[0-9]{1,2})?")
_SIGN_IN = re.compile(r"://[^/\s]*@")
"""In an address."""
_ACCESS_KEY = re.compile(r"(agent_|sk-agentd-[A-Za-z0-9]{4})[A-Za-z0-9-]{8,}")


def convert(
    where: str,
    root: Node | None,
    shape: type[T],
    check: Check[T] | None = None,
    *,
    others: bool = False,
) -> T:
    """The value of the whole file ``where``, of which ``root`` is the outermost node.

    A file without content has the ``shape``'s defaults. A value that fits is also asked of
    ``check``. ``others``: names that the outermost map has beside are passed over. Raises
    ``Misconfigured`` with every mistake.
    """
    walker = _Walker(where, others)
    if root is None or _is_nothing(root):
        root = MappingNode("", [])
    value = walker.part(root, _kind(shape), "")  # type: ignore[arg-type]  # types are hashable
    if isinstance(value, shape) and check:
        for place, what in check(value):
            walker.note(root, place, what)
    if walker.mistakes or not isinstance(value, shape):
        raise Misconfigured(sorted(walker.mistakes, key=lambda mistake: mistake.line))
    return value


@cache
def _kind(shape: type[Any]) -> inspect.Type:
    """Looking at a struct costs more than reading a small file by it."""
    return inspect.type_info(shape)


class _NotedError(Exception):
    """The value cannot be taken; its mistake is noted."""


class _Walker:
    """Walks one file's nodes and notes every mistake on the way."""

    def __init__(self, where: str, others: bool) -> None:
        self.mistakes: list[Mistake] = []
        self._where = where
        self._others = others
        self._secret = False
        self._form = ""
        """What a text must be, where that is told in words."""
        self._wrong = 0

    def part(self, node: Node, kind: inspect.Type, path: str) -> Any:
        """One value among others; when it cannot be taken, that is noted and the walk goes on."""
        try:
            return self._value(node, kind, path)
        except _NotedError:
            return None

    def note(self, root: Node, place: Place, what: str) -> None:
        """A mistake at a place below ``root``, or at what of the way to it is there."""
        path = ""
        for step in place:
            path = f"{path}[{step}]" if isinstance(step, int) else _join(path, step)
            root = _below(root, step)
        self._noted(root, path, what)

    def _value(self, node: Node, kind: inspect.Type, path: str) -> Any:
        match kind:
            case inspect.Metadata():
                return self._annotated(node, kind, path)
            case inspect.UnionType():
                return self._optional(node, kind, path)
            case inspect.StructType():
                return self._struct(self._need(node, MappingNode, "a map", path), kind, path)
            case inspect.DictType():
                return self._dict(self._need(node, MappingNode, "a map", path), kind, path)
            case inspect.ListType() | inspect.VarTupleType():
                items = self._need(node, SequenceNode, "a list", path)
                if len(items.value) < (kind.min_length or 0):
                    raise self._noted(node, path, f"expected at least {kind.min_length} item")
                values = [
                    self.part(item, kind.item_type, f"{path}[{number}]")
                    for number, item in enumerate(items.value)
                ]
                return values if isinstance(kind, inspect.ListType) else tuple(values)
        expected = self._form or _expected(kind)
        scalar = self._need(node, ScalarNode, expected, path)
        try:
            return _scalar(scalar.value, bool(scalar.style), kind)
        except ValueError as hint:
            found = "a value that is not told" if self._secret else _shown(scalar)
            what = f"found {found}, expected {expected}{hint}"
            raise self._noted(node, path, what) from None

    def _annotated(self, node: Node, kind: inspect.Metadata, path: str) -> Any:
        outer, extra = (self._secret, self._form), kind.extra or {}
        self._secret, self._form = self._secret or bool(extra.get("secret")), extra.get("form", "")
        try:
            return self._value(node, kind.type, path)
        finally:
            self._secret, self._form = outer

    def _optional(self, node: Node, kind: inspect.UnionType, path: str) -> Any:
        if _is_nothing(node) and any(isinstance(one, inspect.NoneType) for one in kind.types):
            return None
        (one,) = (one for one in kind.types if not isinstance(one, inspect.NoneType))
        return self._value(node, one, path)

    def _struct(self, node: MappingNode, kind: inspect.StructType, path: str) -> Any:
        fields = {field.encode_name: field for field in kind.fields}
        wrong = self._wrong
        passing = self._others and not path
        found = self._entries(node, path, None if passing else fields)
        values = {
            fields[name].name: self.part(value, fields[name].type, _join(path, name))
            for name, value in found.items()
            if name in fields
        }
        for name, field in fields.items():
            if field.required and name not in found:
                self._noted(node, path, f'"{name}" is missing')
        if self._wrong > wrong:
            raise _NotedError
        try:
            return kind.cls(**values)
        except ValueError as error:
            raise self._noted(node, path, str(error)) from None

    def _dict(self, node: MappingNode, kind: inspect.DictType, path: str) -> dict[str, Any]:
        return {
            name: self.part(value, kind.value_type, _join(path, name))
            for name, value in self._entries(node, path, None).items()
        }

    def _entries(
        self, node: MappingNode, path: str, known: Iterable[str] | None
    ) -> dict[str, Node]:
        """The map's entries by name, in order; ``known`` names, or any when ``None``."""
        found: dict[str, Node] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self._noted(key, path, "a name was expected before the colon")
            elif key.value == "<<" and not key.style:
                self._noted(key, path, "a merge (<<); write the entries out")
            elif key.value in found:
                first = lines[key.value]
                self._noted(key, path, f"{_shown(key)} is given twice, first on line {first}")
            elif known is not None and key.value not in known:
                near = nearest(key.value, known)
                self._noted(key, path, f"{_shown(key)} is not known here{near}")
            else:
                found[key.value] = value
                lines[key.value] = key.start_mark.line + 1
        return found

    def _need(self, node: Node, form: type[Any], expected: str, path: str) -> Any:
        if not isinstance(node, form):
            found = "a value that is not told" if self._secret else _shown(node)
            raise self._noted(node, path, f"found {found}, expected {expected}")
        return node

    def _noted(self, node: Node, path: str, what: str) -> _NotedError:
        line = node.start_mark.line + 1 if node.start_mark else 0
        if self._wrong < MISTAKES:
            what = f"{path}: {what}" if path else what
            self.mistakes.append(Mistake(self._where, line, what))
        elif self._wrong == MISTAKES:
            self.mistakes.append(Mistake(self._where, line, "and more from here on"))
        self._wrong += 1
        return _NotedError()


def _scalar(text: str, quoted: bool, kind: inspect.Type) -> Any:
    """Take a scalar as its kind wants it. Raises ``ValueError`` with a hint."""
    match kind:
        case inspect.StrType():
            return _text(text, quoted, kind)
        case inspect.LiteralType(values=values):
            return _choice(text, quoted, values)
        case inspect.DecimalType():
            # Quotes are how one keeps other programs from reading 0.10 as 0.1.
            return Decimal(_matching(_NUMBER, text))
    if quoted:
        raise ValueError("; remove the quotes")
    match kind:
        case inspect.BoolType():
            if text not in ("true", "false"):
                raise ValueError
            return text == "true"
        case inspect.IntType():
            return _in_range(int(_matching(_INTEGER, text)), kind)
        case inspect.FloatType():
            return _in_range(float(_matching(_NUMBER, text)), kind)
    raise TypeError(f"{kind} has no form in a file")


def _text(text: str, quoted: bool, kind: inspect.StrType) -> str:
    if not (text or quoted):
        raise ValueError("; write '' for an empty one")
    if kind.min_length is not None and len(text) < kind.min_length:
        raise ValueError
    if kind.max_length is not None and len(text) > kind.max_length:
        raise ValueError
    if kind.pattern is not None and not re.fullmatch(kind.pattern, text):
        raise ValueError
    return text


def _choice(text: str, quoted: bool, values: tuple[Any, ...]) -> Any:
    for value in values:
        if text == str(value) and not (quoted and isinstance(value, int)):
            return value
    near = nearest(text, map(str, values))  # all that are known are told as what is expected
    raise ValueError(near if len(values) > 1 and near.startswith(";") else "")


def _matching(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise ValueError("; without leading zeros or separators" if text[:1].isdigit() else "")
    return text


def _in_range(number: Any, kind: Any) -> Any:
    inside = (
        (kind.ge is None or number >= kind.ge)
        and (kind.gt is None or number > kind.gt)
        and (kind.le is None or number <= kind.le)
        and (kind.lt is None or number < kind.lt)
    )
    if not inside:
        raise ValueError
    return number


def _expected(kind: Any) -> str:
    """What a scalar of this kind looks like, for a person."""
    match kind:
        case inspect.LiteralType(values=values):
            told = " or ".join(map(str, values))
        case inspect.BoolType():
            told = "true or false"
        case inspect.StrType(pattern=str(pattern)):
            told = f"text like {pattern}"
        case inspect.StrType():
            told = f"text{_between(kind.min_length, kind.max_length, ' of ', ' characters')}"
        case inspect.IntType():
            told = f"a whole number{_between(kind.ge, kind.le)}"
        case inspect.FloatType():
            told = f"a number{_between(kind.ge, kind.le)}"
        case _:
            told = "a number"
    return told


def _between(low: Any, high: Any, before: str = " ", after: str = "") -> str:
    match low, high:
        case None, None:
            return ""
        case _, None:
            return f"{before}at least {low}{after}"
        case None, _:
            return f"{before}at most {high}{after}"
    return f"{before}{low} to {high}{after}"


def _shown(node: Node) -> str:
    """What was found, short, in one line, and without an access key or a sign-in in it."""
    if isinstance(node, MappingNode):
        return "a map"
    if not isinstance(node, ScalarNode):
        return "a list"
    if not (node.value or node.style):
        return "nothing"
    text = _SIGN_IN.sub("://…@", _ACCESS_KEY.sub(r"\1…", node.value))
    short = text if len(text) <= 40 else text[:40] + "…"
    return msgspec.json.encode(short).decode()


def _is_nothing(node: Node) -> bool:
    """An empty value, or one that plainly says so."""
    return isinstance(node, ScalarNode) and not node.style and node.value in ("", "~", "null")


def _below(node: Node, step: str | int) -> Node:
    """The entry or item of a node; the node itself when it has no such thing."""
    below: Node = node
    if isinstance(node, MappingNode):
        below = {key.value: value for key, value in node.value}.get(step, node)
    elif isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        below = node.value[step]
    return below


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
