"""What a supplier got in confidence is not repeated from its errors."""

from hypothesis import given
from hypothesis import strategies as st

from agentd.llm.sent_secrets import mask_sent_secrets

SECRET = "sk-0123456789abcdef"
TEXT = st.text("xyz …", max_size=30)


@given(before=TEXT, after=TEXT, cut=st.integers(4, len(SECRET)))
def test_no_secret_remains_and_no_beginning_of_one_at_the_end(
    before: str, after: str, cut: int
) -> None:
    whole = mask_sent_secrets(f"{before}{SECRET}{after}", (SECRET,))
    assert whole == f"{before}***{after}"
    for end in ("", "…"):
        part = mask_sent_secrets(f"{before}{SECRET[:cut]}{end}", (SECRET,))
        assert part == f"{before}***{end}"


@given(TEXT)
def test_other_text_stays(text: str) -> None:
    assert mask_sent_secrets(text, (SECRET, "")) == text
    assert mask_sent_secrets(text, ()) == text


def test_a_longer_secret_is_found_before_one_within_it() -> None:
    assert mask_sent_secrets("it is Bearer abcdef", ("abcdef", "Bearer abcdef")) == "it is ***"
