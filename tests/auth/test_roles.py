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
from agentd.core.errors import Forbidden
from agentd.http.access import (
    ROLE_ORDER,
    Caller,
    RouteGroup,
    get_min_role,
    get_scopes,
    has_role,
    require_answers,
)
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


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_gateway_is_managed_by_administrators_alone(method):
    assert get_min_role(RouteGroup.MANAGE, method) == "administrator"
    assert Caller("management", "", "administrator").identity == "management"
    assert Caller("management", "ops", "administrator").identity == "management:ops"


@pytest.mark.parametrize(
    ("method", "path", "scopes"),
    [
        ("GET", "/api/agent/budgets", ("read", "all")),
        ("HEAD", "/api/agent/budgets", ("read", "all")),
        ("POST", "/api/agent/budgets", ("all",)),
        ("GET", "/api/agent/keys", ("read", "keys", "all")),
        ("POST", "/api/agent/keys", ("keys", "all")),
        ("DELETE", "/api/agent/keys/{id}", ("keys", "all")),
        ("POST", "/api/agent/keysets", ("all",)),
        ("GET", "/api/agent", ("read", "keys", "all")),
        ("GET", "/api/agent/openapi.json", ("read", "keys", "all")),
    ],
)
def test_a_management_key_calls_what_its_scope_names(method, path, scopes):
    assert get_scopes(method, path) == scopes


def test_a_key_without_the_scope_answers_decides_nothing():
    require_answers(Caller("key", "laptop", "manager"))
    with pytest.raises(Forbidden, match='the scope "answers"') as caught:
        require_answers(Caller("key", "laptop", "manager", may_answer=False))
    assert '"laptop"' in caught.value.details


def test_a_session_is_named_by_a_part_of_its_digest():
    _, session = begin_session(ANN, NOW)
    assert session.id == session.sha256[:16]


@pytest.mark.parametrize(("created", "used"), [("yesterday", NOW), (NOW, ""), ("9999", NOW)])
def test_a_session_whose_times_cannot_be_computed_with_is_refused(created, used):
    with pytest.raises(ValueError):
        LoginSession(hash_token("x"), "ann", ANN.proof, created, used)


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


@pytest.mark.parametrize("admin", [None, ADMIN])
def test_a_user_named_as_the_one_of_the_codes_signs_in_as_an_administrator_alone(admin):
    by_code = get_code_user(MANAGEMENT, admin)
    lesser, equal = (User("administrator", role, HASH) for role in ("manager", "administrator"))
    is_taken = admin is None  # otherwise codes sign in under another name
    directory = UserDirectory([lesser, ANN], admin, by_code)
    assert directory.refused == (("administrator",) if is_taken else ())
    assert directory.get("administrator") == (None if is_taken else lesser)
    assert directory.get("ann") == ANN
    directory = UserDirectory([equal, ANN], admin, by_code)
    assert directory.refused == ()
    assert directory.get("administrator") == equal
    assert UserDirectory([lesser]).get("administrator") == lesser
