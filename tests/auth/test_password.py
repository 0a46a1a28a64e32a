"""The hash that is stored of a password, and the rules for new passwords."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentd.auth.password import (
    DEFAULT_COST,
    MIN_LENGTH,
    HashCost,
    check_new_password,
    hash_password,
    is_password_hash,
    make_decoy_hash,
    verify_password,
)
from agentd.core.errors import BadRequest

CHEAP = HashCost(14, 8, 1)
KEPT = hash_password("correct horse battery", CHEAP)


def test_the_password_matches_what_is_kept_of_it_and_no_other_does():
    assert verify_password("correct horse battery", KEPT)
    for wrong in ("", "correct horse batterY", "correct horse battery ", KEPT, "\0"):
        assert not verify_password(wrong, KEPT)


def test_what_is_kept_differs_each_time_and_does_not_hold_the_password():
    assert is_password_hash(KEPT)
    assert hash_password("correct horse battery", CHEAP) != KEPT
    assert "horse" not in KEPT


def test_all_spellings_that_unicode_has_for_a_password_are_one():
    assert verify_password(
        "Amélie's old bicycle", hash_password("Ame\u0301lie's old bicycle", CHEAP)
    )


@settings(max_examples=5, deadline=None)
@given(st.text(max_size=50))
def test_any_text_can_be_a_password(word):
    assert verify_password(word, hash_password(word, CHEAP))


def test_a_new_hash_costs_a_guesser_what_it_should():
    assert hash_password("correct horse battery").startswith("scrypt$ln=15,r=8,p=3$")
    assert 128 * DEFAULT_COST.r * 2**DEFAULT_COST.ln * DEFAULT_COST.p >= 96 * 2**20


@pytest.mark.parametrize(
    "text",
    ["", "correct horse", KEPT[:-1], KEPT + "0", KEPT.replace("ln=14", "ln=10"), KEPT.upper(),
     KEPT.replace("r=8", "r=1"), KEPT.replace("p=1", "p=17"), KEPT.replace("scrypt", "plain"),
     KEPT + "\n", "x" + KEPT, KEPT.replace("ln=14", "ln=21")],
)  # fmt: skip
def test_what_is_too_cheap_too_dear_or_no_hash_is_none(text):
    assert not is_password_hash(text)


def test_a_decoy_costs_the_same_and_matches_nothing():
    assert make_decoy_hash(KEPT).split("$")[1] == KEPT.split("$")[1]
    assert make_decoy_hash(None).split("$")[1] == "ln=15,r=8,p=3"
    assert is_password_hash(make_decoy_hash(None))
    assert not verify_password("", make_decoy_hash(KEPT))


@pytest.mark.parametrize(
    "word",
    ["", "short", "x" * (MIN_LENGTH - 1), "aaaaaaaaaaaaaaa", "abababababab", "ann-loves-me",
     "abcdefghijklm", "qwertyuiopasdfghjkl", "123456789012", "987654321098", "annannannann1!x",
     "x" * 1025],
)  # fmt: skip
def test_a_password_that_is_guessed_too_soon_is_refused_and_not_reported(word):
    if word == "ann-loves-me":
        check_new_password(word, "ann")
        return
    with pytest.raises(BadRequest) as caught:
        check_new_password(word, "ann")
    if word:
        assert word not in caught.value.message


@pytest.mark.parametrize("word", ["correct horse", "Tr0ub4dor&3xx", "абвгдежз" * 2, "9f86d081884c"])
def test_a_password_that_is_long_enough_is_taken_whatever_is_in_it(word):
    check_new_password(word, "ann")
