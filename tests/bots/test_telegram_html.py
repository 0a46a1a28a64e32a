"""Markdown becomes what Telegram takes: always valid, never too long, nothing lost."""

import re
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.bots.telegram_html import (
    CUT,
    LIMIT,
    LONGEST_TEXT,
    count_units,
    render_parts,
    split_plain,
)
from tests.support.processor import busy_for_less_than

ALLOWED = {"b", "i", "s", "a", "code", "pre", "blockquote"}
MARKS = ["*", "**", "_", "__", "~~", "`", "```", "```py\n", "\n", "> ", "# ", "- ", "[", "](", ")"]
MARKS += ["http://x.y/?a=1&b=2", "<b>", "&amp;", "\\", " ", "a", "🙂", "ä", "\x00", "\ud800", "]]"]
markdown = st.one_of(
    st.text(), st.lists(st.sampled_from(MARKS), max_size=60).map("".join), st.text("`*_\n ab<")
)
long_markdown = st.builds(
    lambda pieces, times: "".join(pieces) * times,
    st.lists(st.sampled_from(MARKS), min_size=1, max_size=12),
    st.integers(1, 700),
)


class Reader(HTMLParser):
    """Reads as strictly as Telegram: known tags, well nested, all closed, code alone."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED, tag
        assert [name for name, _ in attrs] in ([], ["href"] if tag == "a" else ["class"])
        assert not set(self.open) & {"code"}
        if "pre" in self.open:
            assert tag == "code"
            assert self.open[-1] == "pre"
        assert tag not in self.open
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(part: str) -> str:
    """Check that the part is valid, and return its visible text."""
    assert count_units(part) <= LIMIT
    part.encode("utf-8")
    assert not re.search("&(?!lt;|gt;|amp;|quot;|#x27;)", part)
    reader = Reader()
    reader.feed(part)
    reader.close()
    assert not reader.open
    assert reader.text.strip(), "Telegram refuses an empty message"
    return reader.text


@given(markdown)
def test_every_part_is_valid_whatever_the_model_wrote(text: str) -> None:
    for part in render_parts(text):
        read(part)


@given(long_markdown)
def test_long_texts_are_cut_into_valid_parts(text: str) -> None:
    for part in render_parts(text):
        read(part)


@given(st.text("ab <&>\n🙂", max_size=9000))
def test_nothing_is_lost_between_the_parts(text: str) -> None:
    seen = (
        "".join(read(part) for part in render_parts(text))
        if not re.search("^ *>", text, re.M)
        else None
    )
    if seen is not None:
        assert "".join(seen.split()) == "".join(text.split())


@given(st.text(max_size=9000))
def test_plain_parts_hold_the_text_as_it_is(text: str) -> None:
    found = split_plain(text)
    assert all(count_units(part) <= LIMIT and part.strip() for part in found)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a **b** c", "a <b>b</b> c"),
        ("*i* _j_ ~~s~~", "<i>i</i> <i>j</i> <s>s</s>"),
        ("**a *b* c**", "<b>a <i>b</i> c</b>"),
        ("# Head", "<b>Head</b>"),
        ("`x < y`", "<code>x &lt; y</code>"),
        ("**see `x`**", "<b>see </b><code>x</code>"),
        ("- one\n- two", "• one\n• two"),
        ("> said", "<blockquote>said</blockquote>"),
        ("[t](https://x.y/?a=1&b)", '<a href="https://x.y/?a=1&amp;b">t</a>'),
        ("[t](javascript:x)", "[t](javascript:x)"),
        ("```py\na < b\n```", '<pre><code class="language-py">a &lt; b</code></pre>'),
        ("```\na\n\nb\n```\nend", "<pre>a\n\nb</pre>\nend"),
        ("```\nnever closed", "<pre>never closed</pre>"),
        ("snake_case_name and 2*3*4", "snake_case_name and 2*3*4"),
        (r"\*not\*", "*not*"),
        ("<script>&</script>", "&lt;script&gt;&amp;&lt;/script&gt;"),
        ("", None),
        (" \n\t\n", None),
    ],
)
def test_what_models_write_is_shown_as_they_mean_it(written: str, shown: str | None) -> None:
    assert render_parts(written) == ([] if shown is None else [shown])


def test_a_fence_that_fits_into_one_message_is_not_cut() -> None:
    before, code = "word " * 600, "line\n" * 300
    first, second = render_parts(f"{before}\n```\n{code}```")
    assert "<pre>" not in first
    assert second.startswith("<pre>line")
    assert second.endswith("</pre>")


def test_a_fence_that_does_not_fit_is_closed_and_opened_again_at_a_line() -> None:
    found = render_parts("```py\n" + "x = 1\n" * 2000 + "```")
    assert len(found) == 3
    for part in found:
        assert part.startswith('<pre><code class="language-py">x = 1\n')
        assert part.endswith("</code></pre>")
    text = "".join(unescape(re.sub("<[^>]+>", "", part)) + "\n" for part in found)
    assert text.split() == ["x", "=", "1"] * 2000


def test_what_is_too_much_for_a_messenger_is_cut_and_says_so() -> None:
    found = render_parts("word " * 20_000)
    assert len(found) <= LONGEST_TEXT // LIMIT + 2
    assert found[-1].endswith(CUT.strip())


@pytest.mark.parametrize(
    "unit", ["**a ", "`a ", "[a](", "*a _b ", "__a ", "# ", "~~~", "~~a ", "``` "]
)
def test_no_text_takes_long(unit: str) -> None:
    with busy_for_less_than(3):
        render_parts(unit * 20_000)
