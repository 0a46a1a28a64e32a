"""Wires authentication: the services of keys, users and sessions."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from os.path import basename
from typing import Any, NamedTuple

from agentd.auth.events import KeysUpdate
from agentd.auth.key_service import KeyService
from agentd.auth.key_store import KeyFile
from agentd.auth.roles import User, explain_refused_name, get_code_user
from agentd.auth.session_store import SessionFile
from agentd.auth.sessions import SessionManager
from agentd.auth.sign_in_links import SignInLinks
from agentd.auth.user_store import UserFile
from agentd.core.clock import SystemClock
from agentd.core.errors import ConfigProblem
from agentd.core.events import EventBus
from agentd.gateway.keys.file import AccessKeyFile
from agentd.gateway.keys.store import AccessKeyRepository
from agentd.gateway.management_keys.store import ManagementKeyRepository
from agentd.gateway.updates import GatewayConfigUpdate
from agentd.http.connections import ConnectionRegistry
from agentd.settings.model import Settings, get_administrator
from agentd.storage.layout import Layout
from agentd.storage.settled_clock import SettledClock
from agentd.storage.watched_file import WatchedFile


class AuthServices(NamedTuple):
    """The services behind the gate."""

    keys: KeyService
    sessions: SessionManager
    users: WatchedFile[tuple[User, ...]]
    user_file: UserFile
    access: AccessKeyRepository
    management_keys: ManagementKeyRepository
    on_sessions_end: list[Callable[[frozenset[str]], None]]
    """Called with the ids of logins that have ended."""
    on_keys_change: list[Callable[[frozenset[str]], None]]
    """Called when API keys have changed, with the names of those that are no longer valid."""


async def build_auth(
    stack: contextlib.AsyncExitStack,
    settings: Settings,
    layout: Layout,
    connections: ConnectionRegistry,
    bus: EventBus,
    settled: SettledClock,
) -> AuthServices:
    """Build the key and session services; revoked keys and sessions are disconnected."""
    clock = SystemClock()
    on_keys_change: list[Callable[[frozenset[str]], None]] = [connections.close_keys]

    def apply_keys(lost: frozenset[str]) -> None:
        for listener in on_keys_change:
            listener(lost)
        bus.publish(KeysUpdate(keys.key_names))

    keys = KeyService(
        KeyFile(layout, AccessKeyFile(layout)), clock, settings.agent_api_key, apply_keys
    )
    await keys.start()
    stack.push_async_callback(keys.stop)

    user_file = UserFile(layout)

    on_sessions_end: list[Callable[[frozenset[str]], None]] = [connections.close_sessions]

    def end_sessions(ended: frozenset[str]) -> None:
        for listener in on_sessions_end:
            listener(ended)

    def on_users_change() -> None:
        sessions.apply_users()

    users = WatchedFile[tuple[User, ...]](layout.users, user_file.load, (), on_users_change)
    stack.push_async_callback(users.stop)
    admin = get_administrator(settings)
    by_code = get_code_user(settings.proxy_app_hash, admin)
    sessions = SessionManager(
        SessionFile(layout),
        users,
        clock,
        settled.now,
        admin,
        end_sessions,
        by_code,
        SignInLinks(layout, clock).redeem,
    )
    await sessions.start()
    stack.push_async_callback(sessions.stop)
    access, management_keys = await _build_gateway_keys(stack, layout, connections, bus)
    return AuthServices(
        keys, sessions, users, user_file, access, management_keys, on_sessions_end, on_keys_change
    )


async def _build_gateway_keys(
    stack: contextlib.AsyncExitStack,
    layout: Layout,
    connections: ConnectionRegistry,
    bus: EventBus,
) -> tuple[AccessKeyRepository, ManagementKeyRepository]:
    clock = SystemClock()
    access = AccessKeyRepository(AccessKeyFile(layout), clock)
    await access.ensure_current()
    stack.push_async_callback(access.stop)
    management_keys = ManagementKeyRepository(layout, clock)
    management_keys.on_revoked(connections.close_management_keys)
    await management_keys.start()
    stack.push_async_callback(management_keys.stop)
    for store, path in ((access, layout.access_keys), (management_keys, layout.management_keys)):
        store.on_changed = partial(bus.publish, GatewayConfigUpdate(basename(path)))
    return access, management_keys


def report_problems(
    layout: Layout, auth: AuthServices, *files: WatchedFile[Any]
) -> Callable[[], Iterator[ConfigProblem]]:
    """Return a function that lists the problems of the key, user and other edited files."""

    def list_problems() -> Iterator[ConfigProblem]:
        if auth.keys.problem:
            yield ConfigProblem(layout.keys, 0, auth.keys.problem)
        yield from auth.management_keys.problems
        for name in auth.sessions.directory.refused:
            yield ConfigProblem(layout.users, 0, explain_refused_name(name))
        for file in (auth.users, *files):
            yield from file.problems

    return list_problems
