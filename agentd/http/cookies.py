"""Session tokens in requests, session cookies, and the defence against cross-site requests (CSRF).

A browser adds the cookie to every request to this host, whatever page made it. ``SameSite`` stops
other sites, but not pages from other ports of this machine. So a request with a cookie must come
from our own origin, as far as the browser says, and needs the session's ``X-XSRF-Token`` when it
changes something.

Browsers send a host's cookies to all of its ports, so the daemon's own port is in the name of its
cookie: two daemons of one host, or behind one host name, do not sign each other out.
"""

import hmac
import re
from datetime import timedelta
from typing import NamedTuple

from tornado.httputil import HTTPHeaders

from agentd.core.errors import Forbidden
from agentd.http.access import SAFE_METHODS

MAX_SESSION_AGE = timedelta(days=30)
"""A session ends this long after its login, however much it is used."""


def make_xsrf_token(session_token: str) -> str:
    """Return the XSRF token of a session, which pages of other origins cannot know."""
    key = session_token.encode("utf-8", "surrogatepass")
    return hmac.new(key, b"agentd xsrf", "sha256").hexdigest()


def is_xsrf_token(session_token: str, sent: str | None) -> bool:
    """Return whether this is the XSRF token of the session; compares in constant time."""
    expected = make_xsrf_token(session_token).encode()
    return hmac.compare_digest(expected, (sent or "").encode("utf-8", "surrogatepass"))


XSRF = "X-XSRF-Token"

_TOKEN = re.compile("[0-9a-f]{64}")


class SentToken(NamedTuple):
    """The session token of a request, if any, and whether it came as a cookie."""

    token: str | None
    by_cookie: bool = False


NO_TOKEN = SentToken(None)


class SessionCookie:
    """The cookie of the daemon that listens on this port."""

    def __init__(self, port: int) -> None:
        self.name = f"agentd-session-{port}"
        self.secure_name = f"__Host-{self.name}"
        """Its name where it is ``Secure``: no other host can have set it."""

    def read_token(self, headers: HTTPHeaders) -> SentToken:
        """Return the token of ``Authorization: Bearer`` if there is one, or else of the cookie.

        Two cookies of the same name with different values count as none: either may be forged.
        """
        kind, _, bearer = headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return SentToken(bearer.strip())
        if "Cookie" not in headers:
            return NO_TOKEN
        pairs = [pair.partition("=") for pair in headers["Cookie"].split(";")]
        for name in (self.secure_name, self.name):
            found = {value.strip() for key, _, value in pairs if key.strip() == name}
            if found:
                token = found.pop()
                return SentToken(None if found or not _TOKEN.fullmatch(token) else token, True)
        return NO_TOKEN

    def render(
        self,
        token: str,
        headers: HTTPHeaders,
        lifetime: timedelta = MAX_SESSION_AGE,
        *,
        by_https: bool = False,
    ) -> str:
        """Return ``Set-Cookie`` for a new session, or, with an empty token, to delete the cookie.

        It is ``Secure`` where the page was loaded by https, as ``Origin`` says, or the connection
        or a trusted proxy (``by_https``).
        """
        secure = by_https or headers.get("Origin", "").lower().startswith("https://")
        age = int(lifetime.total_seconds()) if token else 0
        name = self.secure_name if secure else self.name
        parts = [f"{name}={token}", "Path=/", f"Max-Age={age}"]
        return "; ".join([*parts, "HttpOnly", "SameSite=Strict", *(["Secure"] if secure else [])])


def check_same_origin(headers: HTTPHeaders) -> None:
    """Raise ``Forbidden`` when the browser says that a page of another origin sent this."""
    origin, site = headers.get("Origin"), headers.get("Sec-Fetch-Site")
    if (origin is not None and not _is_own_origin(origin, headers)) or (
        site is not None and site not in ("same-origin", "none")
    ):
        raise Forbidden(
            "A page of another origin may not use your login",
            "A proxy in front of agentd must pass the Host header on unchanged.",
        )


def check_csrf(method: str, headers: HTTPHeaders, token: str) -> None:
    """Raise ``Forbidden`` unless one of our own pages sent this request with its cookie."""
    check_same_origin(headers)
    if method not in SAFE_METHODS and not is_xsrf_token(token, headers.get(XSRF)):
        raise Forbidden(
            f"{XSRF} is missing or wrong", "Signing in returns it, and so does GET /api/session."
        )


def _is_own_origin(origin: str, headers: HTTPHeaders) -> bool:
    return origin.partition("://")[2].lower() == headers.get("Host", "").lower() != ""
