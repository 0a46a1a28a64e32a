"""Renders a web page as text: links as ``text (address)``, without scripts and styles.

Pages may be hostile, and ``html.parser`` needs quadratic time for tags, quotes or comments without
an end. Here each part is read once; one without an end takes the rest of the page.
"""

import html
import re
from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct

_TAG = re.compile(r"</?([A-Za-z][^\s/>]{0,40})")
_TAG_SIGN = re.compile(r">|=\s*([\"'])")
"""The end of a tag, or the beginning of a value in quotes."""
_HREF = re.compile(
    r"(?:^|[\s\"'/])href\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE
)
_MAX_ATTRIBUTES = 4096
"""Characters of a tag in which its address is looked for."""
_RAW_ENDS = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style")
}
"""Where elements end whose content holds no tags."""
_LONG_NUMBER = re.compile("&#[0-9]{8,};?")
"""A character by a number that no character has, and that may be too long for Python."""
_KEPT = str.maketrans(" \t", "\ue000\ue001")
"""Blanks of preformatted text, while those of other text are reduced."""
_RESTORED = str.maketrans("\ue000\ue001", " \t")
_BLANK_LINES = re.compile(r"\n\s*\n\s*\n+")


class _Part(Struct, frozen=True):
    """A text, or a tag."""

    text: str = ""
    tag: str = ""
    attributes: str = ""
    opens: bool = False
    closes: bool = False


def render_html(page: str) -> str:
    """Return the text of a page. Linear in it, but slow for the loop: call it in a thread."""
    writer = _TextWriter()
    for part in _iter_parts(page):
        if part.text:
            writer.add_text(html.unescape(_LONG_NUMBER.sub("\ufffd", part.text)))
        if part.opens:
            writer.open_tag(part.tag, part.attributes)
        if part.closes:
            writer.close_tag(part.tag)
    lines = (" ".join(line.split()) for line in "".join(writer.pieces).split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip().translate(_RESTORED)


def _iter_parts(page: str) -> Iterator[_Part]:
    """Yield texts and tags in their order; comments and declarations are passed over."""
    at = 0
    while at < len(page):
        sign = page.find("<", at)
        if sign < 0:
            yield _Part(page[at:])
            return
        if sign > at:
            yield _Part(page[at:sign])
        tag = _TAG.match(page, sign)
        if tag:
            end = _find_tag_end(page, tag.end())
            part = _make_tag(tag, page[tag.end() : end - 1])
            yield part
            at = _skip_raw_text(page, part, end)
        elif page.startswith(("<!", "<?", "</"), sign):
            closing = "-->" if page.startswith("<!--", sign) else ">"
            found = page.find(closing, sign + 2)
            at = found + len(closing) if found >= 0 else len(page)
        else:
            yield _Part("<")
            at = sign + 1


def _find_tag_end(page: str, at: int) -> int:
    """Return the place after the ``>`` of a tag that is not in quotes, or the page's end."""
    while found := _TAG_SIGN.search(page, at):
        if found[0] == ">":
            return found.end()
        closing = page.find(found[1], found.end())
        if closing < 0:
            break
        at = closing + 1
    return len(page)


def _make_tag(tag: re.Match[str], attributes: str) -> _Part:
    is_end = tag[0].startswith("</")
    return _Part(
        tag=tag[1].lower(),
        attributes=attributes[:_MAX_ATTRIBUTES],
        opens=not is_end,
        closes=is_end or attributes.endswith("/"),
    )


def _skip_raw_text(page: str, part: _Part, at: int) -> int:
    """Return where to go on after a tag: behind the text of a script or a style sheet."""
    ends = _RAW_ENDS.get(part.tag)
    if ends is None or not part.opens or part.closes:
        return at
    found = ends.search(page, at)
    return found.start() if found else len(page)


class _TextWriter:
    """Collects the text of a page."""

    _HIDDEN = frozenset(("script", "style", "noscript", "template", "svg"))
    _HEAD = frozenset(("head", "title", "meta", "link", "base", *_HIDDEN))
    """The tags of a page's head; any other ends it, with ``</head>`` or without."""
    _BLOCKS = frozenset(
        (
            *("p", "div", "br", "li", "tr", "table", "ul", "ol", "section", "article", "header"),
            *("footer", "nav", "pre", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "hr"),
        )
    )
    _HEADINGS: ClassVar = {f"h{level}": "#" * level for level in range(1, 7)}

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._hidden = 0
        self._in_head = False
        self._preformatted = 0
        self._link = ""

    def open_tag(self, tag: str, attributes: str) -> None:
        """Take a tag that opens an element."""
        self._in_head = tag == "head" or (self._in_head and tag in self._HEAD)
        self._preformatted += tag == "pre"
        if tag in self._HIDDEN:
            self._hidden += 1
        if tag in self._BLOCKS:
            self.pieces.append("\n")
        if tag in self._HEADINGS:
            self.pieces.append(f"\n{self._HEADINGS[tag]} ")
        if tag == "li":
            self.pieces.append("- ")
        if tag == "a":
            found = _HREF.search(attributes)
            self._link = html.unescape(found[1] or found[2] or found[3] or "") if found else ""

    def close_tag(self, tag: str) -> None:
        """Take a tag that closes an element."""
        if tag in self._HIDDEN:
            self._hidden = max(self._hidden - 1, 0)
        self._in_head = self._in_head and tag != "head"
        self._preformatted = max(self._preformatted - (tag == "pre"), 0)
        if tag in self._BLOCKS:
            self.pieces.append("\n")
        if tag == "a" and self._link.startswith(("http:", "https:", "/")):
            self.pieces.append(f" ({self._link})")
            self._link = ""

    def add_text(self, text: str) -> None:
        """Take text between tags."""
        if not self._hidden and not self._in_head:
            self.pieces.append(text.translate(_KEPT) if self._preformatted else text)
