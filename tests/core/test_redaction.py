"""Secrets that are known are taken out of what others wrote, and what hides text is shown."""

import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from agentd.core.redaction import escape_lines, escape_unprintable, mask_values

SECRET = "sk-0123456789abcdef"
TEXT = st.text("xyz …", max_size=30)


@given(before=TEXT, after=TEXT, cut=st.integers(4, len(SECRET)))
def test_no_secret_remains_and_no_beginning_of_one_where_a_text_may_be_cut(
    before: str, after: str, cut: int
) -> None:
    whole = mask_values(f"{before}{SECRET}{after}", (SECRET,))
    assert whole == f"{before}***{after}"
    for end in ("", "…"):
        text = f"{before}{SECRET[:cut]}{end}"
        assert mask_values(text, (SECRET,), may_be_cut=True) == f"{before}***{end}"
        if cut < len(SECRET):
            assert mask_values(text, (SECRET,)) == text


@given(TEXT)
def test_other_text_stays(text: str) -> None:
    assert mask_values(text, (SECRET, ""), may_be_cut=True) == text
    assert mask_values(text, ()) == text


def test_a_longer_secret_is_found_before_one_within_it() -> None:
    assert mask_values("it is Bearer abcdef", ("abcdef", "Bearer abcdef")) == "it is ***"


def test_too_little_of_a_secret_to_be_known_stays_at_the_end() -> None:
    assert mask_values("it is sk-", (SECRET,), may_be_cut=True) == "it is sk-"


@example("rm x\r\n\techo \u202e\u2066y\xa0")
@given(st.text(st.characters() | st.sampled_from("\n\t\r\x1b\x85\u2028\u202e\u200b\xa0 ")))
def test_what_a_person_approves_keeps_its_lines_and_hides_nothing(text: str) -> None:
    shown = escape_lines(text)
    assert [unicodedata.category(one)[0] in "CZ" for one in shown] == [
        one in "\n\t " for one in shown
    ]
    assert [one for one in shown if one in "\n\t"] == [one for one in text if one in "\n\t"]
    assert escape_unprintable(shown) == escape_unprintable(text)
