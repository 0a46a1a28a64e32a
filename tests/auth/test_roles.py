"""The rights of each role, and the length of a session."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.auth.password import make_decoy_hash
from agentd.auth.roles import (
    IDLE_LIFETIME,
    LoginSession,
    User,
    UserDirectory,
    begin_session,
    get_code_user,
    hash_token,
    is_user_name,
)
from agentd.core.clock import format_iso, parse_iso
from agentd.http.access import ROLE_ORDER, RouteGroup, get_min_role, has_role
from agentd.http.cookies import MAX_SESSION_AGE, is_xsrf_token, make_xsrf_token

NOW = "2026-01-01T00:00:00.000Z"
HASH, OTHER = make_decoy_hash(None), make_decoy_hash(None).replace("$000", "$111")
ANN = User("ann", "manager", HASH)
ROLES = st.sampled_from(ROLE_ORDER)


@given(ROLES, ROLES, ROLES)
def test_each_role_may_what_those_below_it_may(low, middle, high):
    assert has_role(low, low)
    assert has_role("administrator", low)
    if has_role(high, middle) and has_role(middle, low):
        assert has_role(high, low)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH"])
def test_a_viewer_only_reads_on_the_extended_surface(method):
    """Specification 5.6: a manager has the rights of a key."""
    may = has_role("viewer", get_min_role(RouteGroup.EXTENDED, method))
    assert may == (method in ("GET", "HEAD"))
    assert has_role("manager", get_min_role(RouteGroup.EXTENDED, method))
    assert not has_role("nobody", get_min_role(RouteGroup.EXTENDED, method))
    assert has_role("viewer", get_min_role(RouteGroup.LIVE, method)), (
        "what a client says is for listening"
    )
    assert has_role("nobody", get_min_role(RouteGroup.OPEN, method))


def test_a_session_keeps_no_token():
    token, session = begin_session(ANN, NOW)
    assert len(token) == 64
    assert session.sha256 == hash_token(token)
    assert token not in str(session)
    assert begin_session(ANN, NOW)[0] != token


@given(st.timedeltas(timedelta(), timedelta(days=60)))
def test_a_session_ends_after_30_days_or_7_without_use(used):
    at = format_iso(parse_iso(NOW) + used)
    session = LoginSession(hash_token("x"), "ann", ANN.proof, NOW, at)
    ends = parse_iso(session.expires_at) - parse_iso(NOW)
    assert ends <= MAX_SESSION_AGE
    assert ends == min(MAX_SESSION_AGE, parse_iso(at) - parse_iso(NOW) + IDLE_LIFETIME)


def test_a_session_is_valid_for_one_role_and_one_password():
    _, session = begin_session(ANN, NOW)
    caller = UserDirectory([ANN]).get_caller(session)
    assert caller
    assert (caller.identity, caller.role, caller.session_id) == ("user:ann", "manager", session.id)
    for other in (
        User("ann", "viewer", HASH), User("ann", "manager", OTHER), User("bob", "manager", HASH),
    ):  # fmt: skip
        assert UserDirectory([other]).get_caller(session) is None
    assert UserDirectory([]).get_caller(session) is None


def test_the_administrator_of_the_environment_comes_before_the_file():
    admin = User("ann", "administrator", OTHER)
    directory = UserDirectory([ANN, User("bob", "viewer", HASH)], admin)
    assert directory.get("ann") == admin
    assert sorted(user.name for user in directory) == ["ann", "bob"]


@given(st.text(), st.text())
def test_only_the_sessions_own_proof_is_taken(token, other):
    assert is_xsrf_token(token, make_xsrf_token(token))
    assert not is_xsrf_token(token, other) or other == make_xsrf_token(token)
    assert not is_xsrf_token(token, None)
    assert token == other or not is_xsrf_token(token, make_xsrf_token(other))


@pytest.mark.parametrize("name", ["", "-ann", "a b", "a" * 65, "ann\n", "änn", "a:b", "a/b"])
def test_what_would_confuse_is_no_name(name):
    assert not is_user_name(name)
    assert is_user_name("ann.b@example-1")


MANAGEMENT, CHANGED = "a" * 64, "b" * 64
ADMIN = User("root", "administrator", HASH)


def test_a_session_by_code_is_the_administrators_with_or_without_one_of_the_environment():
    for admin, name in ((ADMIN, "root"), (None, "administrator")):
        user = get_code_user(MANAGEMENT, admin)
        _, session = begin_session(user, NOW, by_code=True)
        caller = UserDirectory((), admin, user).get_caller(session)
        assert (caller.name, caller.role) == (name, "administrator")


def test_a_session_by_code_lasts_ninety_days_used_or_not():
    _, session = begin_session(get_code_user(MANAGEMENT, None), NOW, by_code=True)
    assert session.expires_at == format_iso(parse_iso(NOW) + timedelta(days=90))


@pytest.mark.parametrize(
    ("management", "admin"),
    [(CHANGED, ADMIN), (MANAGEMENT, User("root", "administrator", OTHER)), ("", ADMIN)],
)
def test_another_management_key_or_password_ends_what_a_code_began(management, admin):
    _, session = begin_session(get_code_user(MANAGEMENT, ADMIN), NOW, by_code=True)
    assert UserDirectory((), admin, get_code_user(management, admin)).get_caller(session) is None


def test_nobody_of_the_file_takes_over_a_session_that_began_with_a_code():
    user = get_code_user(MANAGEMENT, None)
    _, session = begin_session(user, NOW, by_code=True)
    viewer = User(user.name, "viewer", HASH)
    assert UserDirectory([viewer], None, user).get_caller(session).role == "administrator"
    assert UserDirectory([viewer]).get_caller(session) is None
