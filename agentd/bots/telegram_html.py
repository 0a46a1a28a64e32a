"""Markdown, as models write it, in the HTML that Telegram shows. Pure.

A text becomes runs of characters, each with the styles that it stands in, from the outermost on;
the runs are written out in parts of at most 4096 UTF-16 units, tags included. A part closes what
it opens, whatever was cut: no tag, entity, code fence or character is ever half.
"""

import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import NamedTuple, TypeAlias

LIMIT = 4096
"""The longest message, in UTF-16 units."""
LONGEST_LINK = 1000
"""A longer address is shown as text: it must not fill a part."""
LONGEST_TEXT = 40_000
"""Characters of a text that are sent."""
CUT = "\n… the rest is in the chat."

Style: TypeAlias = str
"""An opening tag without its brackets: ``b``, ``a href="…"``."""


class Run(NamedTuple):
    """Characters in the same styles, the outermost first."""

    text: str
    styles: tuple[Style, ...] = ()


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*+([^\s`]*+)[^`]*")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*)")
_BULLET = re.compile(r"([ \t]*)[-*+][ \t]+(.*)")
_QUOTE = re.compile(r" {0,3}> ?(.*)")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,40}")
_INLINE = re.compile(
    r"\\(?P<escaped>[\\`*_~\[\]()#+\-.!>|{}])"
    r"|(?P<tick>`{1,3}+)(?P<code>[^`]|[^`].{0,500}?[^`])(?P=tick)(?!`)"
    r"|\[(?P<label>[^\[\]\n]{1,500})\]\((?P<link>https?://[^\s()<>\"]{1,1000}+)\)"
    r"|\*\*(?P<bold>(?!\s)[^\n]{1,500}?(?<!\s))\*\*"
    r"|(?<!\w)__(?P<bold2>(?!\s)[^\n]{1,500}?(?<!\s))__(?!\w)"
    r"|~~(?P<struck>(?!\s)[^\n]{1,500}?(?<!\s))~~"
    r"|(?<![\w*])\*(?P<italic>(?![\s*])[^*\n]{1,500}?(?<!\s))\*(?![\w*])"
    r"|(?<!\w)_(?P<italic2>(?![\s_])[^_\n]{1,500}?(?<!\s))_(?!\w)"
)
"""The lengths are bounded so that no line, however odd, takes long."""
_STYLE_OF = {"bold": "b", "bold2": "b", "struck": "s", "italic": "i", "italic2": "i"}


def render_parts(markdown: str) -> list[str]:
    """Render Markdown as messages to be sent in order; none for invisible text."""
    writer = _Writer()
    for block in _iter_blocks(_clean(markdown)):
        writer.write(block)
    return writer.finish()


def split_plain(text: str) -> list[str]:
    """Split the text into messages without any style."""
    writer = _Writer(escaping=False)
    writer.write([Run(_clean(text))])
    return writer.finish()


def count_units(text: str) -> int:
    """Return the length as Telegram counts it, in UTF-16 units."""
    return len(text) + sum(character > "\uffff" for character in text)


def _clean(text: str) -> str:
    """Shorten the text; remove control characters and lone surrogates."""
    text = text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + CUT
    return re.sub("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", "", text.replace("\r\n", "\n"))


def _iter_blocks(markdown: str) -> Iterator[list[Run]]:
    """Yield each line, code block or quote with its line end."""
    lines = iter(markdown.split("\n"))
    for line in lines:
        if fence := _FENCE.fullmatch(line):
            yield _parse_fence(fence, lines)
        elif heading := _HEADING.fullmatch(line):
            yield [*_parse_inline(heading[1].rstrip("# \t"), ("b",)), Run("\n")]
        elif quote := _QUOTE.fullmatch(line):
            yield [*_parse_inline(quote[1], ("blockquote",)), Run("\n")]
        elif bullet := _BULLET.fullmatch(line):
            yield [Run(f"{bullet[1]}• "), *_parse_inline(bullet[2], ()), Run("\n")]
        else:
            yield [*_parse_inline(line, ()), Run("\n")]


def _parse_fence(opening: re.Match[str], lines: Iterator[str]) -> list[Run]:
    """Parse a block of code up to its closing fence, or the end of the text."""
    mark = opening[1]
    inside = []
    for line in lines:
        stripped = line.strip()
        if stripped.startswith(mark) and not stripped.strip(mark[0]):
            break
        inside.append(line)
    styles: tuple[Style, ...] = ("pre",)
    if _LANGUAGE.fullmatch(opening[2]):
        styles = ("pre", f'code class="language-{escape(opening[2])}"')
    return [Run("\n".join(inside), styles), Run("\n")]


def _parse_inline(text: str, around: tuple[Style, ...]) -> Iterator[Run]:
    """Parse one line; code is never nested, as Telegram does not allow it."""
    begin = 0
    for found in _INLINE.finditer(text):
        if found.start() > begin:
            yield Run(text[begin : found.start()], around)
        begin = found.end()
        yield from _render_match(found, around)
    if begin < len(text):
        yield Run(text[begin:], around)


def _render_match(found: re.Match[str], around: tuple[Style, ...]) -> Iterator[Run]:
    kind = found.lastgroup or ""
    if kind == "escaped":
        yield Run(found[kind], around)
    elif kind == "code":
        yield Run(found[kind].strip() or found[kind], (*_keep_quote(around), "code"))
    elif kind == "link":
        href = f'a href="{escape(found["link"])}"'
        if count_units(href) > LONGEST_LINK or any(style.startswith("a ") for style in around):
            yield Run(found[0], around)
        else:
            yield from _parse_inline(found["label"], (*around, href))
    elif _STYLE_OF[kind] in around:
        yield from _parse_inline(found[kind], around)
    else:
        yield from _parse_inline(found[kind], (*around, _STYLE_OF[kind]))


def _keep_quote(around: tuple[Style, ...]) -> tuple[Style, ...]:
    return around[:1] if around[:1] == ("blockquote",) else ()


class _Writer:
    """Writes runs into parts within the limit."""

    def __init__(self, *, escaping: bool = True) -> None:
        self._escaping = escaping
        self._parts: list[str] = []
        self._seen = False
        """True if the current part has visible text."""
        self._out: list[str] = []
        self._size = 0
        self._open: tuple[Style, ...] = ()

    def write(self, block: list[Run]) -> None:
        """Write a block; avoid splitting it unless the part would stay half empty."""
        size = sum(self._measure(run) for run in block)
        if self._size > LIMIT // 2 and self._size + size > LIMIT and size <= LIMIT:
            self._end_part()
        for run in block:
            self._write_run(run)

    def finish(self) -> list[str]:
        """Return all parts."""
        self._end_part()
        return self._parts

    def _write_run(self, run: Run) -> None:
        self._open_styles(run.styles)
        text = run.text
        while text:
            room = LIMIT - self._size - _measure_closing(run.styles)
            size = self._count_fitting(text, room)
            if size < len(text):
                size = _find_break(text, size) or (0 if self._seen else size)
            self._append(text[:size])
            text = text[size:]
            if text:
                self._end_part()
                self._open_styles(run.styles)

    def _count_fitting(self, text: str, room: int) -> int:
        """Count the characters that fit into ``room`` units."""
        for number, character in enumerate(text):
            room -= count_units(self._escape(character))
            if room < 0:
                return number
        return len(text)

    def _append(self, text: str) -> None:
        written = self._escape(text)
        self._out.append(written)
        self._size += count_units(written)
        self._seen = self._seen or bool(text.strip())

    def _open_styles(self, styles: tuple[Style, ...]) -> None:
        """Close and open tags until exactly these are open; begin a new part if they do not fit."""
        common = 0
        while common < min(len(styles), len(self._open)) and styles[common] == self._open[common]:
            common += 1
        tags = [f"</{_get_tag(style)}>" for style in reversed(self._open[common:])]
        tags += [f"<{style}>" for style in styles[common:]]
        needed = count_units("".join(tags)) + _measure_closing(styles) + 12  # and one character
        if self._out and self._size + needed > LIMIT:
            self._end_part()
            tags = [f"<{style}>" for style in styles]
        self._out += tags
        self._size += count_units("".join(tags))
        self._open = styles

    def _end_part(self) -> None:
        """Finish the current part."""
        if self._seen:
            closing = "".join(f"</{_get_tag(style)}>" for style in reversed(self._open))
            self._parts.append(("".join(self._out) + closing).strip("\n"))
        self._out, self._size, self._open, self._seen = [], 0, (), False

    def _escape(self, text: str) -> str:
        return escape(text, quote=False) if self._escaping else text

    def _measure(self, run: Run) -> int:
        tags = sum(count_units(style) + 2 for style in run.styles) + _measure_closing(run.styles)
        return count_units(self._escape(run.text)) + tags


def _find_break(text: str, size: int) -> int:
    """Find a line or word end in the last third before ``size``; 0 without one."""
    for mark in ("\n", " "):
        place = text.rfind(mark, size - size // 3, size)
        if place >= 0:
            return place + 1
    return 0


def _get_tag(style: Style) -> str:
    return style.partition(" ")[0]


def _measure_closing(styles: Iterable[Style]) -> int:
    return sum(len(_get_tag(style)) + 3 for style in styles)
