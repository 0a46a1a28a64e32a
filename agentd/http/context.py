"""The shared context of all requests: routes, authentication, host names, logs and timeouts."""

import asyncio
import time
from typing import NamedTuple, Protocol

from tornado.http1connection import HTTP1Connection
from tornado.httputil import format_timestamp
from tornado.iostream import IOStream

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
"""Seconds until the client must have read a chunk of a streamed response."""
ABORT_TIMEOUT = 5.0
"""Seconds that a client has to read the end of a stream whose access key was revoked."""
BODY_TIMEOUT = 30.0
"""Seconds until a whole body must have arrived."""


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
        self.head_timeouts: TimeoutQueue[IOStream] = TimeoutQueue(HEAD_TIMEOUT, IOStream.close)
        """The connections that wait for a request's head."""
        self.body_timeouts = TimeoutQueue(BODY_TIMEOUT, HTTP1Connection.close)
        """The connections that wait for a request's body."""
        self.write_timeouts: TimeoutQueue[IOStream] = TimeoutQueue(WRITE_TIMEOUT, IOStream.close)
        """The connections whose client has to read a chunk of a response."""
        self.abort_timeouts: TimeoutQueue[IOStream] = TimeoutQueue(ABORT_TIMEOUT, IOStream.close)
        """The connections whose response ends because its access key was revoked."""
        self._date = ("", 0.0)

    def cancel_revoked(self, key_ids: frozenset[str]) -> None:
        """Cancel the requests of these access keys, which are revoked or expired."""
        for request in list(self.active_requests.values()):
            request.cancel_revoked(key_ids)

    def cancel_management_keys(self, names: frozenset[str]) -> None:
        """End the requests of these management keys, which are no longer valid."""
        for request in list(self.active_requests.values()):
            request.cancel_management_keys(names)

    def get_date(self) -> str:
        """Return the value of the ``Date`` header; it is formatted once a second."""
        text, made = self._date
        now = time.monotonic()
        if now - made >= 1 or not text:
            text = format_timestamp(time.time())
            self._date = (text, now)
        return text
