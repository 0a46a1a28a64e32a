"""The rows by which people sign in."""

from agentd.access.gate import Surface
from agentd.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    LimitReached,
    NotFound,
    Unauthorized,
    Unavailable,
)
from agentd.web import session as shapes
from agentd.web import users as people
from agentd.web.session import Sessions
from agentd.web.table import Parameter, Route
from agentd.web.users import Users

SIGN_IN_LIMIT = 32 * 1024
"""The most bytes of a sign-in: it holds the longest password with every character escaped.

Anybody may send one, so it must not cost more than looking at it.
"""

EVERYWHERE = Parameter(
    "everywhere",
    "query",
    "true ends every login of this person, not only this one.",
    {"type": "string", "enum": ["true", "false"]},
)


def rows(sessions: Sessions, users: Users) -> tuple[Route, ...]:
    """Sign in, who am I, sign out; who may."""
    return (*_session(sessions), *_users(users))


def _session(sessions: Sessions) -> tuple[Route, ...]:
    path = "/api/session"
    return (
        Route(
            "POST",
            path,
            Surface.OPEN,
            sessions.sign_in,
            "Sign in with a name and a password, or a one-time code: a cookie, or a token.",
            takes=shapes.SignIn,
            example={"user": "ann", "password": "correct horse battery staple"},
            gives=shapes.SignedInView,
            errors=(BadRequest, Unauthorized, Forbidden, LimitReached, Unavailable),
            section="5, rule 7",
            most=SIGN_IN_LIMIT,
        ),
        Route(
            "GET",
            path,
            Surface.EXTENDED,
            sessions.who,
            "Who is calling, by key or by login.",
            operation="get_session",
            gives=shapes.SessionView,
            section="5, rule 6",
        ),
        Route(
            "DELETE",
            path,
            Surface.EXTENDED,
            sessions.sign_out,
            "Sign out; the live connections of the login end.",
            status=204,
            errors=(NotFound, Unavailable),
            parameters=(EVERYWHERE,),
            role="viewer",
        ),
    )


def _users(users: Users) -> tuple[Route, ...]:
    door, path = Surface.EXTENDED, "/api/users"
    return (
        Route(
            "GET",
            path,
            door,
            users.list_users,
            "Everybody who may sign in.",
            gives=people.UsersView,
            role="administrator",
        ),
        Route(
            "POST",
            path,
            door,
            users.add_user,
            "Let one more person sign in.",
            takes=people.AddUser,
            gives=people.UserView,
            status=201,
            errors=(BadRequest, Conflict, Unavailable),
            role="administrator",
        ),
        Route(
            "PUT",
            f"{path}/{{name}}",
            door,
            users.change_user,
            "Give another role or password, which signs out.",
            takes=people.ChangeUser,
            gives=people.UserView,
            errors=(BadRequest, NotFound, Conflict, Unavailable),
            role="administrator",
        ),
        Route(
            "DELETE",
            f"{path}/{{name}}",
            door,
            users.remove_user,
            "Let a person sign in no more, and sign him out.",
            status=204,
            errors=(NotFound, Conflict, Unavailable),
            role="administrator",
        ),
    )
