"""What is kept of a password, and which passwords are taken."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.access.password import (
    COST,
    SHORTEST,
    Cost,
    check_new,
    decoy,
    hashed,
    is_hashed,
    matches,
)
from agentd.errors import BadRequest

CHEAP = Cost(14, 8, 1)
KEPT = hashed("correct horse battery", CHEAP)


def test_the_password_matches_what_is_kept_of_it_and_no_other_does():
    assert matches("correct horse battery", KEPT)
    for wrong in ("", "correct horse batterY", "correct horse battery ", KEPT, "\0"):
        assert not matches(wrong, KEPT)


def test_what_is_kept_differs_each_time_and_does_not_hold_the_password():
    assert is_hashed(KEPT)
    assert hashed("correct horse battery", CHEAP) != KEPT
    assert "horse" not in KEPT


def test_all_spellings_that_unicode_has_for_a_password_are_one():
    assert matches("Amélie's old bicycle", hashed("Ame\u0301lie's old bicycle", CHEAP))


@settings(max_examples=5, deadline=None)
@given(st.text(max_size=50))
def test_any_text_can_be_a_password(word):
    assert matches(word, hashed(word, CHEAP))


def test_a_new_hash_costs_a_guesser_what_it_should():
    assert hashed("correct horse battery").startswith("scrypt$ln=15,r=8,p=3$")
    assert 128 * COST.r * 2**COST.ln * COST.p >= 96 * 2**20


@pytest.mark.parametrize(
    "text",
    ["", "correct horse", KEPT[:-1], KEPT + "0", KEPT.replace("ln=14", "ln=10"), KEPT.upper(),
     KEPT.replace("r=8", "r=1"), KEPT.replace("p=1", "p=17"), KEPT.replace("scrypt", "plain"),
     KEPT + "\n", "x" + KEPT, KEPT.replace("ln=14", "ln=21")],
)  # fmt: skip
def test_what_is_too_cheap_too_dear_or_no_hash_is_none(text):
    assert not is_hashed(text)


def test_a_decoy_costs_the_same_and_matches_nothing():
    assert decoy(KEPT).split("$")[1] == KEPT.split("$")[1]
    assert decoy(None).split("$")[1] == "ln=15,r=8,p=3"
    assert is_hashed(decoy(None))
    assert not matches("", decoy(KEPT))


@pytest.mark.parametrize(
    "word",
    ["", "short", "x" * (SHORTEST - 1), "aaaaaaaaaaaaaaa", "abababababab", "ann-loves-me",
     "abcdefghijklm", "qwertyuiopasdfghjkl", "123456789012", "987654321098", "annannannann1!x",
     "x" * 1025],
)  # fmt: skip
def test_a_password_that_is_guessed_too_soon_is_refused_and_not_told(word):
    if word == "ann-loves-me":
        check_new(word, "ann")
        return
    with pytest.raises(BadRequest) as caught:
        check_new(word, "ann")
    if word:
        assert word not in caught.value.message


@pytest.mark.parametrize("word", ["correct horse", "Tr0ub4dor&3xx", "абвгдежз" * 2, "9f86d081884c"])
def test_a_password_that_is_long_enough_is_taken_whatever_is_in_it(word):
    check_new(word, "ann")
