"""The daemon's door: who is let in, what is told, and where it listens."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tornado.netutil import bind_sockets

from agentd.access.gate import Gate
from agentd.access.login import User, signed_in_by_code
from agentd.access.people import People
from agentd.access.service import KeyService
from agentd.catalog.settings import Settings, administrator
from agentd.chats.service import ChatService
from agentd.clock import SystemClock
from agentd.disk.access_key_book import AccessKeyBook
from agentd.disk.access_keys import AccessKeyFile
from agentd.disk.keys import KeyFile
from agentd.disk.layout import Layout
from agentd.disk.reload import Reloaded
from agentd.disk.sessions import SessionFile
from agentd.disk.users import UserFile
from agentd.errors import Mistake, Unavailable
from agentd.events import Bus, KeysUpdate
from agentd.web.access_log import AccessLog
from agentd.web.agent import AgentAtWork
from agentd.web.desk import Desk
from agentd.web.event_stream import EventStream
from agentd.web.feed import Feed
from agentd.web.forwarded import TrustedProxies
from agentd.web.hub import Hub
from agentd.web.live import Roll
from agentd.web.remote import Remote
from agentd.web.routes import table
from agentd.web.server import Server
from agentd.web.session import Sessions
from agentd.web.system import System
from agentd.web.table import Route
from agentd.web.users import Users
from agentd.web.wrong_keys import WrongKeys


class Line(NamedTuple):
    """Who is told of what happens, and what."""

    feed: Feed
    roll: Roll
    failed: Callable[[str, str], None]
    """Is told of failed sign-ins to the gateway's management: what, and from where."""
    proxies: TrustedProxies
    """Who may say for whom it calls."""


class Doorkeepers(NamedTuple):
    """Who decides who is let in."""

    keys: KeyService
    people: People
    users: Reloaded[tuple[User, ...]]
    book: UserFile
    access: AccessKeyBook


INTERRUPTED_SECONDS = 12.0
"""What is cancelled may take this long to end, such as git with its locks and its hooks."""
HANG_UP_SECONDS = 2.0


async def doorkeepers_of(
    stack: contextlib.AsyncExitStack, settings: Settings, layout: Layout, roll: Roll, bus: Bus
) -> Doorkeepers:
    """The keys and the logins, as their files say now; who loses his is cut off."""
    clock = SystemClock()

    def keys_changed(lost: frozenset[str]) -> None:
        roll.revoke(lost)
        bus.publish(KeysUpdate(keys.names))

    keys = KeyService(KeyFile(layout), clock, settings.agent_api_key, keys_changed)
    await keys.start()
    stack.push_async_callback(keys.stop)

    nobody: tuple[User, ...] = ()
    book = UserFile(layout)

    def users_changed() -> None:
        people.users_changed()

    users = Reloaded(layout.users, book.load, nobody, users_changed)
    stack.push_async_callback(users.stop)
    admin = administrator(settings)
    by_code = signed_in_by_code(settings.proxy_app_hash, admin)
    people = People(SessionFile(layout), users, clock, admin, roll.sign_out, by_code)
    await people.start()
    stack.push_async_callback(people.stop)
    access = AccessKeyBook(AccessKeyFile(layout), clock)
    await access.fresh()
    stack.push_async_callback(access.stop)
    return Doorkeepers(keys, people, users, book, access)


def open_door(
    stack: contextlib.AsyncExitStack,
    settings: Settings,
    chats: ChatService,
    remote: Remote,
    at_work: AgentAtWork,
    doorkeepers: Doorkeepers,
    more: Iterable[Route],
    line: Line,
) -> str:
    """Answer requests from now on; the address."""
    clock = SystemClock()
    access_log = AccessLog(clock)
    stack.callback(access_log.flush)
    system = System(chats, access_log, clock)
    feed, roll, failed, proxies = line
    hub = Hub(feed, roll, clock.monotonic)
    keys, people, _, book, access = doorkeepers
    wrong_keys = WrongKeys(note=failed)
    sessions, users = Sessions(people, wrong_keys), Users(people, book)
    stream = EventStream(feed, roll)
    routes = table(remote, at_work, sessions, users, hub, stream, system, more)
    system.describe(routes)
    gate = Gate(keys, people, access, settings.proxy_app_hash)
    desk = Desk(routes, gate, keys, people, roll.hosts, access_log, wrong_keys, access, proxies)
    access.hear(desk.dismiss)
    server, url = _listen(settings, desk)
    stack.push_async_callback(_hang_up, server, desk)
    stack.callback(hub.close)
    stack.callback(roll.close)
    return url


def _listen(settings: Settings, desk: Desk) -> tuple[Server, str]:
    try:
        sockets = bind_sockets(settings.port, settings.host, reuse_port=False)
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {settings.host}:{settings.port}: {os.strerror(error.errno or 0)}",
            "Stop what listens there, or choose another --port.",
        ) from error
    server = Server(desk)
    server.add_sockets(sockets)
    host, port = sockets[0].getsockname()[:2]
    return server, f"http://{f'[{host}]' if ':' in host else host}:{port}"


async def _hang_up(server: Server, desk: Desk) -> None:
    """Take no new connection, let the answers that are being made be given, cancel the rest."""
    server.stop()
    if desk.at_work:
        await asyncio.wait(desk.at_work, timeout=HANG_UP_SECONDS)
    late = dict(desk.at_work)
    for exchange in late.values():
        exchange.interrupt(Unavailable("The daemon is stopping; this was given up"))
    if late:
        await asyncio.wait(late, timeout=INTERRUPTED_SECONDS)
    await server.close_all_connections()


def mistakes_of(
    layout: Layout, doors: Doorkeepers, *files: Reloaded[Any]
) -> Callable[[], Iterator[Mistake]]:
    """Tells what is wrong with further files that people edit."""

    def wrong() -> Iterator[Mistake]:
        if doors.keys.trouble:
            yield Mistake(layout.keys, 0, doors.keys.trouble)
        for file in (doors.users, *files):
            yield from file.mistakes

    return wrong
