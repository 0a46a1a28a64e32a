"""The daemon from its start to its end.

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
from collections.abc import AsyncIterator, Mapping
from functools import partial
from itertools import chain
from typing import Any

from msgspec import Struct

from agentd.agent.engine import Engine
from agentd.agent.service import Dispatcher
from agentd.catalog.settings import Settings
from agentd.chats.service import ChatService
from agentd.chats.shelf import Shelf
from agentd.chats.turns import Turns
from agentd.clock import SystemClock
from agentd.daemon.chores import (
    end,
    guard_lock,
    keep_events,
    keep_index,
    keep_memory_small,
    ping,
    tell_damage,
    watch,
)
from agentd.daemon.crew import Crew
from agentd.daemon.desks import Desks
from agentd.daemon.door import Line, doorkeepers_of, mistakes_of, open_door
from agentd.daemon.exporting import Exporting
from agentd.daemon.gateway import ModelGateway
from agentd.daemon.library import Library
from agentd.daemon.management import Management
from agentd.daemon.messaging import Messaging, house
from agentd.daemon.reporting import reporting
from agentd.daemon.workplace import Workplace
from agentd.daemon.workshop import Workshop
from agentd.daemon.written import HandWritten
from agentd.disk.chats import ChatFiles
from agentd.disk.in_force import SettingsInForce
from agentd.disk.journal import Committer
from agentd.disk.layout import Layout
from agentd.disk.reload import Reloaded
from agentd.disk.replay import Replay
from agentd.disk.settings import Outside, describe_sources, describe_unused
from agentd.disk.state import Daemon, State, open_state
from agentd.errors import Unavailable
from agentd.events import Bus
from agentd.outside.own_process import prepare_process
from agentd.outside.service_manager import Notifier
from agentd.web.agent import AgentAtWork
from agentd.web.feed import Feed, encoded
from agentd.web.forwarded import TrustedProxies
from agentd.web.hosts import Hosts
from agentd.web.live import Roll
from agentd.web.remote import Remote
from agentd.web.scrub import LogFormatter

log = logging.getLogger(__name__)

GARBAGE = (10_000, 20, 20)
"""How often rings of objects are looked for: as usual, a request in three pays for it."""


class Running(Struct):
    """A daemon that answers."""

    url: str
    stopped: "asyncio.Future[int]"
    """Its exit code, once it is to stop."""

    def stop(self, code: int) -> None:
        """Ask it to stop; on the loop only."""
        if not self.stopped.done():
            self.stopped.set_result(code)


def run(settings: Settings, layout: Layout, outside: Outside, environ: Mapping[str, str]) -> int:
    """Serve until told to stop. The exit code is 0 after a signal. Raises what start-up raises."""
    prepare_process()
    configure_logging()
    log.info("%s", describe_sources(settings, layout, outside))
    if unused := describe_unused(outside):
        log.warning("%s", unused)
    if settings.workspace == outside.workspace:  # each turn tells where it could not be made
        with contextlib.suppress(OSError):
            os.makedirs(outside.workspace, exist_ok=True)
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
        proxies = _follow_reach(written, settings.host, roll.hosts)

        doorkeepers = await doorkeepers_of(stack, settings, layout, roll, bus)
        replay = Replay(
            layout, partial(encoded, state.lives), state.sequences.used.seq, chats.recorded()
        )
        stack.push_async_callback(replay.close)
        feed = Feed(bus, chats, replay, state.sequences.used.seq, state.lives)
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
            Workplace(settings.workspace, layout, state.generation, clock, bus)
        )
        messaging = await stack.enter_async_context(
            Messaging(layout, environ, house(written, chats, agent, clock, bus, workplace, desks))
        )
        remote = Remote(chats, messaging.get_bots, written.skills)
        library = await stack.enter_async_context(
            Library(shelf, chats, doorkeepers.keys, remote, layout, bus)
        )
        gateway = await stack.enter_async_context(
            ModelGateway(
                layout,
                environ,
                clock,
                doorkeepers.access,
                lambda: written.models.current,
                state.generation,
                bus,
            )
        )
        others: tuple[Reloaded[Any], ...] = (
            library.labels,
            desks.speech,
            messaging.file,
            *shop.files,
            *gateway.files,
        )
        catalog = written.rows(chats, agent.trouble, mistakes_of(layout, doorkeepers, *others))
        managed = await stack.enter_async_context(
            Management(layout, clock, gateway, doorkeepers.access, written)
        )
        exporting = await stack.enter_async_context(
            Exporting(layout, environ, clock, lambda: gateway.settings.current, gateway.log)
        )
        more = (
            *chain.from_iterable(
                part.rows
                for part in (
                    *(shop, desks, workplace, library),
                    *(messaging, gateway, managed, exporting),
                )
            ),
            *catalog,
            *reporting(layout, clock, gateway, doorkeepers, managed.journal, exporting.exporter),
        )
        surfaces = (
            remote,
            AgentAtWork(chats, agent.dispatcher, agent.approvals, written.skills),
        )
        url = open_door(
            stack,
            settings,
            chats,
            *surfaces,
            doorkeepers,
            more,
            Line(feed, roll, managed.failed, proxies),
        )
        crew.reach_gateway(url, doorkeepers.access.own())
        await _announce(state, url, clock)
        running = Running(url, asyncio.get_running_loop().create_future())
        for chore in (
            tell_damage(layout),
            keep_index(state, chats),
            keep_events(feed),
            keep_memory_small(),
            guard_lock(state, running.stop),
            watch(
                layout,
                doorkeepers.keys,
                doorkeepers.access,
                doorkeepers.users,
                gateway.licence,
                *written.files,
                *others,
            ),
            written.follow_skills(),
            workplace.follow(),
            ping(notifier, committer),
        ):
            stack.push_async_callback(end, asyncio.create_task(chore))
        agent.dispatcher.start(chats.summaries())
        stack.push_async_callback(_drain, agent.dispatcher, written.settings)
        _ready(notifier, layout, url)
        yield running
        notifier.stopping("Draining")
        log.info("stopping")


def _follow_reach(written: HandWritten, host: str, hosts: Hosts) -> TrustedProxies:
    """Let the settings say by which names and through which proxies clients come."""
    proxies = TrustedProxies()
    written.hear(lambda now: hosts.allow((host, *now.hosts)))
    written.hear(lambda now: proxies.trust(now.trusted_proxies))
    return proxies


def _ready(notifier: Notifier, layout: Layout, url: str) -> None:
    gc.freeze()  # what lives as long as the daemon need not be walked again, nor now
    gc.set_threshold(*GARBAGE)
    gc.enable()
    notifier.ready(f"Serving {layout.state} on {url}")
    log.info("serving %s on %s", layout.state, url)


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
