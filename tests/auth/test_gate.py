"""Access through the gate: every surface, key and login, in the order of section 5."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.auth.gate import Gate
from agentd.auth.key import KeyRing, issue_key
from agentd.core.errors import AgentdError, Disabled, ManagementDisabled, Unauthorized
from agentd.core.redaction import scrub
from agentd.http.access import ANONYMOUS, Caller, Credentials, RouteGroup

GOOD, KEPT = issue_key("laptop", "2026-01-01T00:00:00.000Z")
ALSO_GOOD, ALSO_KEPT = issue_key("phone", "2026-01-01T00:00:00.000Z")
LAPTOP = Caller("key", "laptop", "manager")
ANN = Caller("user", "ann", "viewer")

GUARDED = [RouteGroup.REMOTE, RouteGroup.EXTENDED, RouteGroup.LIVE]
BY_LOGIN = [RouteGroup.EXTENDED, RouteGroup.LIVE]


class Logins:
    def get_caller(self, session: str) -> Caller | None:
        assert session, "there is nothing to look up"
        return ANN if session == "ann's" else None


WITH_KEYS = Gate(KeyRing("", [KEPT, ALSO_KEPT]), Logins())
WITHOUT = Gate(KeyRing(), Logins())


def assert_refused(gate: Gate, surface: RouteGroup, presented: Credentials) -> None:
    with pytest.raises(Unauthorized) as caught:
        gate.authenticate(surface, presented)
    assert caught.value.message == "Invalid or missing API key"


@pytest.mark.parametrize("surface", GUARDED)
def test_a_valid_key_acts_as_manager(surface):
    caller = WITH_KEYS.authenticate(surface, Credentials(header=GOOD))
    assert caller == LAPTOP
    assert caller.identity == "key:laptop"


@pytest.mark.parametrize("surface", GUARDED)
@pytest.mark.parametrize(
    "key",
    ["wrong", "", f"{GOOD},{GOOD}", f"{GOOD}, {ALSO_GOOD}"],
    ids=["wrong", "empty", "twice", "two"],
)
def test_a_wrong_key_is_refused_even_with_a_valid_login(surface, key):
    assert_refused(WITH_KEYS, surface, Credentials(header=key, session="ann's"))
    assert_refused(WITH_KEYS, surface, Credentials(header=key))


@pytest.mark.parametrize("surface", BY_LOGIN)
def test_without_a_key_a_login_does(surface):
    for gate in (WITH_KEYS, WITHOUT):
        assert gate.authenticate(surface, Credentials(session="ann's")) == ANN
        assert_refused(gate, surface, Credentials(session="somebody's"))
        assert_refused(gate, surface, Credentials())


@pytest.mark.parametrize("surface", BY_LOGIN)
def test_where_nobody_can_sign_in_no_login_is_accepted(surface):
    for gate in (Gate(KeyRing("", [KEPT])), Gate(KeyRing())):
        assert_refused(gate, surface, Credentials(session="ann's"))
        assert_refused(gate, surface, Credentials(session=""))
    assert_refused(WITH_KEYS, surface, Credentials(session=""))


def test_the_remote_surface_takes_no_login():
    assert_refused(WITH_KEYS, RouteGroup.REMOTE, Credentials(session="ann's"))
    assert_refused(WITH_KEYS, RouteGroup.REMOTE, Credentials())


@pytest.mark.parametrize(
    "presented", [Credentials(), Credentials(GOOD), Credentials(session="ann's")]
)
def test_without_any_key_source_the_remote_api_is_disabled_and_says_why(presented):
    with pytest.raises(Disabled, match=r"AGENT_API_KEY.*keys\.yml"):
        WITHOUT.authenticate(RouteGroup.REMOTE, presented)


@pytest.mark.parametrize("surface", BY_LOGIN)
def test_without_any_key_source_a_key_that_was_sent_falls_to_the_login(surface):
    assert WITHOUT.authenticate(surface, Credentials(GOOD, session="ann's")) == ANN
    assert_refused(WITHOUT, surface, Credentials(GOOD))


def test_a_damaged_key_file_refuses_but_does_not_disable():
    assert_refused(Gate(KeyRing("", defined=True)), RouteGroup.REMOTE, Credentials(GOOD))


def test_the_address_carries_a_key_on_the_live_surface_alone():
    by_query = Credentials(query=GOOD)
    assert WITH_KEYS.authenticate(RouteGroup.LIVE, by_query) == LAPTOP
    for surface in (RouteGroup.REMOTE, RouteGroup.EXTENDED):
        assert_refused(WITH_KEYS, surface, by_query)
    with_login = Credentials(query=GOOD, session="ann's")
    assert WITH_KEYS.authenticate(RouteGroup.EXTENDED, with_login) == ANN


def test_header_and_address_must_both_match():
    assert WITH_KEYS.authenticate(RouteGroup.LIVE, Credentials(GOOD, GOOD)) == LAPTOP
    for header, query in [(GOOD, "bad"), ("bad", GOOD), ("bad", "bad"), (GOOD, ""), ("", GOOD)]:
        assert_refused(WITH_KEYS, RouteGroup.LIVE, Credentials(header, query, "ann's"))


def test_two_valid_keys_at_once_are_nobody():
    assert_refused(WITH_KEYS, RouteGroup.LIVE, Credentials(GOOD, ALSO_GOOD))


def test_elsewhere_a_wrong_key_in_the_address_does_not_matter():
    assert WITH_KEYS.authenticate(RouteGroup.REMOTE, Credentials(GOOD, "bad")) == LAPTOP


def test_a_public_address_is_open_to_all_whatever_they_bring():
    for gate in (WITH_KEYS, WITHOUT):
        assert (
            gate.authenticate(RouteGroup.PUBLIC, Credentials("wrong", "wrong", "wrong"))
            is ANONYMOUS
        )
        assert gate.authenticate(RouteGroup.PUBLIC, Credentials(GOOD)) is ANONYMOUS
    assert ANONYMOUS.identity == "nobody"


def test_an_open_address_needs_no_key_but_a_key_that_is_sent_must_be_good():
    for gate in (WITH_KEYS, WITHOUT):
        assert (
            gate.authenticate(RouteGroup.OPEN, Credentials(query="wrong", session="wrong"))
            is ANONYMOUS
        )
    assert WITH_KEYS.authenticate(RouteGroup.OPEN, Credentials(GOOD)) == LAPTOP
    assert WITHOUT.authenticate(RouteGroup.OPEN, Credentials("wrong")) is ANONYMOUS
    for key in ("wrong", "", f"{GOOD},{GOOD}"):
        assert_refused(WITH_KEYS, RouteGroup.OPEN, Credentials(key, session="ann's"))


some_key = st.none() | st.sampled_from(["", "bad", GOOD, ALSO_GOOD, f"{GOOD},{GOOD}"])


@given(st.sampled_from(GUARDED), some_key, some_key, st.sampled_from([None, "ann's", "no"]))
def test_nobody_comes_in_without_a_valid_key_or_login(surface, header, query, session):
    sent = [header, query] if surface is RouteGroup.LIVE else [header]
    sent = [key for key in sent if key is not None]
    try:
        caller = WITH_KEYS.authenticate(surface, Credentials(header, query, session))
    except Unauthorized:
        assert not (sent and all(key == GOOD for key in sent))
    else:
        if sent:
            assert caller.kind == "key"
            assert set(sent) in ({GOOD}, {ALSO_GOOD})
        else:
            assert (caller, session, surface in BY_LOGIN) == (ANN, "ann's", True)


def test_where_an_access_key_belongs_is_reported_in_words_that_no_answer_blots_out():
    with pytest.raises(Unauthorized) as caught:
        WITHOUT.authenticate(RouteGroup.MODELS, Credentials())
    assert scrub(caught.value.message) == caught.value.message
    assert "Bearer" in caught.value.message


MANAGEMENT_KEY, NAMED_KEY = "the main key", "the monitor's key"
MONITOR = Caller("management", "monitor", "administrator", scope="read")


class NamedManagementKeys:
    def __init__(self, *, is_configured: bool) -> None:
        self.is_configured = is_configured

    def match(self, presented: str) -> Caller | None:
        return MONITOR if self.is_configured and presented == NAMED_KEY else None


@given(
    st.sampled_from([None, "", "wrong", MANAGEMENT_KEY, NAMED_KEY, "\ud800", "x" * 5000]),
    st.sampled_from([None, "", "ann's", "somebody's"]),
    st.booleans(),
    st.sampled_from([None, False, True]),
    st.booleans(),
)
def test_nobody_manages_the_gateway_without_a_valid_management_key_or_login(
    header, session, has_hash, named, has_logins
):
    """A key that was sent decides, and without any key source only a login is accepted."""
    gate = Gate(
        KeyRing("", [KEPT]),
        Logins() if has_logins else None,
        management=sha256(MANAGEMENT_KEY.encode()).hexdigest() if has_hash else "",
        named=None if named is None else NamedManagementKeys(is_configured=named),
    )
    expected: Caller | type[AgentdError] = Unauthorized
    if header is None and session == "ann's" and has_logins:
        expected = ANN
    elif not (has_hash or named):
        expected = ManagementDisabled
    elif header == MANAGEMENT_KEY and has_hash:
        expected = Caller("management", "", "administrator", scope="all")
    elif header == NAMED_KEY and named:
        expected = MONITOR
    sent = Credentials(header, query=MANAGEMENT_KEY, session=session, access=MANAGEMENT_KEY)
    if isinstance(expected, Caller):
        assert gate.authenticate(RouteGroup.MANAGE, sent) == expected
    else:
        with pytest.raises(expected):
            gate.authenticate(RouteGroup.MANAGE, sent)


class AccessKeys:
    def authenticate(self, presented: str, address: str) -> Caller:
        if (presented, address) != (GOOD, "192.0.2.7"):
            raise Unauthorized("no access key")
        return Caller("access", "laptop", "nobody", access_key_id="id")


@pytest.mark.parametrize("sent", [None, "", "wrong", GOOD], ids=["none", "empty", "wrong", "good"])
@pytest.mark.parametrize("access", [None, AccessKeys()], ids=["without keys", "with keys"])
def test_a_model_is_called_with_an_access_key_alone_from_the_address_of_the_caller(sent, access):
    gate = Gate(KeyRing("", [KEPT]), Logins(), access)
    for address in ("192.0.2.7", "192.0.2.8"):
        presented = Credentials(GOOD, GOOD, "ann's", sent, address)
        if access and sent == GOOD and address == "192.0.2.7":
            assert gate.authenticate(RouteGroup.MODELS, presented).access_key_id == "id"
        else:
            with pytest.raises(Unauthorized):
                gate.authenticate(RouteGroup.MODELS, presented)
