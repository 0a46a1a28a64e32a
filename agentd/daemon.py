"""The composition root: who is introduced to whom, started in pairs and stopped in reverse.

``run`` is the daemon's life: take the state folder, read the keys, close what a crash left
open, dispatch, listen, say that it is ready; and all of it backwards on SIGTERM or SIGINT.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tornado.netutil import bind_sockets

from agentd.access.gate import Gate
from agentd.access.login import User
from agentd.access.people import People
from agentd.access.service import KeyService
from agentd.agent.engine import Engine
from agentd.agent.service import Dispatcher
from agentd.catalog.settings import Settings, administrator
from agentd.chats.service import ChatService
from agentd.chats.shelf import Shelf
from agentd.chats.turns import Turns
from agentd.clock import SystemClock
from agentd.crew import Crew
from agentd.desks import Desks
from agentd.disk.chats import ChatFiles
from agentd.disk.in_force import SettingsInForce
from agentd.disk.journal import Committer
from agentd.disk.keys import KeyFile
from agentd.disk.layout import Layout
from agentd.disk.reload import Reloaded
from agentd.disk.replay import Replay
from agentd.disk.sessions import SessionFile
from agentd.disk.settings import Outside
from agentd.disk.state import Daemon, State, open_state
from agentd.disk.users import UserFile
from agentd.errors import Mistake, Unavailable
from agentd.events import Bus, KeysUpdate
from agentd.jobs import Workshop
from agentd.library import Library
from agentd.messaging import Messaging, house
from agentd.outside.own_process import prepare_process
from agentd.outside.service_manager import Notifier
from agentd.web.access_log import AccessLog
from agentd.web.agent import AgentAtWork
from agentd.web.desk import Desk
from agentd.web.event_stream import EventStream
from agentd.web.feed import Feed, encoded
from agentd.web.hosts import Hosts
from agentd.web.hub import Hub
from agentd.web.live import Roll
from agentd.web.remote import Remote
from agentd.web.routes import table
from agentd.web.scrub import LogFormatter
from agentd.web.server import Server
from agentd.web.session import Sessions
from agentd.web.system import System
from agentd.web.table import Route
from agentd.web.users import Users
from agentd.web.wrong_keys import WrongKeys
from agentd.workplace import Workplace
from agentd.written import HandWritten

log = logging.getLogger(__name__)

INDEX_SECONDS = 60.0
"""How often the index is stored while something changes."""
EVENTS_SECONDS = 1.0
"""How often the last events go into the log of events."""
LOCK_SECONDS = 5.0
"""How often the daemon makes sure that the folder's lock is still its own."""
HANG_UP_SECONDS = 2.0
LOST_LOCK = 75
"""Exit code when another hand removed the lock: systemd starts the daemon anew."""


@dataclass(slots=True)
class Running:
    """A daemon that answers."""

    url: str
    stopped: "asyncio.Future[int]"
    """Its exit code, once it is to stop."""

    def stop(self, code: int) -> None:
        """Ask it to stop; on the loop only."""
        if not self.stopped.done():
            self.stopped.set_result(code)


class Line(NamedTuple):
    """Who is told of what happens, and what."""

    feed: Feed
    roll: Roll


class Doorkeepers(NamedTuple):
    """Who decides who is let in."""

    keys: KeyService
    people: People
    users: Reloaded[tuple[User, ...]]
    book: UserFile


def run(settings: Settings, layout: Layout, outside: Outside, environ: Mapping[str, str]) -> int:
    """Serve until told to stop. The exit code is 0 after a signal. Raises what start-up raises."""
    prepare_process()
    configure_logging()
    return asyncio.run(_live(settings, layout, outside, environ))


def configure_logging() -> None:
    """Log lines go to standard error, scrubbed: the journal's place under systemd."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("tornado.access").setLevel(logging.WARNING)
    logging.getLogger("tornado.general").setLevel(logging.WARNING)


async def _live(
    settings: Settings, layout: Layout, outside: Outside, environ: Mapping[str, str]
) -> int:
    loop = asyncio.get_running_loop()
    told_to_stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):  # heard from the start on, heeded when it is up
        loop.add_signal_handler(name, told_to_stop.set)
    async with started(settings, layout, environ, outside=outside) as running:
        told = loop.create_task(told_to_stop.wait())
        told.add_done_callback(lambda _: running.stop(0))
        return await running.stopped


@contextlib.asynccontextmanager
async def started(
    settings: Settings,
    layout: Layout,
    environ: Mapping[str, str],
    engine: Engine | None = None,
    outside: Outside | None = None,
) -> AsyncIterator[Running]:
    """A daemon that answers for as long as the block lasts; ``engine`` instead of the set one.

    Without ``outside`` no edit of ``agentd.yml`` is followed.
    """
    async with contextlib.AsyncExitStack() as stack:
        notifier = Notifier.from_environment(environ)
        stack.callback(notifier.close)
        state = await asyncio.to_thread(open_state, layout)
        stack.push_async_callback(asyncio.to_thread, state.release)
        clock, bus = SystemClock(), Bus()
        committer = Committer(layout, state.sequences)
        files = ChatFiles(layout, state.sequences, committer)
        shelf = Shelf(files, clock, state.sequences, bus, state.chats)
        chats, turns = ChatService(shelf), Turns(shelf)
        stack.push_async_callback(_put_away, state, chats, committer, files)
        await turns.end_interrupted(again=settings.on_interrupted == "retry")
        written = await stack.enter_async_context(HandWritten(settings, layout, outside, bus))
        roll = Roll(Hosts())
        written.hear(lambda now: roll.hosts.allow((settings.host, *now.hosts)))

        doorkeepers = await _doorkeepers(stack, settings, layout, roll, bus)
        latest = state.sequences.used.seq
        replay = Replay(layout, encoded, latest, chats.recorded())
        stack.push_async_callback(replay.close)
        line = Line(Feed(bus, chats, replay, latest), roll)
        crew = Crew(written, layout, environ, engine)
        await crew.start(state.generation)
        stack.push_async_callback(crew.stop)
        agent = crew.hired(chats, turns, clock, bus)
        written.hear(lambda _: agent.dispatcher.look())
        shop = Workshop(settings, layout, chats, clock, bus, state.generation)
        await stack.enter_async_context(shop)
        desks = await stack.enter_async_context(
            Desks(layout, environ, chats.summaries, written.models, clock, bus, state.generation)
        )
        workplace = await stack.enter_async_context(
            Workplace(settings.workspace, layout, state.generation, clock)
        )
        library = await stack.enter_async_context(
            Library(shelf, chats, doorkeepers.keys, written.skills, layout, bus)
        )
        served = house(written, chats, agent, clock, bus, workplace, desks)
        messaging = await stack.enter_async_context(Messaging(layout, environ, served))
        others: tuple[Reloaded[Any], ...] = (
            library.labels,
            desks.speech,
            messaging.file,
            *shop.files,
        )
        catalog = written.rows(chats, agent.trouble, _wrong(layout, doorkeepers, *others))
        more = (*shop.rows, *desks.rows, *workplace.rows, *library.rows, *messaging.rows, *catalog)
        remote = Remote(chats, messaging.bots, written.skills)
        at_work = AgentAtWork(chats, agent.dispatcher, agent.approvals, written.skills)
        url = _open_door(stack, settings, chats, remote, at_work, doorkeepers, more, line)
        await _announce(state, url, clock)
        running = Running(url, asyncio.get_running_loop().create_future())
        for chore in (
            _keep_index(state, chats),
            _keep_events(line.feed),
            _guard_lock(state, running),
            _watch(
                layout,
                doorkeepers.keys,
                doorkeepers.users,
                library.labels,
                desks.speech,
                messaging.file,
                *written.files,
                *shop.files,
            ),
            written.follow_skills(),
            _ping(notifier, committer),
        ):
            stack.push_async_callback(_end, asyncio.create_task(chore))
        agent.dispatcher.start(chats.summaries())
        stack.push_async_callback(_drain, agent.dispatcher, written.settings)
        gc.freeze()  # what lives as long as the daemon need not be walked again, nor now
        notifier.ready(f"Serving {layout.state} on {url}")
        log.info("serving %s on %s", layout.state, url)
        yield running
        notifier.stopping("Draining")
        log.info("stopping")


async def _doorkeepers(
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
    people = People(SessionFile(layout), users, clock, administrator(settings), roll.sign_out)
    await people.start()
    stack.push_async_callback(people.stop)
    return Doorkeepers(keys, people, users, book)


def _open_door(
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
    feed, roll = line
    hub = Hub(feed, roll, clock.monotonic)
    keys, people, _, book = doorkeepers
    wrong_keys = WrongKeys()
    sessions, users = Sessions(people, wrong_keys), Users(people, book)
    stream = EventStream(feed, roll)
    routes = table(remote, at_work, sessions, users, hub, stream, system, more)
    system.describe(routes)
    gate = Gate(keys, people)
    desk = Desk(routes, gate, keys, people, roll.hosts, access_log, wrong_keys)
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


async def _announce(state: State, url: str, clock: SystemClock) -> None:
    daemon = Daemon(os.getpid(), url, clock.now())
    try:
        await asyncio.to_thread(state.announce, daemon)
    except Unavailable as error:
        log.warning("%s", error.message)


async def _put_away(
    state: State, chats: ChatService, committer: Committer, files: ChatFiles
) -> None:
    await committer.close()
    await files.close()
    await asyncio.to_thread(state.save, chats.recorded())


async def _drain(dispatcher: Dispatcher, settings: SettingsInForce) -> None:
    await dispatcher.stop(settings.current.drain_seconds)


async def _hang_up(server: Server, desk: Desk) -> None:
    """Take no new connection, and let the answers that are being made be given."""
    server.stop()
    if desk.at_work:
        await asyncio.wait(desk.at_work, timeout=HANG_UP_SECONDS)
    await server.close_all_connections()


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _keep_index(state: State, chats: ChatService) -> None:
    saved = state.sequences.used.seq
    while True:
        await asyncio.sleep(INDEX_SECONDS)
        if state.sequences.used.seq != saved:
            saved = state.sequences.used.seq
            await asyncio.to_thread(state.save, chats.recorded())


async def _keep_events(feed: Feed) -> None:
    while True:
        await asyncio.sleep(EVENTS_SECONDS)
        await feed.keep()


async def _guard_lock(state: State, running: Running) -> None:
    """Stop when the lock file was removed or replaced: a second daemon could be let in."""
    while True:
        await asyncio.sleep(LOCK_SECONDS)
        if not await asyncio.to_thread(state.holds_lock):
            log.critical("%s is no longer ours; stopping", state.layout.daemon_lock)
            running.stop(LOST_LOCK)


def _wrong(
    layout: Layout, doors: Doorkeepers, *files: Reloaded[Any]
) -> Callable[[], Iterator[Mistake]]:
    """Tells what is wrong with further files that people edit."""

    def wrong() -> Iterator[Mistake]:
        if doors.keys.trouble:
            yield Mistake(layout.keys, 0, doors.keys.trouble)
        for file in (doors.users, *files):
            yield from file.mistakes

    return wrong


async def _watch(layout: Layout, keys: KeyService, *written: Reloaded[Any]) -> None:
    """Notice files that a person edited at once, even while nobody calls."""
    from agentd.disk.watch import Watcher  # noqa: PLC0415 - the start does not wait for it

    ours = {os.path.basename(layout.keys), os.path.basename(layout.revoked)}

    def noticed(name: str) -> None:
        for file in written:
            file.noticed(name)

    watcher = Watcher()
    watcher.add(layout.state, lambda name: keys.wake() if name in ours else None)
    watcher.add(layout.config, noticed)
    await watcher.start()
    keys.wake()  # what was edited before the watch began
    for file in written:
        await file.refresh()
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await watcher.stop()


async def _ping(notifier: Notifier, committer: Committer) -> None:
    """Tell the service manager that the loop and the disk thread both live."""
    interval = notifier.watchdog_interval()
    while interval:
        await committer.beat()
        notifier.watchdog()
        await asyncio.sleep(interval)
