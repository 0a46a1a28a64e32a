"""Single logins: the own ones below ``/api/sessions``, those of others for administrators.

A login is shown by an id that opens nothing: the token is never told again.
"""

from urllib.parse import unquote

from msgspec import Struct

from agentd.auth.devices import UNKNOWN_DEVICE
from agentd.auth.roles import LoginSession
from agentd.auth.sessions import SessionManager
from agentd.core.clock import Timestamp
from agentd.core.errors import NotFound, Unavailable
from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Route


class LoginView(Struct, frozen=True, rename="camel"):
    """One login."""

    id: str
    """Identifies it; not a secret."""
    device: str
    """The browser or program that signed in, such as ``Firefox on Linux``."""
    address: str
    """The address that signed in; empty: not recorded, by an earlier version."""
    created_at: Timestamp
    used_at: Timestamp
    """When it was last used, to the hour."""
    expires_at: Timestamp
    by_code: bool
    """True if a one-time code or a link was used instead of a password."""
    current: bool
    """True if this request was made with it."""


class LoginsView(Struct, frozen=True):
    """The logins of a user, the last used first."""

    sessions: list[LoginView]


class LoginEndpoints:
    """List logins, and end single ones."""

    def __init__(self, sessions: SessionManager) -> None:
        self._sessions = sessions

    async def list_own_sessions(self, call: Request) -> Response:
        """Return the caller's logins."""
        self._sessions.get_expiry(call.caller)
        return self._list_sessions(call, call.caller.name)

    async def end_own_session(self, call: Request) -> Response:
        """End one of the caller's logins, which may be this one."""
        self._sessions.get_expiry(call.caller)
        await self._sessions.end_session(call.caller.name, call.path_params["sessionId"])
        return Response(status=204)

    async def list_user_sessions(self, call: Request) -> Response:
        """Return the logins of a user."""
        return self._list_sessions(call, await self._find_user(call))

    async def end_user_session(self, call: Request) -> Response:
        """End one login of a user."""
        name = await self._find_user(call)
        await self._sessions.end_session(name, call.path_params["sessionId"])
        return Response(status=204)

    async def _find_user(self, call: Request) -> str:
        name = unquote(call.path_params["name"], errors="replace")
        await self._sessions.ensure_current()
        if all(user.name != name for user in self._sessions.users):
            raise NotFound(f'There is no user "{name[:100]}"')
        return name

    def _list_sessions(self, call: Request, name: str) -> Response:
        current = call.caller.session_id
        found = self._sessions.list_sessions(name)
        return Response(LoginsView([_make_login_view(one, current) for one in found]))


def _make_login_view(session: LoginSession, current: str) -> LoginView:
    return LoginView(
        session.id,
        session.device or UNKNOWN_DEVICE,
        session.address,
        session.created,
        session.used,
        session.expires_at,
        session.by_code,
        session.id == current,
    )


def routes(endpoints: LoginEndpoints) -> tuple[Route, ...]:
    """Return the routes of single logins."""
    own, others = "/api/sessions", "/api/users/{name}/sessions"
    return (
        Route(
            "GET",
            own,
            RouteGroup.EXTENDED,
            endpoints.list_own_sessions,
            "List your logins: the device, address and time of each.",
            response_type=LoginsView,
            errors=(NotFound,),
        ),
        Route(
            "DELETE",
            f"{own}/{{sessionId}}",
            RouteGroup.EXTENDED,
            endpoints.end_own_session,
            "End one of your logins and its live connections.",
            status=204,
            errors=(NotFound, Unavailable),
            role="viewer",
        ),
        Route(
            "GET",
            others,
            RouteGroup.EXTENDED,
            endpoints.list_user_sessions,
            "List the logins of a user.",
            response_type=LoginsView,
            errors=(NotFound,),
            role="administrator",
        ),
        Route(
            "DELETE",
            f"{others}/{{sessionId}}",
            RouteGroup.EXTENDED,
            endpoints.end_user_session,
            "End one login of a user and its live connections.",
            status=204,
            errors=(NotFound, Unavailable),
            role="administrator",
        ),
    )
