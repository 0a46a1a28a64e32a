"""Starts the HTTP server with all routes."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterable
from itertools import chain
from typing import NamedTuple

from tornado.netutil import bind_sockets

from agentd.app import system_api
from agentd.app.auth import AuthServices
from agentd.app.system_api import SystemEndpoints
from agentd.auth import logins_api, session_api, users_api
from agentd.auth.gate import Gate
from agentd.auth.logins_api import LoginEndpoints
from agentd.auth.session_api import SessionEndpoints
from agentd.auth.users_api import UserEndpoints
from agentd.chats.service import ChatService
from agentd.core.clock import SystemClock
from agentd.core.errors import Unavailable
from agentd.gateway.relay.error_bodies import get_renderer_for_unknown_path
from agentd.http.access_log import AccessLog
from agentd.http.connections import ConnectionRegistry
from agentd.http.context import CredentialSources, ServerContext
from agentd.http.cookies import SessionCookie
from agentd.http.routing import DeferredRoutes, Route, RouteTable
from agentd.http.server import HttpServer
from agentd.http.throttle import AuthThrottle
from agentd.http.trusted_proxies import TrustedProxies
from agentd.live import api as live_api
from agentd.live.feed import Feed
from agentd.live.hub import Hub
from agentd.live.sse_api import EventStreamEndpoint
from agentd.settings.model import Settings
from agentd.system.ports import HOST_HELP, explain_unusable_host


class LiveEvents(NamedTuple):
    """The services that live connections and the sign-in throttle need."""

    feed: Feed
    connections: ConnectionRegistry
    on_failed_sign_in: Callable[[str, str], None]
    """Records failed sign-ins to the gateway's management, by text and address."""
    proxies: TrustedProxies


CANCEL_SECONDS = 12.0
"""Seconds until cancelled requests must have ended, such as git with its locks and hooks."""
FINISH_SECONDS = 2.0
"""Seconds for running requests to finish before they are cancelled."""


class ComponentRoutes(NamedTuple):
    """The routes of the components: those of the start, and those built at first use."""

    eager: tuple[Route, ...]
    deferred: tuple[DeferredRoutes, ...]


def build_table(*routes: Iterable[Route], deferred: Iterable[DeferredRoutes] = ()) -> RouteTable:
    """Return the table of all routes.

    Dispatch, OpenAPI and the tests read this table; nothing else is reachable. Errors for unknown
    paths of model APIs are rendered in the dialect of the path.
    """
    return RouteTable(chain(*routes), get_renderer_for_unknown_path, deferred)


class ServerUrls(NamedTuple):
    """The URLs of the daemon."""

    local: str
    """The address for programs on this machine; always plain http."""
    public: str
    """The address for browsers."""


async def start_http_server(
    stack: contextlib.AsyncExitStack,
    settings: Settings,
    chats: ChatService,
    auth: AuthServices,
    more: ComponentRoutes,
    live: LiveEvents,
    tls: ssl.SSLContext | None = None,
) -> ServerUrls:
    """Start serving requests; with ``tls`` by https, and for this machine's programs by http too.

    These know the certificate's authority as little as its names.
    """
    clock = SystemClock()
    access_log = AccessLog(clock)
    stack.callback(access_log.flush)
    system = SystemEndpoints(chats, access_log, clock)
    feed, connections, on_failed_sign_in, proxies = live
    hub = Hub(feed, connections, clock.monotonic)
    keys, sessions, _, user_file, access, management_keys, on_sessions_end, on_keys_change = auth
    throttle = AuthThrottle(note=on_failed_sign_in)
    sockets = _bind(settings)
    host, port = sockets[0].getsockname()[:2]
    cookie = SessionCookie(port)
    stream = EventStreamEndpoint(feed, connections)
    routes = build_table(
        session_api.routes(SessionEndpoints(sessions, throttle, cookie)),
        logins_api.routes(LoginEndpoints(sessions)),
        users_api.routes(
            UserEndpoints(
                sessions, user_file, throttle, has_administrator=bool(settings.admin_user)
            )
        ),
        live_api.routes(hub, stream),
        system_api.routes(system),
        more.eager,
        deferred=more.deferred,
    )
    system.describe(routes)
    gate = Gate(keys, sessions, access, settings.proxy_app_hash, management_keys)
    sources = CredentialSources(keys, sessions, access, management_keys)
    context = ServerContext(
        routes, gate, sources, connections.hosts, access_log, throttle, proxies, cookie
    )
    access.on_revoked(context.cancel_revoked)
    management_keys.on_revoked(context.cancel_management_keys)
    for listeners in (on_keys_change, on_sessions_end):
        listeners.append(lambda _: context.end_refused_reads())
    server = HttpServer(context, tls)
    await server.start(sockets)
    stack.push_async_callback(_stop_server, server, context)
    local = await _start_local_server(stack, context) if tls else ""
    stack.callback(hub.close)
    stack.callback(connections.close_all)
    url = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
    return ServerUrls(local or url, url)


async def _start_local_server(stack: contextlib.AsyncExitStack, context: ServerContext) -> str:
    server = HttpServer(context)
    sockets = bind_sockets(0, "127.0.0.1")
    await server.start(sockets)
    stack.push_async_callback(_stop_server, server, context)
    return f"http://127.0.0.1:{sockets[0].getsockname()[1]}"


def _bind(settings: Settings) -> list[socket.socket]:
    # Tornado's sockets of IPv6 take no IPv4; without an address, it makes those of both.
    address = None if settings.host == "::" else settings.host
    try:
        return bind_sockets(settings.port, address, reuse_port=False)
    except OSError as error:  # also that the name of a host is not known
        is_about_host = bool(explain_unusable_host(settings.host))
        raise Unavailable(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}",
            HOST_HELP if is_about_host else "Stop what listens there, or choose another --port.",
        ) from error


async def _stop_server(server: HttpServer, context: ServerContext) -> None:
    """Stop accepting, let running requests finish for a moment, then cancel the rest."""
    server.stop()
    if context.active_requests:
        await asyncio.wait(context.active_requests, timeout=FINISH_SECONDS)
    late = dict(context.active_requests)
    for request in late.values():
        request.interrupt(Unavailable("The daemon is stopping; the request was cancelled"))
    if late:
        await asyncio.wait(late, timeout=CANCEL_SECONDS)
    await server.close_connections()
