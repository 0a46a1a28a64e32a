"""The login that a request brings, and whether a page of ours sent it.

A browser adds the cookie to whatever any page sends here. ``SameSite`` holds back other sites, yet
not other ports of this machine: so a request by cookie must be of our own origin where the browser
tells, and bring the session's ``X-XSRF-Token`` where it changes something.
"""

import re
from datetime import timedelta
from typing import NamedTuple

from tornado.httputil import HTTPHeaders

from agentd.access.login import LONGEST, SAFE, proves
from agentd.errors import Forbidden

NAME = "agentd-session"
HOST_NAME = f"__Host-{NAME}"
"""Its name where it is ``Secure``: no other host can have set it."""

XSRF = "X-XSRF-Token"

_TOKEN = re.compile("[0-9a-f]{64}")


class Login(NamedTuple):
    """The session token that a request brought, if any, and whether as a cookie."""

    token: str | None
    by_cookie: bool = False


NO_LOGIN = Login(None)
"""Nobody is signed in."""


def login_of(headers: HTTPHeaders) -> Login:
    """The login in ``Authorization: Bearer``, which then decides, or else in a cookie.

    Of two different cookies of one name nobody can say which was meant: they are none.
    """
    kind, _, bearer = headers.get("Authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return Login(bearer.strip())
    if "Cookie" not in headers:
        return NO_LOGIN
    pairs = [pair.partition("=") for pair in headers["Cookie"].split(";")]
    for name in (HOST_NAME, NAME):
        found = {value.strip() for key, _, value in pairs if key.strip() == name}
        if found:
            token = found.pop()
            return Login(None if found or not _TOKEN.fullmatch(token) else token, True)
    return NO_LOGIN


def check_own_page(headers: HTTPHeaders) -> None:
    """Raise ``Forbidden`` when the browser tells that a page of another origin sent this."""
    origin, site = headers.get("Origin"), headers.get("Sec-Fetch-Site")
    if (origin is not None and not _is_ours(origin, headers)) or (
        site is not None and site not in ("same-origin", "none")
    ):
        raise Forbidden(
            "A page of another origin may not use your login",
            "A proxy in front of agentd must pass the Host header on unchanged.",
        )


def check_by_cookie(method: str, headers: HTTPHeaders, token: str) -> None:
    """Raise ``Forbidden`` unless a page of ours sent this with the cookie of a good session."""
    check_own_page(headers)
    if method not in SAFE and not proves(token, headers.get(XSRF)):
        raise Forbidden(
            f"{XSRF} is missing or wrong", "Signing in tells it, and so does GET /api/session."
        )


def cookie(
    token: str, headers: HTTPHeaders, lasting: timedelta = LONGEST, *, by_https: bool = False
) -> str:
    """``Set-Cookie`` for a new session, or, with an empty token, to forget the one before.

    It is ``Secure`` where the page that asks came by https, as the browser itself tells, or the
    proxy (``by_https``): agentd speaks http, and what is in front of it may not.
    """
    secure = by_https or headers.get("Origin", "").lower().startswith("https://")
    age = int(lasting.total_seconds()) if token else 0
    parts = [f"{HOST_NAME if secure else NAME}={token}", "Path=/", f"Max-Age={age}"]
    return "; ".join([*parts, "HttpOnly", "SameSite=Strict", *(["Secure"] if secure else [])])


def _is_ours(origin: str, headers: HTTPHeaders) -> bool:
    return origin.partition("://")[2].lower() == headers.get("Host", "").lower() != ""
