"""The comparison of a presented key with the keys of the set."""

import time
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.auth import key as keys
from agentd.auth.key import ENVIRONMENT, KeyRing, NamedKey, find_descendants, issue_key
from agentd.core.errors import BadRequest

AT = "2026-01-01T00:00:00.000Z"
LAPTOP, KEPT_LAPTOP = issue_key("laptop", AT)
PHONE, KEPT_PHONE = issue_key("phone", AT)
SECRET = "a key of the owner's choice"
HASH = sha256(SECRET.encode()).hexdigest()
RING = KeyRing(HASH, [KEPT_LAPTOP, KEPT_PHONE])


def test_each_key_is_known_by_its_name():
    assert RING.match(LAPTOP) == "laptop"
    assert RING.match(PHONE) == "phone"
    assert RING.match(SECRET) == ENVIRONMENT


def test_what_is_kept_holds_neither_the_key_nor_an_unsalted_hash():
    kept = repr(KEPT_LAPTOP)
    assert LAPTOP not in kept
    assert sha256(LAPTOP.encode()).hexdigest() not in kept


def test_presenting_a_hash_is_not_presenting_the_key():
    for kept in (HASH, KEPT_LAPTOP.sha256, KEPT_LAPTOP.salt):
        assert RING.match(kept) is None


@pytest.mark.parametrize(
    "presented",
    ["", " ", "\0", "schlüssel", "\ud800", "٣" * 38, f"{LAPTOP},{LAPTOP}", f"{LAPTOP}, {PHONE}",
     f" {LAPTOP}", f"{LAPTOP}\n", LAPTOP.upper(), LAPTOP[:-1], f"{LAPTOP}x", "é" * 19],
    ids=["empty", "blank", "NUL", "not ASCII", "half a character", "digits of others", "twice",
         "two", "after a blank", "before a line's end", "other case", "cut", "longer",
         "two bytes each"],
)  # fmt: skip
def test_an_odd_key_is_just_no_match(presented):
    assert RING.match(presented) is None


@given(st.text(max_size=50))
def test_no_other_text_matches(text):
    assert RING.match(text) is None


def test_a_huge_key_is_refused_without_being_hashed(monkeypatch):
    monkeypatch.setattr(keys, "sha256", None)
    assert RING.match("x" * 1_000_000) is None
    with pytest.raises(TypeError):
        RING.match(LAPTOP)


def test_an_unset_environment_key_matches_nothing():
    ring = KeyRing("", [KEPT_LAPTOP])
    for presented in ("", "x", sha256(b"").hexdigest()):
        assert ring.match(presented) is None


def test_a_ring_is_configured_by_either_source():
    assert not KeyRing().is_configured
    assert KeyRing(HASH).is_configured
    assert KeyRing("", [KEPT_LAPTOP]).is_configured
    assert KeyRing("", [], defined=True).is_configured


def test_where_in_the_set_a_key_stands_takes_no_measurably_different_time():
    issued = [issue_key(f"k{number}", AT) for number in range(100)]
    ring = KeyRing("", [kept for _, kept in issued])
    wrong, _ = issue_key("wrong", AT)

    candidates = [issued[0][0], issued[-1][0], wrong]
    fastest = dict.fromkeys(candidates, float("inf"))
    for rounds in range(20_000):  # until each was let alone once
        for one in candidates:
            began = time.perf_counter_ns()
            ring.match(one)
            fastest[one] = min(fastest[one], time.perf_counter_ns() - began)
        alike = max(fastest.values()) < 1.5 * min(fastest.values())
        if rounds >= 300 and alike:
            break
    assert alike


def test_every_key_of_the_set_is_compared_even_after_a_match(monkeypatch):
    compared = []
    real = keys.hmac.compare_digest

    def compare_and_count(one: bytes, other: bytes) -> bool:
        compared.append(other)
        return real(one, other)

    monkeypatch.setattr(keys.hmac, "compare_digest", compare_and_count)
    assert RING.match(LAPTOP) == "laptop"
    assert len(compared) == 3


@pytest.mark.parametrize("name", ["laptop", "a", "CI-1.example_org", "0", "x" * 64])
def test_a_good_name_is_taken(name):
    keys.check_name(name)


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "-a", ".a", "a/b", "x" * 65, "ä", "a\n", "environment", "Environment"]
)
def test_a_bad_name_is_refused(name):
    with pytest.raises(BadRequest):
        keys.check_name(name)


def test_no_kept_key_may_bear_the_name_of_the_environment_key():
    with pytest.raises(ValueError, match="AGENT_API_KEY"):
        NamedKey("environment", "0" * 32, "0" * 64, AT)


@given(
    st.dictionaries(
        st.sampled_from("abcdefgh"), st.sampled_from(["", "cli", *(f"key:{x}" for x in "abcdefgh")])
    )
)
def test_the_descendants_of_a_key_are_those_that_lead_back_to_it(makers):
    """Also where keys made each other anew, in a ring."""
    made = [issue_key(name, "2026-01-01T00:00:00.000Z", by)[1] for name, by in makers.items()]
    for name in makers:
        expected = set()
        for one in makers:
            seen, maker = set(), makers[one]
            while maker.startswith("key:") and maker not in seen:
                seen.add(maker)
                if maker == f"key:{name}":
                    expected.add(one)
                maker = makers.get(maker[4:], "")
        found = find_descendants(made, name)
        assert set(found) == expected - {name}
        assert len(set(found)) == len(found)
