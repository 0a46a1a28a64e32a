"""The shared context of all requests: routes, authentication, host names, logs and timeouts."""

import asyncio
import time
from typing import NamedTuple, Protocol

from tornado.httputil import format_timestamp

from agentd.core.errors import AgentdError
from agentd.http.access import Authenticator
from agentd.http.access_log import AccessLog
from agentd.http.cookies import SessionCookie
from agentd.http.hosts import Hosts
from agentd.http.routing import RouteTable
from agentd.http.throttle import AuthThrottle
from agentd.http.timeout_queue import TimeoutQueue
from agentd.http.trusted_proxies import TrustedProxies

HEAD_TIMEOUT = 10.0
"""Seconds until a request's head must have arrived, and so how long a connection may idle."""
WRITE_TIMEOUT = 300.0
"""Seconds until the client must have read what was written, such as a chunk of a stream."""
ABORT_TIMEOUT = 5.0
"""Seconds that a client has to read the end of a stream whose access key was revoked."""
BODY_TIMEOUT = 30.0
"""Seconds until a whole body must have arrived."""
UPLOAD_TIMEOUT = 900.0
"""Seconds that the whole of a streamed body may take."""
LINGER_TIMEOUT = 5.0
"""Seconds in which a refused client may read why: an upload in one piece should end before that."""


class Abortable(Protocol):
    """A connection that can be closed at once (``http_connection.HttpConnection``)."""

    def abort(self) -> None:
        """Close it, whatever was not sent yet."""
        ...


def _make_timeouts(seconds: float) -> "TimeoutQueue[Abortable]":
    return TimeoutQueue(seconds, lambda connection: connection.abort())


class Refreshable(Protocol):
    """Credentials that the gate checks: keys (``KeyService``) or logins (``SessionManager``)."""

    async def ensure_current(self) -> None:
        """Return once the last edit of their file is in effect."""
        ...


class CredentialSources(NamedTuple):
    """All that is behind the gate."""

    keys: Refreshable
    sessions: Refreshable
    access_keys: Refreshable
    management_keys: Refreshable


class ActiveRequest(Protocol):
    """A request whose response is under way (``request_handler.RequestHandler``)."""

    def cancel_revoked(self, key_ids: frozenset[str]) -> None:
        """Cancel the request if its access key is one of these, which are revoked or expired."""
        ...

    def cancel_management_keys(self, names: frozenset[str]) -> None:
        """End a request that reads with one of these management keys, which are revoked."""
        ...

    def end_refused_read(self) -> None:
        """End a request that reads with an API key or a login that is no longer valid."""
        ...

    def interrupt(self, error: AgentdError) -> None:
        """Cancel the request; answer ``error`` if the response has not started yet."""
        ...


class ServerContext:
    """The shared context of all requests: routes, gate, host names, logs and timeouts."""

    def __init__(
        self,
        table: RouteTable,
        gate: Authenticator,
        credentials: CredentialSources,
        hosts: Hosts,
        access_log: AccessLog,
        throttle: AuthThrottle,
        proxies: TrustedProxies,
        session_cookie: SessionCookie,
    ) -> None:
        self.table = table
        self.gate = gate
        self.keys, self.sessions, self.access_keys, self.management_keys = credentials
        self.hosts = hosts
        self.proxies = proxies
        self.session_cookie = session_cookie
        self.access_log = access_log
        self.throttle = throttle
        self.active_requests: dict[asyncio.Future[None], ActiveRequest] = {}
        """The requests whose response is under way, by their task."""
        self.head_timeouts = _make_timeouts(HEAD_TIMEOUT)
        """The connections that wait for a request's head."""
        self.body_timeouts = _make_timeouts(BODY_TIMEOUT)
        """The connections that wait for a request's body."""
        self.upload_timeouts = _make_timeouts(UPLOAD_TIMEOUT)
        """The connections that wait for a streamed body."""
        self.write_timeouts = _make_timeouts(WRITE_TIMEOUT)
        """The connections whose client has to read what was written."""
        self.abort_timeouts = _make_timeouts(ABORT_TIMEOUT)
        """The connections whose response ends because its access key was revoked."""
        self.linger_timeouts = _make_timeouts(LINGER_TIMEOUT)
        """The refused connections whose client still has to read why."""
        self.timeouts = (
            self.head_timeouts,
            self.body_timeouts,
            self.upload_timeouts,
            self.write_timeouts,
            self.abort_timeouts,
            self.linger_timeouts,
        )
        """All of these: a connection that was closed leaves each."""
        self._date = ("", 0.0)

    def cancel_revoked(self, key_ids: frozenset[str]) -> None:
        """Cancel the requests of these access keys, which are revoked or expired."""
        for request in list(self.active_requests.values()):
            request.cancel_revoked(key_ids)

    def cancel_management_keys(self, names: frozenset[str]) -> None:
        """End the requests of these management keys, which are no longer valid."""
        for request in list(self.active_requests.values()):
            request.cancel_management_keys(names)

    def end_refused_reads(self) -> None:
        """End the requests that read with API keys or logins that are no longer valid."""
        for request in list(self.active_requests.values()):
            request.end_refused_read()

    def get_date(self) -> str:
        """Return the value of the ``Date`` header; it is formatted once a second."""
        text, made = self._date
        now = time.monotonic()
        if now - made >= 1 or not text:
            text = format_timestamp(time.time())
            self._date = (text, now)
        return text
