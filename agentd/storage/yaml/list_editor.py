"""A long list in a hand-written file, split into the text of each entry.

Thousands of entries are costly to parse; the text of one is not. So a file is read entry by entry,
what was parsed before is cached by its text, and an error invalidates one entry only.

The list must stand as people write it: ``name:`` in the first column, then one entry below the
other, the dash of each in the same column. What is an entry here is one to every reader of YAML: an
entry that would reach over the dash of the next (a quote, a bracket) is broken by itself.
"""

import re
from collections.abc import Collection
from typing import NamedTuple

_BLANK = re.compile(r"[ \t]*\r?\n?")
_CONTENT = re.compile(r"(?m)^(?![ \t]*(?:#|\r?$))")
"""The start of a line that is neither blank nor a comment."""
_DASH = re.compile(r"(?m)( *)-(?: |\r?$)")


class YamlListItem(NamedTuple):
    """An entry of the list."""

    line: int
    """The line of its dash, counted from 1."""
    above: str
    """The lines of comment right above it."""
    text: str
    """The text from the line with its dash on."""
    dash: int
    """The column of the dash."""

    @property
    def value(self) -> str:
        """The entry as a separate text: a blank replaces the dash."""
        return f"{' ' * (self.dash + 1)}{self.text[self.dash + 1 :]}"

    def with_value(self, value: str) -> "YamlListItem":
        """Return the entry with what was made of its ``value``.

        Raises ``ValueError`` when it lost it.
        """
        if value[: self.dash + 1].strip(" "):
            raise ValueError("the first line is not where it was")
        return self._replace(text=f"{' ' * self.dash}-{value[self.dash + 1 :]}")


class YamlList(NamedTuple):
    """A file's text: what is above the list, its entries, and what is below."""

    head: str
    entries: tuple[YamlListItem, ...]
    tail: str

    @property
    def frame(self) -> str:
        """The file without the entries; every line is where it was."""
        lines = sum(one.above.count("\n") + one.text.count("\n") for one in self.entries)
        return self.head + "\n" * lines + self.tail

    @property
    def content(self) -> str:
        """The text of the whole file."""
        return self.head + "".join(one.above + one.text for one in self.entries) + self.tail

    def with_item(self, number: int, entry: YamlListItem) -> "YamlList":
        """Return the list with one entry replaced."""
        entries = self.entries
        return self._replace(entries=(*entries[:number], entry, *entries[number + 1 :]))

    def without_items(self, numbers: Collection[int], name: str) -> "YamlList":
        """Return the list without some entries and the comments above them; ``[]`` for none."""
        entries = (one for number, one in enumerate(self.entries) if number not in numbers)
        left = self._replace(entries=tuple(entries))
        if left.entries:
            return left
        opened = re.compile(rf"(?m)^({re.escape(name)}:)(?=[ \t]*(?:#.*)?\r?$)")
        return left._replace(head=opened.sub(r"\1 []", self.head, count=1))

    def with_appended(self, lines: list[str], name: str) -> "YamlList":
        """Return the list with a new entry of these lines; it may be empty or missing."""
        end = "\r\n" if "\r\n" in self.head + self.tail else "\n"
        dash = self.entries[-1].dash if self.entries else 0
        text = "".join(
            f"{' ' * dash}{'  ' if number else '- '}{line}{end}"
            for number, line in enumerate(lines)
        )
        return self._add_section(name, end)._append_item(YamlListItem(0, "", text, dash), end)

    def _append_item(self, entry: YamlListItem, end: str) -> "YamlList":
        entries = self.entries
        if entries and not entries[-1].text.endswith("\n"):
            entries = (*entries[:-1], entries[-1]._replace(text=entries[-1].text + end))
        return self._replace(entries=(*entries, entry))

    def _add_section(self, name: str, end: str) -> "YamlList":
        """Return the list with ``name:`` as the last line of the head."""
        if self.entries:
            return self
        text = self.head + self.tail
        empty = re.compile(rf"(?m)^({re.escape(name)}:)[ \t]*(?:\[[ \t]*\])?([ \t]*(?:#.*)?)\r?$")
        found = empty.search(text)
        if found is None:
            apart = "" if not text or text.endswith("\n") else end
            return YamlList(f"{text}{apart}{name}:{end}", (), "")
        after = text.find("\n", found.end()) + 1 or len(text)
        head = f"{text[: found.start()]}{found[1]}{found[2]}{end}"
        return YamlList(head, (), text[after:])


def split_list(content: str, name: str) -> YamlList:
    """Return the list ``name`` of a file; without entries when it is written in another way.

    A few patterns search tens of thousands of lines, which are not read one by one.
    """
    opened = re.search(rf"(?m)^{re.escape(name)}:[ \t]*(?:#.*)?\r?$", content)
    begin = content.find("\n", opened.end()) + 1 if opened else 0
    first = _CONTENT.search(content, begin) if begin else None
    found = _DASH.match(content, first.start()) if first else None
    if not first or not found:
        return YamlList(content, (), "")
    dash = len(found[1])
    end = _find_list_end(content, first.start(), dash)
    dashes = re.compile(rf"(?m)\n {{{dash}}}-(?: |\r?$)")  # a pattern is sought by its first letter
    starts = [one.start() + 1 for one in dashes.finditer(content, first.start() - 1, end)]
    begins = [_find_comments_start(content, at, begin, dash) for at in starts]
    entries, line, seen = [], 1, 0
    for at, above, after in zip(starts, begins, [*begins[1:], end], strict=True):
        line += content.count("\n", seen, at)
        seen = at
        entries.append(YamlListItem(line, content[above:at], content[at:after], dash))
    return YamlList(content[: begins[0]], tuple(entries), content[end:])


def _find_list_end(content: str, first: int, dash: int) -> int:
    """Return the end of the list: before a less indented line and the comments above that."""
    ends = re.compile(rf"(?m)\n(?![ \t]*(?:#|\r?$)| {{{dash + 1}}}| {{{dash}}}-(?: |\r?$))").search(
        content, first
    )
    end = ends.end() if ends else len(content)
    while _is_outside(content[_find_previous_line(content, end) : end], dash):
        end = _find_previous_line(content, end)
    return end


def _find_comments_start(content: str, at: int, least: int, dash: int) -> int:
    """Return the offset of the comments right above a line."""
    while at > least and _is_comment(
        content[(line := _find_previous_line(content, at)) : at], dash
    ):
        at = line
    return at


def _find_previous_line(content: str, at: int) -> int:
    """Return the offset of the line that ends there."""
    return content.rfind("\n", 0, at - 1) + 1


def _is_outside(line: str, dash: int) -> bool:
    """Return whether it is blank, or a comment that no value can hold."""
    return bool(_BLANK.fullmatch(line)) or _is_comment(line, dash)


def _is_comment(line: str, dash: int) -> bool:
    """Return whether it is a comment, and not indented so far that it may be part of a text."""
    bare = line.lstrip(" ")
    return bare.startswith("#") and len(line) - len(bare) <= dash
