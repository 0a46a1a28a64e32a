"""Texts are compared in any case, and however their accents are written."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.folding import fold_text
from tests.support.processor import assert_linear

letters = st.text(st.sampled_from("aßÉöİǅ한글がﬃ\u0301\u0323 "), max_size=60)


@given(letters)
def test_a_text_is_folded_alike_however_its_accents_are_written(text: str) -> None:
    folded = fold_text(text)
    assert folded == fold_text(unicodedata.normalize("NFD", text)) == fold_text(folded)


@given(letters, st.integers(0, 20))
def test_a_long_text_is_folded_as_its_parts_are(text: str, count: int) -> None:
    words = [text, "Ascii"] * count
    assert fold_text(" ".join(words)) == " ".join(map(fold_text, words))


@pytest.mark.parametrize("text", ["café", "한국어", "がぎぐ"])
def test_no_letter_is_split_from_its_accents(text: str) -> None:
    apart = unicodedata.normalize("NFD", text)
    for before in range(240, 260):
        assert fold_text("–" * before + apart).endswith(text)


def test_accents_without_end_are_folded_in_linear_time() -> None:
    accents = "\u0301\u0323" * 20_000
    assert_linear(fold_text, accents, accents * 8, times=8)
