"""Signing in and out: the endpoints and routes of ``/api/session``.

A browser gets a cookie that no script can read. A program asks for the token itself, with
``"bearer": true``, and sends it as ``Authorization: Bearer``. Source: the remote-control
specification, section 5, rule 7; for one-time codes the proxy specification, section 3.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from agentd.auth.devices import describe_device
from agentd.auth.password import MAX_LENGTH as MAX_PASSWORD_LENGTH
from agentd.auth.roles import CODE_SESSION_LIFETIME, LoginOrigin
from agentd.auth.sessions import NewSession, SessionManager
from agentd.core.clock import Timestamp
from agentd.core.errors import (
    BadRequest,
    Forbidden,
    LimitReached,
    NotFound,
    Unauthorized,
    Unavailable,
)
from agentd.http.access import Role, RouteGroup
from agentd.http.cookies import MAX_SESSION_AGE, SessionCookie, check_same_origin, make_xsrf_token
from agentd.http.parameters import make_choice_parameter
from agentd.http.request import Request, Response
from agentd.http.routing import Route
from agentd.http.throttle import AuthThrottle, get_network

MAX_CODE_LENGTH = 100
"""Characters of a code as it is entered, with blanks and dashes."""

MAX_SIGN_IN_BYTES = 32 * 1024
"""The largest body of a sign-in: room for the longest password with every character escaped.

Anybody may send one, so it must not cost more than reading it.
"""


class SignIn(Struct, frozen=True):
    """A login by user name and password, or by a one-time code alone."""

    user: Annotated[str, Meta(max_length=256)] | None = None
    """The user name, together with the password."""
    password: Annotated[str, Meta(max_length=MAX_PASSWORD_LENGTH)] | None = None
    """The password."""
    code: Annotated[str, Meta(max_length=MAX_CODE_LENGTH)] | None = None
    """A one-time code, alone."""
    bearer: bool = False
    """True to return a token, for a program, instead of setting a cookie."""


class SignedInView(Struct, frozen=True, rename="camel"):
    """A new login."""

    user: str
    """The name of the user."""
    role: Role
    """The role of the user."""
    xsrf: str
    """The value of X-XSRF-Token, which a page must send with each change."""
    expires_at: Timestamp
    """When the login expires."""
    token: str | None
    """The Bearer token for a program; null: a cookie was set."""


class SessionView(Struct, frozen=True, rename="camel"):
    """The caller: an API key, which has no ``xsrf`` and does not expire, or a login."""

    kind: Literal["nobody", "key", "user"]
    user: str
    role: Role
    xsrf: str
    expires_at: Timestamp | None


class SessionEndpoints:
    """Sign in, show the current session, sign out."""

    def __init__(
        self, sessions: SessionManager, throttle: AuthThrottle, cookie: SessionCookie
    ) -> None:
        self._sessions = sessions
        self._cookie = cookie
        self._throttle = throttle

    async def sign_in(self, call: Request) -> Response:
        """Start a session; the session of a cookie that was sent along ends."""
        check_same_origin(call.headers)
        payload = call.parse_json(SignIn)
        network = get_network(call.remote_ip)
        try:
            signed = await self._start_session(payload, network, _get_origin(call))
        except Unauthorized as error:
            if self._throttle.record_failure(call.remote_ip):
                await self._throttle.raise_delayed(error)
            self._sessions.log_failed_sign_in(payload.user or "", network)
            raise
        await self._end_previous(call)
        view = SignedInView(
            signed.caller.name,
            signed.caller.role,
            make_xsrf_token(signed.token),
            signed.expires_at,
            signed.token if payload.bearer else None,
        )
        if payload.bearer:
            return Response(view)
        lasting = MAX_SESSION_AGE if payload.code is None else CODE_SESSION_LIFETIME
        set_cookie = self._cookie.render(
            signed.token, call.headers, lasting, by_https=call.is_https
        )
        return Response(view, headers={"Set-Cookie": set_cookie})

    def get_session(self, call: Request) -> Response:
        """Return the caller."""
        caller = call.caller
        if caller.kind != "user":
            kind: Literal["nobody", "key"] = "key" if caller.kind == "key" else "nobody"
            return Response(SessionView(kind, caller.name, caller.role, "", None))
        token = self._cookie.read_token(call.headers).token or ""
        ends = self._sessions.get_expiry(caller)
        return Response(SessionView("user", caller.name, caller.role, make_xsrf_token(token), ends))

    async def sign_out(self, call: Request) -> Response:
        """End this login, or with ``?everywhere=true`` every login of the user."""
        everywhere = call.get_flag("everywhere")
        await self._sessions.sign_out(call.caller, everywhere=everywhere)
        if not self._cookie.read_token(call.headers).by_cookie:
            return Response(status=204)
        forget = self._cookie.render("", call.headers, by_https=call.is_https)
        return Response(status=204, headers={"Set-Cookie": forget})

    async def _start_session(
        self, payload: SignIn, network: str, origin: LoginOrigin
    ) -> NewSession:
        match payload:
            case SignIn(code=None, user=str(name), password=str(entered)):
                return await self._sessions.sign_in(name, entered, network, origin)
            case SignIn(code=str(code), user=None, password=None):
                return await self._sessions.sign_in_with_code(code, network, origin)
        raise BadRequest("Send user and password, or a one-time code alone")

    async def _end_previous(self, call: Request) -> None:
        """End the session of the cookie that the browser is about to replace.

        Without its cookie nobody could sign it out any more.
        """
        login = self._cookie.read_token(call.headers)
        before = self._sessions.get_caller(login.token) if login.by_cookie and login.token else None
        if before:
            await self._sessions.sign_out(before)


def _get_origin(call: Request) -> LoginOrigin:
    return LoginOrigin(describe_device(call.headers.get("User-Agent", "")), call.remote_ip)


EVERYWHERE = make_choice_parameter(
    "everywhere", "true ends every login of this user, not only this one.", ("true", "false")
)


def routes(endpoints: SessionEndpoints) -> tuple[Route, ...]:
    """Return the routes of the session."""
    path = "/api/session"
    return (
        Route(
            "POST",
            path,
            RouteGroup.OPEN,
            endpoints.sign_in,
            "Sign in by password or one-time code; sets a cookie or returns a token.",
            request_type=SignIn,
            example={"user": "ann", "password": "correct horse battery staple"},
            response_type=SignedInView,
            errors=(BadRequest, Unauthorized, Forbidden, LimitReached, Unavailable),
            section="5, rule 7",
            max_body=MAX_SIGN_IN_BYTES,
        ),
        Route(
            "GET",
            path,
            RouteGroup.EXTENDED,
            endpoints.get_session,
            "Show who is calling, by key or by login.",
            operation_id="get_session",
            response_type=SessionView,
            section="5, rule 6",
        ),
        Route(
            "DELETE",
            path,
            RouteGroup.EXTENDED,
            endpoints.sign_out,
            "Sign out; the live connections of the login end.",
            status=204,
            errors=(NotFound, Unavailable),
            parameters=(EVERYWHERE,),
            role="viewer",
        ),
    )
