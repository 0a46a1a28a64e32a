"""Edit values and list items of a hand-written YAML file; every other byte stays as it is.

Nothing is written but what changes: its place is found by the marks of the parsed nodes, and the
new text is put there. It means the same to every reader: texts are quoted, lists and maps stand in
one line.
"""

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from agentd.core.errors import BadRequest, ConfigError, Conflict
from agentd.storage import document
from agentd.storage.yaml import reader as yaml_reader

T = TypeVar("T")

YamlPath: TypeAlias = tuple[str | int, ...]
"""The names of entries, and numbers of items from 0, on the way from the outermost map on."""

NEW_FILE_MODE = 0o644
"""The mode of a file that was not there: settings are no secret unless a person says so."""

_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Libyaml's, where it is: twenty times as fast, and every mark of it is the same."""

_PLAIN = re.compile(
    r"(?!(?:yes|no|on|off|true|false|null|y|n)$)[a-z][a-z0-9._-]*", re.IGNORECASE | re.ASCII
)
"""Names that every reader of YAML takes for text."""


_DOCUMENT_END = re.compile(r"^\.\.\.(?=\s|$)", re.MULTILINE)


def edit_yaml_file(
    path: str,
    load: Callable[[bytes], T],
    change: "Callable[[YamlEditor], None]",
    is_expected: Callable[[T, T], bool],
    *,
    private: bool = False,
    dry_run: bool = False,
) -> T:
    """Edit the hand-written file at ``path``, which may not exist yet. Blocking.

    ``load`` parses content; ``is_expected(before, after)`` says whether only the intended value
    changed. A ``private`` file is readable by nobody else; a ``dry_run`` writes nothing. Returns
    the value after the edit. Raises ``ConfigError`` when the new content is not valid, and
    ``Conflict`` when the present one is not, or cannot be edited, or somebody else saved the file
    meanwhile: then it stays as it was.
    """
    found = document.read_document(path, yaml_reader.MAX_FILE_SIZE)
    data = found.data if found else b""
    try:
        before = load(data)
    except ConfigError as error:
        raise Conflict(
            f"{path} is not valid; fix it by hand before it is changed here", error.message
        ) from error
    text = YamlEditor(path, data.decode())
    change(text)
    after = load(text.content.encode())
    if not is_expected(before, after):
        raise Conflict(yaml_reader.explain_not_editable(path))
    if text.content.encode() != data and not dry_run:
        document.make_folder(path.rpartition("/")[0])
        stamp, mode = (found.stamp, _get_mode(path)) if found else (None, NEW_FILE_MODE)
        mode = 0o600 if private else mode
        document.replace_document(path, text.content.encode(), expected=stamp, mode=mode)
    return after


def edit_content(where: str, content: bytes, change: "Callable[[YamlEditor], object]") -> bytes:
    """Return the content of the file ``where`` with a change made to it.

    ``content`` must have been accepted by ``reader.load_yaml``, and the result must be read by it
    before it is written: nothing is validated here. Raises ``Conflict`` when it cannot be edited.
    """
    text = YamlEditor(where, content.decode())
    change(text)
    return text.content.encode()


def edit_yaml_list(
    path: str,
    parse: "Callable[[bytes], tuple[T, ...]]",
    change: "Callable[[tuple[T, ...], YamlEditor], tuple[T, ...]]",
    template: bytes,
) -> tuple[T, ...]:
    """Change the list in a file as ``change(entries, text)`` does; return the entries after it.

    ``change`` edits the text and returns the entries that are then expected. A file that is missing
    or empty begins as the ``template``. Raises ``Conflict`` as ``edit_yaml_file`` does,
    ``BadRequest`` when the file cannot hold what it is given, such as too large a number, or would
    be too long, and what ``change`` raises: then the file stays as it was. Blocking.
    """
    document.make_folder(path.rpartition("/")[0])
    try:
        found = document.read_document(path, yaml_reader.MAX_FILE_SIZE)
        data = found.data if found and found.data.strip() else template
        before = parse(data)
    except ConfigError as error:
        what = f"{path} has mistakes; correct them, then try again"
        raise Conflict(what, error.message) from error
    text = YamlEditor(path, data.decode())
    expected = change(before, text)
    edited = text.content.encode()
    try:
        after = parse(edited)
    except ConfigError as error:
        raise BadRequest(f"{path} would not be valid with this change", error.message) from error
    if after != expected:
        raise Conflict(yaml_reader.explain_not_editable(path))
    document.replace_document(path, edited, expected=found.stamp if found else None)
    return after


class YamlEditor:
    """The content of a file that is being edited. Each edit parses it to find its place."""

    def __init__(self, where: str, content: str) -> None:
        self.content = content
        self._where = where
        self._break = "\r\n" if "\r\n" in content else "\n"

    def set(self, path: YamlPath, value: object) -> None:
        """Set the value of the entry at ``path``; it and the maps above it may be missing."""
        holder = self._find_map(path[:-1])
        if holder is None and len(path) > 1:
            self.set(path[:-1], {path[-1]: value})
        elif holder and (found := _find_entry(holder, path[-1])):
            self._replace_value(*found, _render_value(value))
        else:
            self._add_entry(holder, path, _render_value(value))

    def delete(self, path: YamlPath) -> None:
        """Remove an entry with its lines; the comments above it stay."""
        holder = self._find_map(path[:-1])
        found = _find_entry(holder, path[-1]) if holder else None
        if holder is None or found is None:
            return
        key, value = found
        if holder.flow_style:
            others = [pair for pair in holder.value if pair[0] is not key]
            text = ", ".join(
                self._slice(one.start_mark.index, _find_end(self.content, two))
                for one, two in others
            )
            self._replace(holder.start_mark.index, holder.end_mark.index, f"{{{text}}}")
        elif len(path) > 1 and len(holder.value) == 1:
            self._replace(holder.start_mark.index, _find_end(self.content, value), "{}")
        else:
            self._replace(
                _find_line_start(self.content, key.start_mark.index),
                _find_line_end(self.content, _find_end(self.content, value)),
                "",
            )

    def prune_empty(self, path: YamlPath) -> None:
        """Remove the map at ``path`` if it is empty, and those above it that then are.

        A map with a comment on its lines stays.
        """
        holder = self._find_map(path[:-1]) if path else None
        found = _find_entry(holder, path[-1]) if holder else None
        if found and isinstance(found[1], MappingNode) and not found[1].value:
            key, value = found
            if "#" not in self._slice(
                key.start_mark.index, _find_line_end(self.content, _find_end(self.content, value))
            ):
                self.delete(path)
                self.prune_empty(path[:-1])

    def append_item(self, path: YamlPath, entry: Mapping[str, object]) -> None:
        """Append an item, a map, to the list at ``path``, which may be missing."""
        self.append_items(path, (entry,))

    def append_items(self, path: YamlPath, entries: Sequence[Mapping[str, object]]) -> None:
        """Append items, at least one, to the list at ``path``; the content is parsed once."""
        holder = self._find_map(path[:-1])
        pair = _find_entry(holder, path[-1]) if holder else None
        if holder is None or pair is None:
            self._add_entry(holder, path, "[]")
            self.append_items(path, entries)
            return
        key, items = pair
        inline = ", ".join(map(_render_value, entries))
        if isinstance(items, SequenceNode) and items.value:
            end = _find_end(self.content, items.value[-1])
            if items.flow_style:
                self._replace(end, end, f", {inline}")
            else:
                self._insert_items(
                    entries, _find_line_end(self.content, end), items.start_mark.column
                )
        elif not (isinstance(items, SequenceNode) or _is_nothing(items)):
            raise Conflict(yaml_reader.explain_not_editable(self._where))
        elif holder.flow_style:
            self._replace_value(key, items, f"[{inline}]")
        else:
            self._replace(key.end_mark.index + 1, _find_end(self.content, items), "")
            self._insert_items(
                entries, _find_line_end(self.content, key.end_mark.index), key.start_mark.column + 2
            )

    def insert_item(self, path: YamlPath, index: int, entry: Mapping[str, object]) -> None:
        """Insert an item, a map, before the item ``index`` of the list at ``path``.

        It stands above the comments right above that item; behind the last one it is appended.
        """
        holder = self._find_map(path[:-1])
        key, items = (_find_entry(holder, path[-1]) if holder else None) or (None, None)
        if key is None or not isinstance(items, SequenceNode) or index >= len(items.value):
            self.append_item(path, entry)
        elif items.flow_style:
            place = items.value[index].start_mark.index
            self._replace(place, place, f"{_render_value(entry)}, ")
        else:
            place = self._find_item_start(key, items, index)
            self._insert_items((entry,), place, items.start_mark.column)

    def update_item(self, path: YamlPath, index: int, values: Mapping[str, object]) -> None:
        """Set values of the item, a map, of the list at ``path``; those it has stay as typed."""
        for name, value in values.items():
            item = self._find_map((*path, index))
            found = _find_entry(item, name) if item else None
            if not (found and isinstance(found[1], ScalarNode) and found[1].value == value):
                self.set((*path, index, name), value)

    def remove_item(self, path: YamlPath, index: int) -> None:
        """Remove an item of the list at ``path``, with the comments right above it.

        A comment that a blank line parts from it (the heading of a section), or that is indented
        like what stands in the item before, stays.
        """
        self.remove_items(path, (index,))

    def remove_items(self, path: YamlPath, indexes: Collection[int]) -> None:
        """Remove items as ``remove_item`` does; the content is parsed once."""
        holder = self._find_map(path[:-1])
        pair = _find_entry(holder, path[-1]) if holder else None
        key, items = pair or (None, None)
        if key is None or not isinstance(items, SequenceNode):
            raise Conflict(yaml_reader.explain_not_editable(self._where))
        if items.flow_style:
            others = [one for number, one in enumerate(items.value) if number not in indexes]
            text = ", ".join(
                self._slice(one.start_mark.index, _find_end(self.content, one)) for one in others
            )
            self._replace(items.start_mark.index, items.end_mark.index, f"[{text}]")
            return
        for index in sorted(indexes, reverse=True):  # so that the marks before it stay right
            end = _find_line_end(self.content, _find_end(self.content, items.value[index]))
            self._replace(self._find_item_start(key, items, index), end, "")
        if len(items.value) == len(indexes):
            self._replace(key.end_mark.index + 1, key.end_mark.index + 1, " []")

    def reorder(self, path: YamlPath, names: Iterable[str]) -> None:
        """Put the entries of the map at ``path`` into this order, each with its comments."""
        holder = self._find_map(path)
        wanted = list(names)
        if holder is None or [key.value for key, _ in holder.value] == wanted:
            return
        pieces: dict[str, str] = {}
        begin = first = self._start_of_entry(holder)
        for key, value in holder.value:
            end = (
                _find_end(self.content, value)
                if holder.flow_style
                else _find_line_end(self.content, _find_end(self.content, value))
            )
            start = key.start_mark.index if holder.flow_style else begin
            pieces[key.value] = self._slice(start, end)
            begin = end
        if holder.flow_style:
            text = ", ".join(pieces[name] for name in wanted)
            self._replace(holder.start_mark.index, holder.end_mark.index, f"{{{text}}}")
        else:
            lines = [
                piece.rstrip("\r\n") + self._break for piece in map(pieces.get, wanted) if piece
            ]
            self._replace(first, begin, "".join(lines))

    def _find_map(self, path: YamlPath) -> MappingNode | None:
        """Return the map at a path; None if there is none yet. ``Conflict`` for anything else."""
        node: Node | None = yaml.compose(self.content, Loader=_LOADER)
        for step in path:
            if isinstance(step, int):
                node = node.value[step] if isinstance(node, SequenceNode) else None
                continue
            found = _find_entry(node, step) if isinstance(node, MappingNode) else None
            node = found[1] if found else None
        if node is None or _is_nothing(node):
            return None
        if not isinstance(node, MappingNode):
            raise Conflict(yaml_reader.explain_not_editable(self._where))
        return node

    def _replace_value(self, key: Node, value: Node, text: str) -> None:
        begin, end = value.start_mark.index, _find_end(self.content, value)
        if begin == key.end_mark.index + 1 or value.start_mark.column <= key.start_mark.column:
            text = f" {text}"  # right behind the colon, or in the key's own column
        self._replace(begin, end, text)

    def _add_entry(self, holder: MappingNode | None, path: YamlPath, text: str) -> None:
        line = f"{_render_name(str(path[-1]))}: {text}"
        if holder is None:
            self._append_line(line, 0)
        elif holder.flow_style:
            place = (
                _find_end(self.content, holder.value[-1][1])
                if holder.value
                else holder.start_mark.index + 1
            )
            self._replace(place, place, f", {line}" if holder.value else line)
        elif len(path) == 1:
            self._append_line(line, holder.start_mark.column)
        else:
            place = _find_line_end(self.content, _find_end(self.content, holder.value[-1][1]))
            indent = " " * holder.start_mark.column
            self._replace(
                place, place, self._get_leading_newline(place) + indent + line + self._break
            )

    def _append_line(self, line: str, indent: int) -> None:
        """Add a line of the outermost map: below where it is commented out, or at the end."""
        name = re.escape(line.partition(":")[0])
        shown = list(re.finditer(rf"(?m)^# ?{name}:.*$", self.content))
        place = _find_document_end(self.content)
        if shown:
            place = _find_line_end(self.content, shown[-1].end())
        self._replace(
            place, place, self._get_leading_newline(place) + " " * indent + line + self._break
        )

    def _insert_items(
        self, entries: Iterable[Mapping[str, object]], place: int, indent: int
    ) -> None:
        """Insert the lines of new items of a block list."""
        lines = (" " * indent + line + self._break for line in _render_items(entries))
        self._replace(place, place, self._get_leading_newline(place) + "".join(lines))

    def _find_item_start(self, key: Node, items: SequenceNode, index: int) -> int:
        """Return the offset of an item of the block list below ``key``, with its comments."""
        item = items.value[index]
        begin = _find_line_start(self.content, item.start_mark.index)
        if self._slice(begin, item.start_mark.index).strip() != "-":
            raise Conflict(yaml_reader.explain_not_editable(self._where))
        above = _find_end(self.content, items.value[index - 1]) if index else key.end_mark.index
        return _find_start_of_item(self.content, begin, _find_line_end(self.content, above))

    def _get_leading_newline(self, place: int) -> str:
        """Return the newline that is missing for a new line to begin there, if it is."""
        return self._break if place and self.content[place - 1] != "\n" else ""

    def _start_of_entry(self, holder: Node) -> int:
        """Return the offset of its first entry's line, or of the comments above that."""
        place = _find_line_start(self.content, holder.start_mark.index)
        while place and self._slice(
            _find_line_start(self.content, place - 1), place
        ).lstrip().startswith("#"):
            place = _find_line_start(self.content, place - 1)
        return place

    def _slice(self, begin: int, end: int) -> str:
        return self.content[begin:end]

    def _replace(self, begin: int, end: int, text: str) -> None:
        self.content = self.content[:begin] + text + self.content[end:]


def _find_end(content: str, node: Node) -> int:
    """Return the end of a value: a block's end mark is behind the comments below it."""
    if isinstance(node, MappingNode | SequenceNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _find_end(content, last[1] if isinstance(node, MappingNode) else last)
    end: int = node.end_mark.index
    if isinstance(node, ScalarNode) and node.style in ("|", ">"):
        return len(content[:end].rstrip("\r\n"))
    return end


def _find_document_end(content: str) -> int:
    """Return the offset of the line ``...`` that ends the document, or of the content's end."""
    found = _DOCUMENT_END.search(content)
    return found.start() if found else len(content)


def _find_line_start(content: str, place: int) -> int:
    return content.rfind("\n", 0, place) + 1


def _find_line_end(content: str, place: int) -> int:
    """Return the offset of the line after the one at ``place``."""
    found = content.find("\n", place)
    return found + 1 if found >= 0 else len(content)


def _find_start_of_item(content: str, begin: int, least: int) -> int:
    """Return the offset of the item whose dash is in the line at ``begin``.

    That is at the comments right above it, or at the blank lines between these and the item
    before.
    """
    dash = content.index("-", begin) - begin
    while begin > least:
        above = content.rfind("\n", 0, begin - 1) + 1
        comment = content[above:begin]
        if not comment.lstrip().startswith("#") or comment.index("#") > dash:
            break
        begin = above
    return begin if content[least:begin].strip() else least


def _find_entry(node: MappingNode, name: str | int) -> tuple[Node, Node] | None:
    return next((pair for pair in node.value if pair[0].value == name), None)


def _is_nothing(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value in ("", "~", "null")


def _get_mode(path: str) -> int:
    with document.translate_os_errors(path, "read"):
        return stat.S_IMODE(os.stat(path, follow_symlinks=False).st_mode)


def _render_items(entries: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """Yield the lines of the items of a block list, without indentation and line ends."""
    for entry in entries:
        for number, (name, value) in enumerate(entry.items()):
            yield f"{'  ' if number else '- '}{_render_name(name)}: {_render_value(value)}"


def _render_value(value: object, depth: int = 0) -> str:
    """Return a value in one line of YAML. ``BadRequest`` when it nests deeper than any file may."""
    if depth > yaml_reader.MAX_DEPTH:
        raise BadRequest(f"nests deeper than {yaml_reader.MAX_DEPTH} levels")
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float() | Decimal():
            return str(value).removesuffix(".0")
        case str():
            return _quote(value)
        case Mapping():
            text = ", ".join(
                f"{_render_name(str(name))}: {_render_value(one, depth + 1)}"
                for name, one in value.items()
            )
            return f"{{{text}}}"
        case list() | tuple():
            return f"[{', '.join(_render_value(one, depth + 1) for one in value)}]"
    raise TypeError(f"{type(value).__name__} has no form in a file")


def _quote(text: str) -> str:
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08X}"


def _render_name(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else _quote(text)
