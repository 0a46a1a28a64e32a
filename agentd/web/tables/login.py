"""The rows by which people sign in."""

from agentd.access.gate import Surface
from agentd.errors import BadRequest, Forbidden, LimitReached, NotFound, Unauthorized, Unavailable
from agentd.web import session as shapes
from agentd.web.session import Sessions
from agentd.web.table import Parameter, Route

EVERYWHERE = Parameter(
    "everywhere",
    "query",
    "true ends every login of this person, not only this one.",
    {"type": "string", "enum": ["true", "false"]},
)


def rows(sessions: Sessions) -> tuple[Route, ...]:
    """Sign in, who am I, sign out."""
    path = "/api/session"
    return (
        Route(
            "POST",
            path,
            Surface.OPEN,
            sessions.sign_in,
            "Sign in with a name and a password: a cookie, or with bearer a token.",
            takes=shapes.SignIn,
            gives=shapes.SignedInView,
            errors=(BadRequest, Unauthorized, Forbidden, LimitReached, Unavailable),
            section="5, rule 7",
        ),
        Route(
            "GET",
            path,
            Surface.EXTENDED,
            sessions.who,
            "Who is calling, by key or by login.",
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
