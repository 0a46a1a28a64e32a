"""Renders Markdown as cleaned HTML, for pages that show what people and models wrote.

GitHub's dialect, by ``cmarkgfm`` (C, linear in the text). HTML in the text is shown as it is
written and never becomes elements: each ``<`` is replaced before and escaped after, so nothing that
the text holds can open a tag. ``nh3`` then keeps only what this module lists, whatever the parser
may do. Images become links, since a remote image tells its server who reads. Texts that would make
too much HTML are shown plain.
"""

import html
import re

from msgspec import Struct

MAX_RENDERED = 64 * 1024
"""Characters that are rendered; what follows is left out, and ``RenderedMarkdown.cut`` is true."""
MAX_INLINE = 4 * 1024
"""Characters that may be rendered on the event loop, in well under a millisecond."""
_MAX_HTML = 1024 * 1024
"""Characters of HTML; only tables that repeat and the like make more of ``MAX_RENDERED``."""
_MAX_ELEMENTS = 10_000
"""The elements that a phone lays out quickly; only crafted texts within the limit have more."""
_MAX_DEPTH = 100
"""Quotations and lists within each other; browsers and eyes give up before."""

_LESS_THAN = "\ue000"
"""Replaces ``<`` while Markdown is parsed; a private-use character, which texts do not contain."""
_ESCAPED_IN_URL = "%EE%80%80"
_KEPT_LESS_THAN = re.compile(r"<(?!https?://|mailto:|[\w.+-]{1,64}@)", re.IGNORECASE | re.ASCII)
_LINKED_IMAGE = re.compile(
    r'(<a href="[^"]*"(?: title="[^"]*")?>)<img src="([^"]*)" alt="([^"]*)"(?: title="[^"]*")? />'
)
_IMAGE = re.compile(r'<img src="([^"]*)" alt="([^"]*)"(?: title="[^"]*")? />')
_CODE_BLOCK = re.compile(r'<pre lang="([^"]*)"><code>')
_LANGUAGE = re.compile(r"language-[A-Za-z0-9_+#.-]{1,40}")
_OPENED_OR_CLOSED = re.compile(r"<(/?)(?:blockquote|ul|ol)\b")

_LINK = re.compile(r"!?\[([^\]\n]{0,300})\]\([^()\s]{0,600}\)")
_LINE_MARKS = re.compile(
    r"^[ \t]{0,12}(?:(?:`{3,}|~{3,})[^\n`]{0,60}$|#{1,6}[ \t]|>[ \t]?"
    r"|[-*+][ \t](?:\[[ xX]\][ \t])?)",
    re.MULTILINE,
)
_EMPHASIS = re.compile(
    r"`+|~~|(?<![\w*])\*{1,3}(?=[^\s*])|(?<=[^\s*])\*{1,3}(?![\w*])"
    r"|(?<![\w])_{1,3}(?=[^\s_])|(?<=[^\s_])_{1,3}(?!\w)"
)

_TAGS = {
    *("a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr"),
    *("input", "li", "ol", "p", "pre", "strong"),
    *("table", "tbody", "td", "th", "thead", "tr", "ul"),
}
_ATTRIBUTES: dict[str, set[str]] = {
    "*": set(),
    "a": {"href", "title"},
    "code": {"class"},
    "ol": {"start"},
    "td": {"align"},
    "th": {"align"},
    "input": {"checked"},
}
_FIXED_ATTRIBUTES = {"input": {"type": "checkbox", "disabled": ""}}
_SCHEMES = {"http", "https", "mailto"}


class RenderedMarkdown(Struct, frozen=True):
    """Cleaned HTML; ``cut`` when the text was longer than what is rendered."""

    html: str
    cut: bool = False


def render_markdown(text: str, *, keep_breaks: bool = False) -> RenderedMarkdown:
    """Return the HTML of a text; ``keep_breaks`` keeps its line breaks, as in what people type.

    Beyond ``MAX_INLINE`` characters call it in a thread.
    """
    shown = _cut(text)
    return RenderedMarkdown(_render(shown, keep_breaks), len(shown) < len(text))


def strip_markdown(text: str) -> str:
    """Return a short text without the marks of Markdown: one line, for excerpts and notifications.

    It is no parser: what only looks like a mark may go, too.
    """
    shown = _LINK.sub(r"\1", _LINE_MARKS.sub("", text))
    return " ".join(_EMPHASIS.sub("", shown).split())


def _cut(text: str) -> str:
    """Return the whole lines that fit; of a longer line its beginning."""
    if len(text) <= MAX_RENDERED:
        return text
    end = text.rfind("\n", 0, MAX_RENDERED)
    return text[: end if end > 0 else MAX_RENDERED]


def _render(text: str, keep_breaks: bool) -> str:
    import cmarkgfm  # noqa: PLC0415 - both are large; where no browser asks, nothing is rendered
    import nh3  # noqa: PLC0415
    from cmarkgfm.cmark import Options  # noqa: PLC0415

    safe = text.encode("utf-8", "replace").decode().replace(_LESS_THAN, "\ufffd")
    safe = _KEPT_LESS_THAN.sub(_LESS_THAN, safe)
    options = Options.CMARK_OPT_HARDBREAKS if keep_breaks else 0
    made = cmarkgfm.github_flavored_markdown_to_html(safe, options)
    if len(made) > _MAX_HTML or _count_elements(made) > _MAX_ELEMENTS or _is_nested_deeply(made):
        return f"<pre>{html.escape(text)}</pre>"
    made = made.replace(_LESS_THAN, "&lt;").replace(_ESCAPED_IN_URL, "%3C")
    made = _CODE_BLOCK.sub(r'<pre><code class="language-\1">', made)
    made = _LINKED_IMAGE.sub(lambda found: f"{found[1]}{found[3] or found[2]}", made)
    cleaned: str = nh3.clean(
        _IMAGE.sub(lambda found: f'<a href="{found[1]}">{found[2] or found[1]}</a>', made),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        attribute_filter=_filter_attribute,
        set_tag_attribute_values=_FIXED_ATTRIBUTES,
        url_schemes=_SCHEMES,
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
    )
    return cleaned


def _count_elements(made: str) -> int:
    return made.count("<") - made.count("</")


def _is_nested_deeply(made: str) -> bool:
    depth = 0
    for tag in _OPENED_OR_CLOSED.finditer(made):
        depth += -1 if tag[1] else 1
        if depth > _MAX_DEPTH:
            return True
    return False


def _filter_attribute(tag: str, name: str, value: str) -> str | None:
    if (tag, name) == ("code", "class"):
        return value if _LANGUAGE.fullmatch(value) else None
    return value
