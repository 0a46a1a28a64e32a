"""Convert the nodes of a YAML file to a typed value; the schema is a ``msgspec.Struct``.

Known kinds: structs, ``dict[str, X]``, ``list[X]``, ``tuple[X, ...]``, ``str``, ``int``,
``float``, ``Decimal``, ``bool``, ``Literal``, ``X | None``, and ``Any`` for JSON; limits come from
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

from agentd.core.errors import ConfigError, ConfigProblem, suggest_name

T = TypeVar("T")

ValuePath: TypeAlias = tuple[str | int, ...]
"""The position of a value in a file: names of entries, and numbers of items from 0."""

ValueCheck: TypeAlias = Callable[[T], Iterable[tuple[ValuePath, str]]]
"""Finds what is wrong with a value as a whole: the place of each problem, and what it is."""

MAX_PROBLEMS = 50
"""Further ones are not listed."""

_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})")
_NUMBER = re.compile(r"[-+]?[0-9]{1,19}(?:\.[0-9]{1,19})?(?:[eE][-+]?[0-9]{1,2})?")
_ANY_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_ANY_NUMBER = re.compile(r"-?[0-9]{1,19}(?:\.[0-9]{1,25})?(?:[eE][-+]?[0-9]{1,3})?")
"""Numbers as they are written where any value of JSON may stand: all of Python's."""
_CONSTANTS: dict[str, bool | None] = {
    **{"true": True, "false": False},
    **dict.fromkeys(("", "~", "null")),
}
"""What these texts mean where any value of JSON may stand."""
_SIGN_IN = re.compile(r"://[^/\s]*@")
"""The credentials in an address."""
_ACCESS_KEY = re.compile(r"(agent_|sk-agentd-[A-Za-z0-9]{4})[A-Za-z0-9-]{8,}")


def convert_node(
    where: str,
    root: Node | None,
    shape: type[T],
    check: ValueCheck[T] | None = None,
    *,
    ignore_unknown: bool = False,
) -> T:
    """Return the value of the whole file ``where``, of which ``root`` is the outermost node.

    A file without content has the ``shape``'s defaults. A value that fits is also given to
    ``check``. With ``ignore_unknown``, unknown names in the outermost map are ignored. Raises
    ``ConfigError`` with every problem.
    """
    walker = _Walker(where, ignore_unknown)
    if root is None or _is_nothing(root):
        root = MappingNode("", [])
    value = walker.convert_part(root, _get_type_info(shape), "")  # type: ignore[arg-type]  # types are hashable
    if isinstance(value, shape) and check:
        for place, what in check(value):
            walker.add_problem_at(root, place, what)
    if walker.problems or not isinstance(value, shape):
        raise ConfigError(sorted(walker.problems, key=lambda problem: problem.line))
    return value


@cache
def _get_type_info(shape: type[Any]) -> inspect.Type:
    """Return the type's description; making it costs more than reading a small file by it."""
    return inspect.type_info(shape)


class _ProblemRecordedError(Exception):
    """The value is not valid; its problem is recorded."""


class _Walker:
    """Walks one file's nodes and records every problem on the way."""

    def __init__(self, where: str, others: bool) -> None:
        self.problems: list[ConfigProblem] = []
        self._where = where
        self._others = others
        self._secret = False
        self._form = ""
        """The required form of a text, if the schema describes it in words."""
        self._wrong = 0

    def convert_part(self, node: Node, kind: inspect.Type, path: str) -> Any:
        """Convert one value among others; record it when it is not valid, and go on."""
        try:
            return self._convert(node, kind, path)
        except _ProblemRecordedError:
            return None

    def add_problem_at(self, root: Node, place: ValuePath, what: str) -> None:
        """Record a problem at a place below ``root``, or at what exists of the way to it."""
        path = ""
        for step in place:
            path = f"{path}[{step}]" if isinstance(step, int) else _join_path(path, step)
            root = _find_child(root, step)
        self._add_problem(root, path, what)

    def _convert(self, node: Node, kind: inspect.Type, path: str) -> Any:
        match kind:
            case inspect.Metadata():
                return self._convert_annotated(node, kind, path)
            case inspect.UnionType():
                return self._convert_optional(node, kind, path)
            case inspect.StructType():
                return self._convert_struct(
                    self._require_node(node, MappingNode, "a map", path), kind, path
                )
            case inspect.DictType():
                return self._convert_dict(
                    self._require_node(node, MappingNode, "a map", path), kind, path
                )
            case inspect.ListType() | inspect.VarTupleType():
                return self._convert_list(node, kind, path)
        return self._convert_single(node, kind, path)

    def _convert_list(
        self, node: Node, kind: inspect.ListType | inspect.VarTupleType, path: str
    ) -> list[Any] | tuple[Any, ...]:
        items = self._require_node(node, SequenceNode, "a list", path)
        if len(items.value) < (kind.min_length or 0):
            raise self._add_problem(node, path, f"expected at least {kind.min_length} item")
        if kind.max_length is not None and len(items.value) > kind.max_length:
            what = f"found {len(items.value)} items; expected at most {kind.max_length}"
            raise self._add_problem(node, path, what)
        values = [
            self.convert_part(item, kind.item_type, f"{path}[{number}]")
            for number, item in enumerate(items.value)
        ]
        return values if isinstance(kind, inspect.ListType) else tuple(values)

    def _convert_single(self, node: Node, kind: inspect.Type, path: str) -> Any:
        """Convert a scalar, or any value of JSON."""
        if isinstance(kind, inspect.AnyType):
            return self._convert_any(node, path)
        expected = self._form or _describe_expected(kind)
        scalar = self._require_node(node, ScalarNode, expected, path)
        try:
            return _convert_scalar(scalar.value, bool(scalar.style), kind)
        except ValueError as hint:
            found = "a hidden value" if self._secret else _describe_node(scalar)
            what = f"found {found}, expected {expected}{hint}"
            raise self._add_problem(node, path, what) from None

    def _convert_annotated(self, node: Node, kind: inspect.Metadata, path: str) -> Any:
        outer, extra = (self._secret, self._form), kind.extra or {}
        self._secret, self._form = self._secret or bool(extra.get("secret")), extra.get("form", "")
        try:
            return self._convert(node, kind.type, path)
        finally:
            self._secret, self._form = outer

    def _convert_optional(self, node: Node, kind: inspect.UnionType, path: str) -> Any:
        if _is_nothing(node) and any(isinstance(one, inspect.NoneType) for one in kind.types):
            return None
        (one,) = (one for one in kind.types if not isinstance(one, inspect.NoneType))
        return self._convert(node, one, path)

    def _convert_struct(self, node: MappingNode, kind: inspect.StructType, path: str) -> Any:
        fields = {field.encode_name: field for field in kind.fields}
        wrong = self._wrong
        passing = self._others and not path
        found = self._collect_entries(node, path, None if passing else fields)
        values = {
            fields[name].name: self.convert_part(value, fields[name].type, _join_path(path, name))
            for name, value in found.items()
            if name in fields
        }
        for name, field in fields.items():
            if field.required and name not in found:
                self._add_problem(node, path, f'"{name}" is missing')
        if self._wrong > wrong:
            raise _ProblemRecordedError
        try:
            return kind.cls(**values)
        except ValueError as error:
            raise self._add_problem(node, path, str(error)) from None

    def _convert_any(self, node: Node, path: str) -> Any:
        """Convert a value of JSON: plain true, false, null and numbers are no texts."""
        if isinstance(node, MappingNode):
            return {
                name: self._convert_any(value, _join_path(path, name))
                for name, value in self._collect_entries(node, path, None).items()
            }
        if isinstance(node, SequenceNode):
            return [
                self._convert_any(item, f"{path}[{number}]")
                for number, item in enumerate(node.value)
            ]
        return _guess_scalar(node.value, isinstance(node, ScalarNode) and bool(node.style))

    def _convert_dict(self, node: MappingNode, kind: inspect.DictType, path: str) -> dict[str, Any]:
        return {
            name: self.convert_part(value, kind.value_type, _join_path(path, name))
            for name, value in self._collect_entries(node, path, None).items()
        }

    def _collect_entries(
        self, node: MappingNode, path: str, known: Iterable[str] | None
    ) -> dict[str, Node]:
        """Return the map's entries by name, in order; ``known`` names, or any when ``None``."""
        found: dict[str, Node] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self._add_problem(key, path, "a name was expected before the colon")
            elif key.value == "<<" and not key.style:
                self._add_problem(key, path, "a merge (<<); write the entries out")
            elif key.value in found:
                first = lines[key.value]
                self._add_problem(
                    key, path, f"{_describe_node(key)} is given twice, first on line {first}"
                )
            elif known is not None and key.value not in known:
                near = suggest_name(key.value, known)
                self._add_problem(key, path, f"{_describe_node(key)} is not known here{near}")
            else:
                found[key.value] = value
                lines[key.value] = key.start_mark.line + 1
        return found

    def _require_node(self, node: Node, form: type[Any], expected: str, path: str) -> Any:
        if not isinstance(node, form):
            found = "a hidden value" if self._secret else _describe_node(node)
            raise self._add_problem(node, path, f"found {found}, expected {expected}")
        return node

    def _add_problem(self, node: Node, path: str, what: str) -> _ProblemRecordedError:
        line = node.start_mark.line + 1 if node.start_mark else 0
        if self._wrong < MAX_PROBLEMS:
            what = f"{path}: {what}" if path else what
            self.problems.append(ConfigProblem(self._where, line, what))
        elif self._wrong == MAX_PROBLEMS:
            self.problems.append(ConfigProblem(self._where, line, "and more from here on"))
        self._wrong += 1
        return _ProblemRecordedError()


def _convert_scalar(text: str, quoted: bool, kind: inspect.Type) -> Any:
    """Take a scalar as its kind wants it. Raises ``ValueError`` with a hint."""
    match kind:
        case inspect.StrType():
            return _check_text(text, quoted, kind)
        case inspect.LiteralType(values=values):
            return _check_choice(text, quoted, values)
        case inspect.DecimalType():
            # Quotes are how one keeps other programs from reading 0.10 as 0.1.
            return Decimal(_require_match(_NUMBER, text))
    if quoted:
        raise ValueError("; remove the quotes")
    match kind:
        case inspect.BoolType():
            if text not in ("true", "false"):
                raise ValueError
            return text == "true"
        case inspect.IntType():
            return _require_range(int(_require_match(_INTEGER, text)), kind)
        case inspect.FloatType():
            return _require_range(float(_require_match(_NUMBER, text)), kind)
    raise TypeError(f"{kind} has no form in a file")


def _guess_scalar(text: str, quoted: bool) -> str | float | bool | None:
    if quoted:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _ANY_INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _ANY_NUMBER.fullmatch(text) else text


def _check_text(text: str, quoted: bool, kind: inspect.StrType) -> str:
    if not (text or quoted):
        raise ValueError("; write '' for an empty one")
    if kind.min_length is not None and len(text) < kind.min_length:
        raise ValueError
    if kind.max_length is not None and len(text) > kind.max_length:
        raise ValueError
    if kind.pattern is not None and not re.fullmatch(kind.pattern, text):
        raise ValueError
    return text


def _check_choice(text: str, quoted: bool, values: tuple[Any, ...]) -> Any:
    for value in values:
        if text == str(value) and not (quoted and isinstance(value, int)):
            return value
    near = suggest_name(text, map(str, values))  # the error lists all known ones
    raise ValueError(near if len(values) > 1 and near.startswith(";") else "")


def _require_match(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise ValueError("; without leading zeros or separators" if text[:1].isdigit() else "")
    return text


def _require_range(number: Any, kind: Any) -> Any:
    inside = (
        (kind.ge is None or number >= kind.ge)
        and (kind.gt is None or number > kind.gt)
        and (kind.le is None or number <= kind.le)
        and (kind.lt is None or number < kind.lt)
    )
    if not inside:
        raise ValueError
    return number


def _describe_expected(kind: Any) -> str:
    """Describe the scalars of this kind for a person."""
    match kind:
        case inspect.LiteralType(values=values):
            text = " or ".join(map(str, values))
        case inspect.BoolType():
            text = "true or false"
        case inspect.StrType(pattern=str(pattern)):
            text = f"text like {pattern}"
        case inspect.StrType():
            text = f"text{_describe_range(kind.min_length, kind.max_length, ' of ', ' characters')}"
        case inspect.IntType():
            text = f"a whole number{_describe_range(kind.ge, kind.le)}"
        case inspect.FloatType():
            text = f"a number{_describe_range(kind.ge, kind.le)}"
        case _:
            text = "a number"
    return text


def _describe_range(low: Any, high: Any, before: str = " ", after: str = "") -> str:
    low, high = (int(one) if one is not None and one == int(one) else one for one in (low, high))
    match low, high:
        case None, None:
            return ""
        case _, None:
            return f"{before}at least {low}{after}"
        case None, _:
            return f"{before}at most {high}{after}"
    return f"{before}{low} to {high}{after}"


def _describe_node(node: Node) -> str:
    """Describe a node in one short line, without access keys or sign-in data."""
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
    """Return an empty value, or one that plainly says so."""
    return isinstance(node, ScalarNode) and not node.style and node.value in ("", "~", "null")


def _find_child(node: Node, step: str | int) -> Node:
    """Return the entry or item of a node; the node itself when it has no such thing."""
    below: Node = node
    if isinstance(node, MappingNode):
        below = {key.value: value for key, value in node.value}.get(step, node)
    elif isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        below = node.value[step]
    return below


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
