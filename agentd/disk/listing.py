"""A long list in a hand-written file, taken apart into the text of each entry.

Thousands of entries are costly to parse; the text of one is not. So a file is read entry by entry,
what was parsed before is remembered by its text, and one mistake takes down one entry only.

The list must stand as people write it: ``name:`` in the first column, then one entry below the
other, the dash of each in the same column. What is an entry here is one to every reader of YAML: an
entry that would reach over the dash of the next (a quote, a bracket) is broken by itself.
"""

import re
from typing import NamedTuple

_BLANK = re.compile(r"[ \t]*\r?\n?")
_BUSY = re.compile(r"(?m)^(?![ \t]*(?:#|\r?$))")
"""Where a line begins that is neither blank nor a comment."""
_DASH = re.compile(r"(?m)( *)-(?: |\r?$)")


class Entry(NamedTuple):
    """One entry of the list."""

    line: int
    """Of its dash, counted from 1."""
    above: str
    """The lines of comment right above it."""
    text: str
    """From the line with its dash on."""
    dash: int
    """The column of the dash."""

    @property
    def value(self) -> str:
        """The entry as a text of its own: a blank stands for the dash."""
        return f"{' ' * (self.dash + 1)}{self.text[self.dash + 1 :]}"

    def with_value(self, value: str) -> "Entry":
        """The entry with what was made of its ``value``. Raises ``ValueError`` when it lost it."""
        if value[: self.dash + 1].strip(" "):
            raise ValueError("the first line is not where it was")
        return self._replace(text=f"{' ' * self.dash}-{value[self.dash + 1 :]}")


class Listing(NamedTuple):
    """A file's text: what is above the list, its entries, and what is below."""

    head: str
    entries: tuple[Entry, ...]
    tail: str

    @property
    def frame(self) -> str:
        """The file without the entries; every line is where it was."""
        lines = sum(one.above.count("\n") + one.text.count("\n") for one in self.entries)
        return self.head + "\n" * lines + self.tail

    @property
    def content(self) -> str:
        """All of it."""
        return self.head + "".join(one.above + one.text for one in self.entries) + self.tail

    def changed(self, number: int, entry: Entry) -> "Listing":
        """With another entry in the place of one."""
        entries = self.entries
        return self._replace(entries=(*entries[:number], entry, *entries[number + 1 :]))

    def without(self, number: int, name: str) -> "Listing":
        """Without an entry and the comments above it; a list of none is told so."""
        left = self._replace(entries=self.entries[:number] + self.entries[number + 1 :])
        if left.entries:
            return left
        opened = re.compile(rf"(?m)^({re.escape(name)}:)(?=[ \t]*(?:#.*)?\r?$)")
        return left._replace(head=opened.sub(r"\1 []", self.head, count=1))

    def with_one_more(self, lines: list[str], name: str) -> "Listing":
        """With a new entry at the end, of these lines; the list may be empty or missing."""
        end = "\r\n" if "\r\n" in self.head + self.tail else "\n"
        dash = self.entries[-1].dash if self.entries else 0
        text = "".join(
            f"{' ' * dash}{'  ' if number else '- '}{line}{end}"
            for number, line in enumerate(lines)
        )
        return self._opened(name, end)._with(Entry(0, "", text, dash), end)

    def _with(self, entry: Entry, end: str) -> "Listing":
        entries = self.entries
        if entries and not entries[-1].text.endswith("\n"):
            entries = (*entries[:-1], entries[-1]._replace(text=entries[-1].text + end))
        return self._replace(entries=(*entries, entry))

    def _opened(self, name: str, end: str) -> "Listing":
        """With ``name:`` as the last line of the head."""
        if self.entries:
            return self
        text = self.head + self.tail
        empty = re.compile(rf"(?m)^({re.escape(name)}:)[ \t]*(?:\[[ \t]*\])?([ \t]*(?:#.*)?)\r?$")
        found = empty.search(text)
        if found is None:
            apart = "" if not text or text.endswith("\n") else end
            return Listing(f"{text}{apart}{name}:{end}", (), "")
        after = text.find("\n", found.end()) + 1 or len(text)
        head = f"{text[: found.start()]}{found[1]}{found[2]}{end}"
        return Listing(head, (), text[after:])


def taken_apart(content: str, name: str) -> Listing:
    """The list ``name`` of a file; without entries when it does not stand as told above.

    Ten thousands of lines are looked at by few patterns, not one by one.
    """
    opened = re.search(rf"(?m)^{re.escape(name)}:[ \t]*(?:#.*)?\r?$", content)
    begin = content.find("\n", opened.end()) + 1 if opened else 0
    first = _BUSY.search(content, begin) if begin else None
    found = _DASH.match(content, first.start()) if first else None
    if not first or not found:
        return Listing(content, (), "")
    dash = len(found[1])
    end = _end(content, first.start(), dash)
    dashes = re.compile(rf"(?m)\n {{{dash}}}-(?: |\r?$)")  # a pattern is sought by its first letter
    starts = [one.start() + 1 for one in dashes.finditer(content, first.start() - 1, end)]
    begins = [_above(content, at, begin, dash) for at in starts]
    entries, line, seen = [], 1, 0
    for at, above, after in zip(starts, begins, [*begins[1:], end], strict=True):
        line += content.count("\n", seen, at)
        seen = at
        entries.append(Entry(line, content[above:at], content[at:after], dash))
    return Listing(content[: begins[0]], tuple(entries), content[end:])


def _end(content: str, first: int, dash: int) -> int:
    """Where the list ends: before a line less indented than its entries, and what is outside."""
    ends = re.compile(rf"(?m)\n(?![ \t]*(?:#|\r?$)| {{{dash + 1}}}| {{{dash}}}-(?: |\r?$))").search(
        content, first
    )
    end = ends.end() if ends else len(content)
    while _is_outside(content[_line_before(content, end) : end], dash):
        end = _line_before(content, end)
    return end


def _above(content: str, at: int, least: int, dash: int) -> int:
    """Where the comments right above a line begin."""
    while at > least and _is_comment(content[(line := _line_before(content, at)) : at], dash):
        at = line
    return at


def _line_before(content: str, at: int) -> int:
    """Where the line begins that ends there."""
    return content.rfind("\n", 0, at - 1) + 1


def _is_outside(line: str, dash: int) -> bool:
    """Blank, or a comment that no value can hold."""
    return bool(_BLANK.fullmatch(line)) or _is_comment(line, dash)


def _is_comment(line: str, dash: int) -> bool:
    """Whether it is a comment, and not indented so far that it may be part of a text."""
    bare = line.lstrip(" ")
    return bare.startswith("#") and len(line) - len(bare) <= dash
