"""What each role may, and how long a session lasts."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.access.gate import Surface
from agentd.access.login import (
    IDLE,
    LONGEST,
    RANKS,
    Directory,
    Session,
    User,
    begin,
    digest,
    is_name,
    needed,
    proves,
    reaches,
    signed_in_by_code,
    xsrf,
)
from agentd.access.password import decoy
from agentd.clock import iso, parse_iso

NOW = "2026-01-01T00:00:00.000Z"
HASH, OTHER = decoy(None), decoy(None).replace("$000", "$111")
ANN = User("ann", "manager", HASH)
ROLES = st.sampled_from(RANKS)


@given(ROLES, ROLES, ROLES)
def test_each_role_may_what_those_below_it_may(low, middle, high):
    assert reaches(low, low)
    assert reaches("administrator", low)
    if reaches(high, middle) and reaches(middle, low):
        assert reaches(high, low)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH"])
def test_a_viewer_only_reads_on_the_extended_surface(method):
    """Specification 5.6: a manager has the rights of a key."""
    may = reaches("viewer", needed(Surface.EXTENDED, method))
    assert may == (method in ("GET", "HEAD"))
    assert reaches("manager", needed(Surface.EXTENDED, method))
    assert not reaches("nobody", needed(Surface.EXTENDED, method))
    assert reaches("viewer", needed(Surface.LIVE, method)), "what a client says is for listening"
    assert reaches("nobody", needed(Surface.OPEN, method))


def test_a_session_keeps_no_token():
    token, session = begin(ANN, NOW)
    assert len(token) == 64
    assert session.sha256 == digest(token)
    assert token not in str(session)
    assert begin(ANN, NOW)[0] != token


@given(st.timedeltas(timedelta(), timedelta(days=60)))
def test_a_session_ends_after_30_days_or_7_without_use(used):
    at = iso(parse_iso(NOW) + used)
    session = Session(digest("x"), "ann", ANN.proof, NOW, at)
    ends = parse_iso(session.ends) - parse_iso(NOW)
    assert ends <= LONGEST
    assert ends == min(LONGEST, parse_iso(at) - parse_iso(NOW) + IDLE)


def test_a_session_is_good_for_one_role_and_one_password():
    _, session = begin(ANN, NOW)
    caller = Directory([ANN]).caller(session)
    assert caller
    assert (caller.by, caller.role, caller.session) == ("user:ann", "manager", session.id)
    for other in (
        User("ann", "viewer", HASH), User("ann", "manager", OTHER), User("bob", "manager", HASH),
    ):  # fmt: skip
        assert Directory([other]).caller(session) is None
    assert Directory([]).caller(session) is None


def test_the_administrator_of_the_environment_comes_before_the_file():
    admin = User("ann", "administrator", OTHER)
    directory = Directory([ANN, User("bob", "viewer", HASH)], admin)
    assert directory.get("ann") == admin
    assert sorted(user.name for user in directory) == ["ann", "bob"]


@given(st.text(), st.text())
def test_only_the_sessions_own_proof_is_taken(token, other):
    assert proves(token, xsrf(token))
    assert not proves(token, other) or other == xsrf(token)
    assert not proves(token, None)
    assert token == other or not proves(token, xsrf(other))


@pytest.mark.parametrize("name", ["", "-ann", "a b", "a" * 65, "ann\n", "änn", "a:b", "a/b"])
def test_what_would_confuse_is_no_name(name):
    assert not is_name(name)
    assert is_name("ann.b@example-1")


MANAGEMENT, CHANGED = "a" * 64, "b" * 64
ADMIN = User("root", "administrator", HASH)


def test_a_session_by_code_is_the_administrators_with_or_without_one_of_the_environment():
    for admin, name in ((ADMIN, "root"), (None, "administrator")):
        user = signed_in_by_code(MANAGEMENT, admin)
        _, session = begin(user, NOW, by_code=True)
        caller = Directory((), admin, user).caller(session)
        assert (caller.name, caller.role) == (name, "administrator")


def test_a_session_by_code_lasts_ninety_days_used_or_not():
    _, session = begin(signed_in_by_code(MANAGEMENT, None), NOW, by_code=True)
    assert session.ends == iso(parse_iso(NOW) + timedelta(days=90))


@pytest.mark.parametrize(
    ("management", "admin"),
    [(CHANGED, ADMIN), (MANAGEMENT, User("root", "administrator", OTHER)), ("", ADMIN)],
)
def test_another_management_key_or_password_ends_what_a_code_began(management, admin):
    _, session = begin(signed_in_by_code(MANAGEMENT, ADMIN), NOW, by_code=True)
    assert Directory((), admin, signed_in_by_code(management, admin)).caller(session) is None


def test_nobody_of_the_file_takes_over_a_session_that_began_with_a_code():
    user = signed_in_by_code(MANAGEMENT, None)
    _, session = begin(user, NOW, by_code=True)
    viewer = User(user.name, "viewer", HASH)
    assert Directory([viewer], None, user).caller(session).role == "administrator"
    assert Directory([viewer]).caller(session) is None
