"""Start and stop the daemon.

``run`` locks the state folder, reads the keys, closes turns that a crash left open, starts the
dispatcher and the HTTP server and reports readiness; on SIGTERM, SIGINT or SIGHUP all in reverse.
"""

import asyncio
import contextlib
import logging
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial

from msgspec import Struct

from agentd.agent.dispatcher import Dispatcher
from agentd.agent.engine import Engine
from agentd.app.auth import AuthServices, build_auth
from agentd.app.background import (
    Reloadable,
    guard_lock,
    log_silent_corruption,
    ping,
    save_events_regularly,
    save_index_regularly,
    save_settled_clock_regularly,
    trim_memory_regularly,
    watch,
)
from agentd.app.components import Components, Core, collect_routes, open_core, start_components
from agentd.app.config_files import ConfigFiles
from agentd.app.deferred_routes import defer_management, defer_mcp
from agentd.app.gateway import find_dialects
from agentd.app.http_server import ComponentRoutes, LiveEvents, ServerUrls, start_http_server
from agentd.app.state import DaemonInfo
from agentd.auth.sign_in_links import SignInLinks
from agentd.chats.replay import Replay
from agentd.core.clock import SystemClock
from agentd.core.errors import AgentdError, Unavailable
from agentd.core.tasks import cancel_task
from agentd.http.connections import ConnectionRegistry
from agentd.http.hosts import Hosts
from agentd.http.log_scrubber import LogFormatter
from agentd.http.tls import load_tls_context
from agentd.http.trusted_proxies import TrustedProxies
from agentd.live.feed import Feed, encode_record
from agentd.settings.effective_settings import EffectiveSettings
from agentd.settings.model import Settings
from agentd.settings.sources import Overrides, describe_sources, describe_unused
from agentd.storage.layout import Layout
from agentd.system.sd_notify import Notifier
from agentd.system.self_process import prepare_process

log = logging.getLogger(__name__)


class RunningDaemon(Struct):
    """A daemon that answers."""

    url: str
    """The URL for programs on this machine."""
    public_url: str
    """The URL for browsers."""
    has_users: bool
    """True if anybody can sign in by name and password."""
    stopped: "asyncio.Future[int]"
    """Its exit code, once it is to stop."""

    def stop(self, code: int) -> None:
        """Ask it to stop; on the loop only."""
        if not self.stopped.done():
            self.stopped.set_result(code)


def run(
    settings: Settings,
    layout: Layout,
    outside: Overrides,
    environ: Mapping[str, str],
    on_ready: Callable[[], None],
) -> int:
    """Serve until stopped. The exit code is 0 after a signal. Raises what start-up raises.

    ``on_ready`` is called once the daemon answers.
    """
    prepare_process()
    configure_logging()
    log.info("%s", describe_sources(settings, layout, outside))
    if unused := describe_unused(outside):
        log.warning("%s", unused)
    if settings.workspace == outside.workspace:  # each turn reports it if it could not be created
        with contextlib.suppress(OSError):
            os.makedirs(outside.workspace, exist_ok=True)
    return asyncio.run(_serve(settings, layout, outside, environ, on_ready))


def configure_logging() -> None:
    """Log lines go to standard error, scrubbed: the journal's place under systemd."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("tornado.access").setLevel(logging.WARNING)
    logging.getLogger("tornado.general").setLevel(logging.WARNING)


async def _serve(
    settings: Settings,
    layout: Layout,
    outside: Overrides,
    environ: Mapping[str, str],
    on_ready: Callable[[], None],
) -> int:
    loop = asyncio.get_running_loop()
    told_to_stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if name != signal.SIGHUP or signal.getsignal(name) != signal.SIG_IGN:  # as by nohup
            loop.add_signal_handler(name, told_to_stop.set)  # handled once all is started
    async with start_daemon(settings, layout, environ, outside=outside) as running:
        on_ready()
        stopping = loop.create_task(told_to_stop.wait())
        stopping.add_done_callback(lambda _: running.stop(0))
        if not running.has_users and sys.stderr.isatty():
            await asyncio.to_thread(_print_sign_in_link, layout, running.public_url)
        return await running.stopped


def _print_sign_in_link(layout: Layout, url: str) -> None:
    """Show how to begin. The link goes to the terminal alone: it is a secret until it is used."""
    with contextlib.suppress(AgentdError):
        link = SignInLinks(layout, SystemClock()).create(url)
        sys.stderr.write(
            f"\nNobody can sign in yet. Open this link within five minutes:\n\n  {link}\n"
            "\nLater, agentd open prints another.\n\n"
        )
        sys.stderr.flush()


@contextlib.asynccontextmanager
async def start_daemon(
    settings: Settings,
    layout: Layout,
    environ: Mapping[str, str],
    engine: Engine | None = None,
    outside: Overrides | None = None,
) -> AsyncIterator[RunningDaemon]:
    """Yield a daemon that answers for as long as the block lasts.

    ``engine`` replaces those of the settings. Without ``outside``, edits of ``agentd.yml`` are not
    followed.
    """
    async with contextlib.AsyncExitStack() as stack:
        notifier = Notifier.from_environment(environ)
        stack.callback(notifier.close)
        core = await open_core(stack, settings, layout, environ, outside)
        connections = ConnectionRegistry(Hosts())
        proxies = _follow_host_settings(core.config_files, settings.host, connections.hosts)
        auth = await build_auth(stack, settings, layout, connections, core.bus, core.settled)
        feed = _open_feed(stack, core)
        components = await start_components(stack, core, auth, engine)
        live = LiveEvents(feed, connections, components.management.note_failed_sign_in, proxies)
        routes = await collect_routes(core, auth, components)
        deferred = (
            defer_management(core, auth, components, connections),
            defer_mcp(core, routes, connections),
        )
        tls = await asyncio.to_thread(_load_tls, settings)
        urls = await start_http_server(
            stack, settings, core.chats, auth, ComponentRoutes(routes, deferred), live, tls
        )
        components.engines.use_gateway(
            urls.local,
            auth.access.issue_own_key(),
            partial(find_dialects, components.gateway),
        )
        await _announce(core, urls, settings.workspace)
        running = RunningDaemon(
            *urls, bool(auth.sessions.users), asyncio.get_running_loop().create_future()
        )
        _start_background_tasks(stack, core, auth, components)
        for task in (
            save_events_regularly(feed),
            guard_lock(core.state, running.stop),
            ping(notifier, core.committer),
        ):
            stack.push_async_callback(cancel_task, asyncio.create_task(task))
        dispatcher = components.agent.dispatcher
        dispatcher.start(core.chats.list_summaries())
        stack.push_async_callback(_drain, dispatcher, core.config_files.settings)
        notifier.report_ready(f"Serving {layout.state} on {urls.public}")
        log.info("serving %s on %s", layout.state, urls.public)
        yield running
        notifier.report_stopping("Draining")
        log.info("stopping")


def _open_feed(stack: contextlib.AsyncExitStack, core: Core) -> Feed:
    """Open the feed of live events, which also reads what a listener missed."""
    state, latest = core.state, core.state.sequences.used.seq
    encode = partial(encode_record, state.runs)
    replay = Replay(core.layout, encode, latest, core.chats.list_all_summaries())
    stack.push_async_callback(replay.close)
    feed = Feed(core.bus, core.chats, replay, latest, state.runs)
    core.repository.on_removed.append(feed.forget_chat)
    return feed


def _start_background_tasks(
    stack: contextlib.AsyncExitStack, core: Core, auth: AuthServices, components: Components
) -> None:
    """Start what keeps the files in order and follows those that people edit."""
    config_files = core.config_files
    edited: tuple[Reloadable, ...] = (
        *(auth.users, components.gateway.licence),
        *config_files.files,
        *components.edited_files,
    )
    for task in (
        log_silent_corruption(core.layout),
        save_index_regularly(core.state, core.chats),
        save_settled_clock_regularly(core.settled),
        trim_memory_regularly(),
        watch(core.layout, auth.keys, (auth.access, auth.management_keys), *edited),
        config_files.follow_skills(),
        components.workspace.follow(),
    ):
        stack.push_async_callback(cancel_task, asyncio.create_task(task))


def _load_tls(settings: Settings) -> ssl.SSLContext | None:
    files = settings.tls
    return load_tls_context(files.certificate, files.key) if files else None


def _follow_host_settings(config_files: ConfigFiles, host: str, hosts: Hosts) -> TrustedProxies:
    """Let the settings say by which names and through which proxies clients come."""
    proxies = TrustedProxies()
    config_files.subscribe(lambda now: hosts.allow((host, *now.hosts)))
    config_files.subscribe(lambda now: proxies.trust(now.trusted_proxies))
    return proxies


async def _announce(core: Core, urls: ServerUrls, workspace: str) -> None:
    daemon = DaemonInfo(os.getpid(), urls.local, core.clock.now(), urls.public, workspace=workspace)
    try:
        await asyncio.to_thread(core.state.announce, daemon)
    except Unavailable as error:
        log.warning("%s", error.message)


async def _drain(dispatcher: Dispatcher, settings: EffectiveSettings) -> None:
    await dispatcher.stop(settings.current.drain_seconds)
