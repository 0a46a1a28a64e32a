"""Change single values of a hand-written YAML file, byte for byte the rest as the person wrote it.

Unlike ``roundtrip``, which writes the file anew, nothing here is written but the value itself:
its place is found in the nodes, and the new words are put there. What is new means the same to
every reader: texts are quoted, lists and maps stand in one line.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from agentd.disk import document, handwritten
from agentd.errors import BadRequest, Conflict, Misconfigured

T = TypeVar("T")

Path: TypeAlias = tuple[str | int, ...]
"""The names of entries, and numbers of items from 0, on the way from the outermost map on."""

NEW = 0o644
"""The mode of a file that was not there: settings are no secret unless a person says so."""

_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Libyaml's, where it is: twenty times as fast, and every mark of it is the same."""

_PLAIN = re.compile(
    r"(?!(?:yes|no|on|off|true|false|null|y|n)$)[a-z][a-z0-9._-]*", re.IGNORECASE | re.ASCII
)
"""Names that every reader of YAML takes for text."""


def rewrite(
    path: str,
    load: Callable[[bytes], T],
    change: "Callable[[Text], None]",
    fits: Callable[[T, T], bool],
    *,
    private: bool = False,
    dry_run: bool = False,
) -> T:
    """Make a change to the hand-written file at ``path``, which may not exist yet. Blocking.

    ``load`` reads content; ``fits(before, after)`` tells whether just what was meant is another.
    Of a ``private`` file nobody else can read what is written; in a ``dry_run`` nothing is. The
    answer is the value after it. Raises ``Misconfigured`` when the new content is not valid, and
    ``Conflict`` when the present one is not, or cannot be edited, or somebody else saved the file
    meanwhile: then it is as it was.
    """
    found = document.read(path, handwritten.LIMIT)
    data = found.data if found else b""
    try:
        before = load(data)
    except Misconfigured as error:
        raise Conflict(
            f"{path} has mistakes; mend it by hand before it is changed here", error.message
        ) from error
    text = Text(path, data.decode())
    change(text)
    after = load(text.content.encode())
    if not fits(before, after):
        raise Conflict(handwritten.by_hand(path))
    if text.content.encode() != data and not dry_run:
        document.make_folder(path.rpartition("/")[0])
        stamp, mode = (found.stamp, _mode(path)) if found else (None, NEW)
        mode = 0o600 if private else mode
        document.replace(path, text.content.encode(), expected=stamp, mode=mode)
    return after


class Text:
    """The content of a file that is being changed. Every change finds its place anew."""

    def __init__(self, where: str, content: str) -> None:
        self.content = content
        self._where = where
        self._break = "\r\n" if "\r\n" in content else "\n"

    def set(self, path: Path, value: object) -> None:
        """Give the entry at ``path`` another value; it and the maps above it may be missing."""
        holder = self._map(path[:-1])
        if holder is None and len(path) > 1:
            self.set(path[:-1], {path[-1]: value})
        elif holder and (found := _entry(holder, path[-1])):
            self._replace(*found, _written(value))
        else:
            self._add(holder, path, _written(value))

    def drop(self, path: Path) -> None:
        """Take an entry away, with its lines; the comments above it stay."""
        holder = self._map(path[:-1])
        found = _entry(holder, path[-1]) if holder else None
        if holder is None or found is None:
            return
        key, value = found
        if holder.flow_style:
            others = [pair for pair in holder.value if pair[0] is not key]
            told = ", ".join(self._cut(one.start_mark.index, self._end(two)) for one, two in others)
            self._splice(holder.start_mark.index, holder.end_mark.index, f"{{{told}}}")
        elif len(path) > 1 and len(holder.value) == 1:
            self._splice(holder.start_mark.index, self._end(value), "{}")
        else:
            self._splice(
                self._line_start(key.start_mark.index), self._line_end(self._end(value)), ""
            )

    def prune(self, path: Path) -> None:
        """Take the map at ``path`` away if it is empty, and those above it that then are.

        One on whose lines somebody commented stays.
        """
        holder = self._map(path[:-1]) if path else None
        found = _entry(holder, path[-1]) if holder else None
        if found and isinstance(found[1], MappingNode) and not found[1].value:
            key, value = found
            if "#" not in self._cut(key.start_mark.index, self._line_end(self._end(value))):
                self.drop(path)
                self.prune(path[:-1])

    def append(self, path: Path, entry: Mapping[str, object]) -> None:
        """Put one more item, a map, at the end of the list at ``path``; both may be missing."""
        holder = self._map(path[:-1])
        pair = _entry(holder, path[-1]) if holder else None
        if holder is None or pair is None:
            self._add(holder, path, "[]")
            self.append(path, entry)
            return
        key, items = pair
        if isinstance(items, SequenceNode) and items.value:
            end = self._end(items.value[-1])
            if items.flow_style:
                self._splice(end, end, f", {_written(entry)}")
            else:
                self._put_item(entry, self._line_end(end), items.start_mark.column)
        elif not (isinstance(items, SequenceNode) or _is_nothing(items)):
            raise Conflict(handwritten.by_hand(self._where))
        elif holder.flow_style:
            self._replace(key, items, f"[{_written(entry)}]")
        else:
            self._splice(key.end_mark.index + 1, self._end(items), "")
            self._put_item(entry, self._line_end(key.end_mark.index), key.start_mark.column + 2)

    def remove(self, path: Path, index: int) -> None:
        """Take an item of the list at ``path`` away, with the comments right above it."""
        holder = self._map(path[:-1])
        pair = _entry(holder, path[-1]) if holder else None
        key, items = pair or (None, None)
        if key is None or not isinstance(items, SequenceNode):
            raise Conflict(handwritten.by_hand(self._where))
        item = items.value[index]
        if items.flow_style:
            others = [one for one in items.value if one is not item]
            told = ", ".join(self._cut(one.start_mark.index, self._end(one)) for one in others)
            self._splice(items.start_mark.index, items.end_mark.index, f"[{told}]")
            return
        begin = self._line_start(item.start_mark.index)
        if self._cut(begin, item.start_mark.index).strip() != "-":
            raise Conflict(handwritten.by_hand(self._where))
        self._splice(self._begin(item), self._line_end(self._end(item)), "")
        if len(items.value) == 1:
            self._splice(key.end_mark.index + 1, key.end_mark.index + 1, " []")

    def arrange(self, path: Path, names: Iterable[str]) -> None:
        """Put the entries of the map at ``path`` into this order, each with its comments."""
        holder = self._map(path)
        wanted = list(names)
        if holder is None or [key.value for key, _ in holder.value] == wanted:
            return
        pieces: dict[str, str] = {}
        begin = first = self._begin(holder)
        for key, value in holder.value:
            end = self._end(value) if holder.flow_style else self._line_end(self._end(value))
            start = key.start_mark.index if holder.flow_style else begin
            pieces[key.value] = self._cut(start, end)
            begin = end
        if holder.flow_style:
            told = ", ".join(pieces[name] for name in wanted)
            self._splice(holder.start_mark.index, holder.end_mark.index, f"{{{told}}}")
        else:
            lines = [
                piece.rstrip("\r\n") + self._break for piece in map(pieces.get, wanted) if piece
            ]
            self._splice(first, begin, "".join(lines))

    def _map(self, path: Path) -> MappingNode | None:
        """The map at a path; None when there is none yet. ``Conflict`` for anything else."""
        node: Node | None = yaml.compose(self.content, Loader=_LOADER)
        for step in path:
            if isinstance(step, int):
                node = node.value[step] if isinstance(node, SequenceNode) else None
                continue
            found = _entry(node, step) if isinstance(node, MappingNode) else None
            node = found[1] if found else None
        if node is None or _is_nothing(node):
            return None
        if not isinstance(node, MappingNode):
            raise Conflict(handwritten.by_hand(self._where))
        return node

    def _replace(self, key: Node, value: Node, told: str) -> None:
        begin, end = value.start_mark.index, self._end(value)
        if begin == key.end_mark.index + 1 or value.start_mark.column <= key.start_mark.column:
            told = f" {told}"  # right behind the colon, or in the key's own column
        self._splice(begin, end, told)

    def _add(self, holder: MappingNode | None, path: Path, told: str) -> None:
        line = f"{_name(str(path[-1]))}: {told}"
        if holder is None:
            self._append(line, 0)
        elif holder.flow_style:
            place = self._end(holder.value[-1][1]) if holder.value else holder.start_mark.index + 1
            self._splice(place, place, f", {line}" if holder.value else line)
        elif len(path) == 1:
            self._append(line, holder.start_mark.column)
        else:
            place = self._line_end(self._end(holder.value[-1][1]))
            indent = " " * holder.start_mark.column
            self._splice(place, place, self._apart(place) + indent + line + self._break)

    def _append(self, line: str, indent: int) -> None:
        """A new line of the outermost map: below where it stands as a comment, or at the end."""
        name = re.escape(line.partition(":")[0])
        shown = list(re.finditer(rf"(?m)^# ?{name}:.*$", self.content))
        place = self._line_end(shown[-1].end()) if shown else len(self.content)
        self._splice(place, place, self._apart(place) + " " * indent + line + self._break)

    def _put_item(self, entry: Mapping[str, object], place: int, indent: int) -> None:
        """The lines of a new item of a block list."""
        lines = [f"{_name(name)}: {_written(value)}" for name, value in entry.items()]
        dashed = [("  " if number else "- ") + line for number, line in enumerate(lines)]
        told = "".join(" " * indent + line + self._break for line in dashed)
        self._splice(place, place, self._apart(place) + told)

    def _apart(self, place: int) -> str:
        """What is missing for a new line to begin there."""
        return self._break if place and self.content[place - 1] != "\n" else ""

    def _begin(self, holder: Node) -> int:
        """Where its first entry's piece begins: its line, or the comments above it."""
        place = self._line_start(holder.start_mark.index)
        while place and self._cut(self._line_start(place - 1), place).lstrip().startswith("#"):
            place = self._line_start(place - 1)
        return place

    def _end(self, node: Node) -> int:
        """Where a value really ends: the end of a block is marked behind the comments below it."""
        if isinstance(node, MappingNode | SequenceNode) and not node.flow_style and node.value:
            last = node.value[-1]
            return self._end(last[1] if isinstance(node, MappingNode) else last)
        end: int = node.end_mark.index
        if isinstance(node, ScalarNode) and node.style in ("|", ">"):
            return len(self.content[:end].rstrip("\r\n"))
        return end

    def _line_start(self, place: int) -> int:
        return self.content.rfind("\n", 0, place) + 1

    def _line_end(self, place: int) -> int:
        """Where the line after the one of ``place`` begins."""
        found = self.content.find("\n", place)
        return found + 1 if found >= 0 else len(self.content)

    def _cut(self, begin: int, end: int) -> str:
        return self.content[begin:end]

    def _splice(self, begin: int, end: int, told: str) -> None:
        self.content = self.content[:begin] + told + self.content[end:]


def _entry(node: MappingNode, name: str | int) -> tuple[Node, Node] | None:
    return next((pair for pair in node.value if pair[0].value == name), None)


def _is_nothing(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value in ("", "~", "null")


def _mode(path: str) -> int:
    with document.told(path, "read"):
        return stat.S_IMODE(os.stat(path, follow_symlinks=False).st_mode)


def _written(value: object, depth: int = 0) -> str:
    """A value in one line of YAML. ``BadRequest`` when it nests deeper than any file may."""
    if depth > handwritten.DEPTH:
        raise BadRequest(f"nests deeper than {handwritten.DEPTH} levels")
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float() | Decimal():
            return str(value).removesuffix(".0")
        case str():
            return _quoted(value)
        case Mapping():
            told = ", ".join(
                f"{_name(str(name))}: {_written(one, depth + 1)}" for name, one in value.items()
            )
            return f"{{{told}}}"
        case list() | tuple():
            return f"[{', '.join(_written(one, depth + 1) for one in value)}]"
    raise TypeError(f"{type(value).__name__} has no form in a file")


def _quoted(text: str) -> str:
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08X}"


def _name(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else _quoted(text)
