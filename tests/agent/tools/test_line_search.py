"""Lines are found by a text or an expression, with lines around them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.tools.line_search import TextSearch
from agentd.agent.tools.model import SearchText
from agentd.core.errors import BadRequest

TEXT = "def boil():\n    return 100\n\ndef cool():\n    return BoilError\n"


def search_lines(text: str, **more) -> list[int]:
    return [hit.line for hit in TextSearch(SearchText(text, **more)).iter_hits("a", TEXT)]


def test_an_expression_is_matched_in_each_line():
    assert search_lines(r"^def \w+\(", regex=True) == [1, 4]
    assert search_lines(r"return\s+\d+$", regex=True) == [2]
    assert search_lines("boil", regex=True) == [1, 5]
    assert search_lines("Boil", regex=True) == [5]
    assert search_lines(r"boil\S", regex=True) == [1, 5]
    assert search_lines("boil", regex=True, whole_word=True) == [1]


def test_a_line_of_windows_ends_before_its_line_end():
    (hit,) = TextSearch(SearchText("1;$", regex=True)).iter_hits("a", "x = 1;\r\ny\r\n")
    assert hit.text == "x = 1;"


def test_a_plain_text_is_no_expression():
    assert search_lines("boil()") == [1]
    assert search_lines(".*") == []


def test_the_lines_around_are_reported():
    (hit,) = TextSearch(SearchText("100", context=2)).iter_hits("a", TEXT)
    assert hit.before == ("def boil():",)
    assert hit.after == ("", "def cool():")


@pytest.mark.parametrize("wrong", ["(", "[z-a]", "a" * 2000, "(?=x)", "\\"])
def test_what_is_no_expression_is_reported(wrong):
    with pytest.raises(BadRequest, match="expression"):
        TextSearch(SearchText(wrong, regex=True))


def test_an_evil_expression_takes_no_time():
    search = TextSearch(SearchText("(a+)+$", regex=True))
    assert list(search.iter_hits("a", "a" * 100_000 + "!")) == []


@given(st.text(min_size=1).filter(str.strip), st.text())
def test_whatever_is_searched_only_our_errors_come(wanted, text):
    for regex in (False, True):
        try:
            hits = list(TextSearch(SearchText(wanted, regex=regex)).iter_hits("a", text))
        except BadRequest:
            assert regex
            continue
        assert all(1 <= hit.line <= text.count("\n") + 1 for hit in hits)
