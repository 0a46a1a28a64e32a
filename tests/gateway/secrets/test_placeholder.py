"""Placeholders are stable, plain, a key's own, and not to be forged."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agentd.gateway.secrets.placeholder import Placeholders

MAKER = Placeholders(b"s" * 32)


@given(st.binary(min_size=1), st.sampled_from(["github", "aws-access-key", "a" + "-b2" * 13]))
def test_a_placeholder_is_known_again_by_its_own_key_alone(value, kind):
    placeholder = MAKER.create(value, kind, "k")
    assert re.fullmatch(r"SECRET_[a-z0-9_]+_[a-z2-7]{22}", placeholder)
    text = f"x{placeholder}y".encode()
    assert MAKER.find_in(text, "k") == [(1, 1 + len(placeholder))]
    assert MAKER.find_in(text, "other") == []
    assert Placeholders(b"t" * 32).find_in(text, "k") == []
    assert MAKER.create(value, kind, "k") == placeholder
    assert MAKER.create(value, kind, "other") != placeholder
    assert MAKER.create(value + b"x", kind, "k") != placeholder


def test_one_altered_letter_makes_it_a_strangers():
    placeholder = MAKER.create(b"value", "github", "k")
    for at in range(len(placeholder) - 22, len(placeholder)):
        other = "a" if placeholder[at] != "a" else "b"
        altered = placeholder[:at] + other + placeholder[at + 1 :]
        assert MAKER.find_in(altered.encode(), "k") == []


def test_a_digest_shows_equal_from_different_and_nothing_else():
    assert MAKER.digest(b"a") == MAKER.digest(b"a") != MAKER.digest(b"b")
    assert re.fullmatch("[0-9a-f]{16}", MAKER.digest(b"a"))
    assert Placeholders(b"t" * 32).digest(b"a") != MAKER.digest(b"a")
