"""Who is let in: every surface, every key, every login, in the order of section 5."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.access.gate import NOBODY, Caller, Gate, Presented, Surface
from agentd.access.key import KeyRing, issue
from agentd.errors import Disabled, Unauthorized
from agentd.redaction import scrub

GOOD, KEPT = issue("laptop", "2026-01-01T00:00:00.000Z")
ALSO_GOOD, ALSO_KEPT = issue("phone", "2026-01-01T00:00:00.000Z")
LAPTOP = Caller("key", "laptop", "manager")
ANN = Caller("user", "ann", "viewer")

GUARDED = [Surface.REMOTE, Surface.EXTENDED, Surface.LIVE]
BY_LOGIN = [Surface.EXTENDED, Surface.LIVE]


class Logins:
    def caller(self, session: str) -> Caller | None:
        return ANN if session == "ann's" else None


WITH_KEYS = Gate(KeyRing("", [KEPT, ALSO_KEPT]), Logins())
WITHOUT = Gate(KeyRing(), Logins())


def refused(gate: Gate, surface: Surface, presented: Presented) -> None:
    with pytest.raises(Unauthorized) as caught:
        gate.admit(surface, presented)
    assert caught.value.message == "Invalid or missing API key"


@pytest.mark.parametrize("surface", GUARDED)
def test_a_good_key_acts_as_manager(surface):
    caller = WITH_KEYS.admit(surface, Presented(header=GOOD))
    assert caller == LAPTOP
    assert caller.by == "key:laptop"


@pytest.mark.parametrize("surface", GUARDED)
@pytest.mark.parametrize(
    "key",
    ["wrong", "", f"{GOOD},{GOOD}", f"{GOOD}, {ALSO_GOOD}"],
    ids=["wrong", "empty", "twice", "two"],
)
def test_a_wrong_key_is_refused_even_with_a_valid_login(surface, key):
    refused(WITH_KEYS, surface, Presented(header=key, session="ann's"))
    refused(WITH_KEYS, surface, Presented(header=key))


@pytest.mark.parametrize("surface", BY_LOGIN)
def test_without_a_key_a_login_does(surface):
    for gate in (WITH_KEYS, WITHOUT):
        assert gate.admit(surface, Presented(session="ann's")) == ANN
        refused(gate, surface, Presented(session="somebody's"))
        refused(gate, surface, Presented())


def test_the_remote_surface_takes_no_login():
    refused(WITH_KEYS, Surface.REMOTE, Presented(session="ann's"))
    refused(WITH_KEYS, Surface.REMOTE, Presented())


@pytest.mark.parametrize("presented", [Presented(), Presented(GOOD), Presented(session="ann's")])
def test_without_any_key_source_the_remote_api_is_disabled_and_says_why(presented):
    with pytest.raises(Disabled, match=r"AGENT_API_KEY.*keys\.yml"):
        WITHOUT.admit(Surface.REMOTE, presented)


@pytest.mark.parametrize("surface", BY_LOGIN)
def test_without_any_key_source_a_key_that_was_sent_falls_to_the_login(surface):
    assert WITHOUT.admit(surface, Presented(GOOD, session="ann's")) == ANN
    refused(WITHOUT, surface, Presented(GOOD))


def test_a_damaged_key_file_refuses_but_does_not_disable():
    refused(Gate(KeyRing("", defined=True)), Surface.REMOTE, Presented(GOOD))


def test_the_address_carries_a_key_on_the_live_surface_alone():
    by_query = Presented(query=GOOD)
    assert WITH_KEYS.admit(Surface.LIVE, by_query) == LAPTOP
    for surface in (Surface.REMOTE, Surface.EXTENDED):
        refused(WITH_KEYS, surface, by_query)
    with_login = Presented(query=GOOD, session="ann's")
    assert WITH_KEYS.admit(Surface.EXTENDED, with_login) == ANN


def test_header_and_address_must_both_match():
    assert WITH_KEYS.admit(Surface.LIVE, Presented(GOOD, GOOD)) == LAPTOP
    for header, query in [(GOOD, "bad"), ("bad", GOOD), ("bad", "bad"), (GOOD, ""), ("", GOOD)]:
        refused(WITH_KEYS, Surface.LIVE, Presented(header, query, "ann's"))


def test_two_good_keys_at_once_are_nobody():
    refused(WITH_KEYS, Surface.LIVE, Presented(GOOD, ALSO_GOOD))


def test_elsewhere_a_wrong_key_in_the_address_does_not_matter():
    assert WITH_KEYS.admit(Surface.REMOTE, Presented(GOOD, "bad")) == LAPTOP


def test_a_public_address_is_open_to_all_whatever_they_bring():
    for gate in (WITH_KEYS, WITHOUT):
        assert gate.admit(Surface.PUBLIC, Presented("wrong", "wrong", "wrong")) is NOBODY
        assert gate.admit(Surface.PUBLIC, Presented(GOOD)) is NOBODY
    assert NOBODY.by == "nobody"


def test_an_open_address_needs_no_key_but_a_key_that_is_sent_must_be_good():
    for gate in (WITH_KEYS, WITHOUT):
        assert gate.admit(Surface.OPEN, Presented(query="wrong", session="wrong")) is NOBODY
    assert WITH_KEYS.admit(Surface.OPEN, Presented(GOOD)) == LAPTOP
    assert WITHOUT.admit(Surface.OPEN, Presented("wrong")) is NOBODY
    for key in ("wrong", "", f"{GOOD},{GOOD}"):
        refused(WITH_KEYS, Surface.OPEN, Presented(key, session="ann's"))


some_key = st.none() | st.sampled_from(["", "bad", GOOD, ALSO_GOOD, f"{GOOD},{GOOD}"])


@given(st.sampled_from(GUARDED), some_key, some_key, st.sampled_from([None, "ann's", "no"]))
def test_nobody_comes_in_without_a_good_key_or_login(surface, header, query, session):
    sent = [header, query] if surface is Surface.LIVE else [header]
    sent = [key for key in sent if key is not None]
    try:
        caller = WITH_KEYS.admit(surface, Presented(header, query, session))
    except Unauthorized:
        assert not (sent and all(key == GOOD for key in sent))
    else:
        if sent:
            assert caller.kind == "key"
            assert set(sent) in ({GOOD}, {ALSO_GOOD})
        else:
            assert (caller, session, surface in BY_LOGIN) == (ANN, "ann's", True)


def test_where_an_access_key_belongs_is_told_in_words_that_no_answer_blots_out():
    with pytest.raises(Unauthorized) as caught:
        WITHOUT.admit(Surface.MODELS, Presented())
    assert scrub(caught.value.message) == caught.value.message
    assert "Bearer" in caught.value.message
