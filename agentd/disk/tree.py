"""The content of a hand-written YAML file as ruamel keeps it, with its comments, to be edited.

Whoever edits comes by ``roundtrip``, which imports this for the first edit.
"""

import io
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import CommentMark, YAMLError
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.resolver import VersionedResolver
from ruamel.yaml.scalarstring import PlainScalarString, SingleQuotedScalarString
from ruamel.yaml.tokens import CommentToken
from ruamel.yaml.util import load_yaml_guess_indent

from agentd.disk.handwritten import by_hand
from agentd.errors import Conflict

Value: TypeAlias = str | bool | tuple[int, ...]
"""What a new entry may hold."""

_MAP_SLOT, _LIST_SLOT = 2, 0
"""Where ruamel keeps the comment after an entry of a map, and of a list."""


def edited(where: str, text: bytes, change: Callable[["Tree"], object]) -> bytes:
    """As ``roundtrip.edited``, whose work is done here."""
    content = text.decode("utf-8")
    windows = "\r\n" in content
    try:
        tree, indent, dash = load_yaml_guess_indent(content.replace("\r\n", "\n"), yaml=_yaml())
    except YAMLError as error:
        raise Conflict(by_hand(where)) from error
    out = io.StringIO()
    if tree is None:
        tree = CommentedMap()
        out.writelines(f"{line}\n" for line in content.splitlines())
    change(Tree(tree))
    writer = _yaml()
    writer.indent(mapping=2, sequence=max(indent or 2, 2), offset=dash or 0)
    writer.dump(tree, out)
    result = out.getvalue()
    return (result.replace("\n", "\r\n") if windows else result).encode("utf-8")


class Tree:
    """The outermost map: lists of entries, which are maps of their own."""

    def __init__(self, outermost: CommentedMap) -> None:
        self._map = outermost

    def append(self, name: str, values: Mapping[str, Value]) -> None:
        """Add an entry at the end of the list ``name``; comments that closed the list still do."""
        entries = self._map.get(name)
        if not entries:
            self._map[name] = CommentedSeq([_entry(values)])
            return
        last = len(entries) - 1
        behind, below = _comment_after(entries, last)
        entries.append(_entry(values))
        if below:
            _set_comment_after(entries, last, behind, "")
            _set_comment_after(entries, last + 1, "", below)

    def update(self, name: str, index: int, values: Mapping[str, Value]) -> None:
        """Give an entry of the list ``name`` these values; what it says already stays as it is."""
        entry = self._map[name][index]
        entry.update(_entry({key: new for key, new in values.items() if entry.get(key) != new}))

    def remove(self, name: str, index: int) -> None:
        """Remove one entry of the list ``name``, with the lines of comment above it.

        ruamel hangs those lines on the entry before; left alone, each would end up with its
        neighbour.
        """
        entries: CommentedSeq = self._map[name]
        _, below = _comment_after(entries, index)
        behind = _comment_after(entries, index - 1)[0] if index else ""
        del entries[index]
        if index:
            _set_comment_after(entries, index - 1, behind, below)
        elif entries:
            _set_comment_before(self._map, name, below)
        else:
            _set_comment_before(self._map, name, "")
            self._map[name] = CommentedSeq()
            self._map.ca.items[name] = [None, None, _token(f"\n{below}"), None]


def _entry(values: Mapping[str, Value]) -> CommentedMap:
    """A new entry of a list; every text is quoted."""
    return CommentedMap({name: _written(value) for name, value in values.items()})


def _written(value: Value) -> Any:
    match value:
        case bool():
            return PlainScalarString("true" if value else "false")
        case str():
            return SingleQuotedScalarString(value)
    numbers = CommentedSeq(PlainScalarString(str(number)) for number in value)
    numbers.fa.set_flow_style()
    return numbers


def _set_comment_before(tree: CommentedMap, name: str, text: str) -> None:
    """Set the lines above the first entry; ruamel keeps them at the map and at the list."""
    lines = [_token(text)] if text else []
    tokens = tree.ca.items.setdefault(name, [None] * 4)
    tokens[3] = lines or None
    tree[name].ca.comment = [None, lines] if lines else None


def _comment_after(entries: CommentedSeq, index: int) -> tuple[str, str]:
    """The comment behind an entry's last line, and the lines between it and the next entry."""
    place, key, slot = _last_place(entries, index)
    tokens = place.get(key)
    token = tokens[slot] if tokens else None
    if token is None:
        return "", ""
    behind, _, below = token.value.partition("\n")
    return behind, below


def _set_comment_after(entries: CommentedSeq, index: int, behind: str, below: str) -> None:
    place, key, slot = _last_place(entries, index)
    tokens = place.setdefault(key, [None] * 4)
    if not (behind or below):
        tokens[slot] = None
    elif tokens[slot] is None:
        tokens[slot] = _token(f"{behind}\n{below}")
    else:
        tokens[slot].value = f"{behind}\n{below}"


def _last_place(holder: Any, key: Any) -> tuple[dict[Any, Any], Any, int]:
    """The comments, the key and the slot of the last scalar of ``holder[key]``."""
    while isinstance(holder[key], CommentedMap | CommentedSeq) and holder[key]:
        holder = holder[key]
        key = list(holder)[-1] if isinstance(holder, CommentedMap) else len(holder) - 1
    slot = _MAP_SLOT if isinstance(holder, CommentedMap) else _LIST_SLOT
    return holder.ca.items, key, slot


def _token(text: str) -> CommentToken:
    return CommentToken(text, CommentMark(0), None)


class _AsTyped(VersionedResolver):
    """Takes no scalar for anything but text."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        plain = (False, True) if kind is ScalarNode else implicit
        return super().resolve(kind, value, plain)


def _yaml() -> YAML:
    yaml = YAML()
    yaml.Resolver = _AsTyped
    yaml.preserve_quotes = True
    yaml.width = 1_000_000
    return yaml
