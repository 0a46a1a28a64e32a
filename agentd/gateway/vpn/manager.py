"""VPNs of channels: the chosen server, through a VPN program found on this machine.

A program is started by the first call, and restarted by the next call after it ended, with a
growing delay. It carries the mark of the daemon's child processes (``process.MARK``): after a kill
of the daemon, it is ended by the kernel or by the next start (``system.orphans``).
"""

import asyncio
import logging
import shutil
import socket
from collections.abc import Mapping

from agentd.core.errors import AgentdError, SupplierUnreachable, Unavailable
from agentd.core.tasks import BackgroundTasks
from agentd.gateway.channels.model import Channel
from agentd.gateway.vpn.engines import PROGRAMS, choose_program
from agentd.gateway.vpn.fetch import Subscriptions
from agentd.gateway.vpn.local import LOOPBACK
from agentd.gateway.vpn.process import VpnEngine
from agentd.gateway.vpn.server import Server, pin_address
from agentd.llm.endpoint import ChannelTransport
from agentd.llm.proxy_address import ProxyServer
from agentd.llm.upstream.dial import dial_through_socks5, resolve_host
from agentd.system.process import MARK, build_environment

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Shortest and longest delay in seconds before another start after a failure."""


RECHECK_SECONDS = 900.0
"""The time after which the next connection checks whether the server has moved or changed."""


class Vpns:
    """Makes the VPN of a channel (``egress.TunnelFactory``).

    ``generation`` is that of the state folder. ``programs`` are paths of programs by name; others
    are looked for in PATH.
    """

    def __init__(
        self,
        generation: str,
        subscriptions: Subscriptions,
        programs: Mapping[str, str] | None = None,
    ) -> None:
        self._generation = generation
        self._subscriptions = subscriptions
        self._programs = programs or {}

    def __call__(self, channel: Channel, transport: ChannelTransport) -> "Vpn":
        """Return the channel's VPN; nothing is started yet."""
        mark = f"{self._generation}.vpn.{channel.name}"
        return Vpn(channel, transport, self._subscriptions, find_programs(self._programs), mark)


def find_programs(programs: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the paths of installed VPN programs by name; ``programs`` as for ``Vpns``."""
    wanted = {one.program: (programs or {}).get(one.program, one.program) for one in PROGRAMS}
    paths = {name: shutil.which(program) for name, program in wanted.items()}
    return {name: path for name, path in paths.items() if path}


class Vpn:
    """A channel's VPN; satisfies ``egress.Tunnel``."""

    def __init__(
        self,
        channel: Channel,
        transport: ChannelTransport,
        subscriptions: Subscriptions,
        found: Mapping[str, str],
        mark: str,
    ) -> None:
        self._name = channel.name
        self._local = channel.local
        self._transport = transport
        self._subscriptions = subscriptions
        self._found = found
        self._mark = mark
        self._engine: asyncio.Task[VpnEngine] | None = None
        self._ending = BackgroundTasks()
        self._pause = 0.0
        self._not_before = 0.0
        self._why = ""
        self._compared_at = 0.0
        self._comparing: asyncio.Task[None] | None = None

    async def dial(self, host: str, port: int) -> socket.socket:
        """Connect as ``Dial`` does. Raises ``SupplierUnreachable`` while the VPN is down."""
        running = await self._ensure_running(host)
        loop = asyncio.get_running_loop()
        compares = self._comparing and not self._comparing.done()
        if not compares and loop.time() > self._compared_at + RECHECK_SECONDS:
            self._compared_at = loop.time()
            self._comparing = asyncio.create_task(self._end_if_changed(running))
        local = running.local
        proxy = ProxyServer(LOOPBACK, local.port, local.user, local.password)
        return await dial_through_socks5(proxy, local=self._local, ours=True)(host, port)

    async def close(self) -> None:
        """End the program, also one that is just starting."""
        task, self._engine = self._engine, None
        if self._comparing:
            self._comparing.cancel()
        if task and not task.cancel() and not task.exception():
            await task.result().end()
        await asyncio.gather(*filter(None, (task, self._comparing)), return_exceptions=True)
        await self._ending.wait()

    async def _ensure_running(self, host: str) -> VpnEngine:
        """Return the running program; cancelling the wait does not cancel its start."""
        engine = self._engine
        if engine is None:
            wait = self._not_before - asyncio.get_running_loop().time()
            if wait > 0:
                why = f"{self._why}; next attempt in {wait:.0f} s"
                raise SupplierUnreachable(f"The VPN is down: {why}", "proxy", host)
            engine = self._engine = asyncio.create_task(self._start_supervised())
            engine.add_done_callback(_retrieve_exception)
        await asyncio.wait([engine])
        if engine.cancelled():  # the start, not this caller: the channel changed or was deleted
            raise SupplierUnreachable("The VPN is down: it was closed", "proxy", host)
        try:
            return engine.result()
        except AgentdError as error:
            message = f"The VPN is down: {error.message}"
            raise SupplierUnreachable(message, "proxy", host) from error

    async def _start_supervised(self) -> VpnEngine:
        try:
            running = await self._start()
        except AgentdError as error:
            self._set_down(error.message)
            raise
        except Exception:
            self._set_down("the program could not be started")
            raise
        loop = asyncio.get_running_loop()
        since = loop.time()
        own = asyncio.current_task()

        def on_exit(_: object) -> None:
            if self._engine is not own:  # it was ended on purpose
                return
            if loop.time() - since > LONGEST_PAUSE:
                self._pause = 0.0
            self._set_down(f"the program ended: {running.get_last_output()}")
            self._end(running)

        running.exited.add_done_callback(on_exit)
        return running

    async def _start(self) -> VpnEngine:
        server = await self._find_server("")
        best = choose_program(server, self._found)
        env = build_environment(**{MARK: self._mark})
        running = await VpnEngine.start(best, self._found[best.program], server, env)
        self._compared_at = asyncio.get_running_loop().time()
        log.info("the VPN of channel %s is up, using %s", self._name, best.program)
        return running

    async def _find_server(self, address: str) -> Server:
        """Return the current server; at this address if its host still resolves to it."""
        subscription = await self._subscriptions.read(self._transport.url, local=self._local)
        server = subscription.find_server(self._transport.server)
        return server if self._local else await _resolve_address(server, address)

    async def _end_if_changed(self, running: VpnEngine) -> None:
        """End the program if the server changed; a failing subscription counts as unchanged."""
        try:
            server = await self._find_server(running.server.host)
        except AgentdError as error:
            log.warning("the VPN of channel %s cannot be checked: %s", self._name, error.message)
            return
        if server != running.server and not running.exited.done():
            log.info("the server of the VPN of channel %s has moved or changed", self._name)
            self._engine = None
            self._end(running)

    def _end(self, running: VpnEngine) -> None:
        self._ending.start(running.end())

    def _set_down(self, why: str) -> None:
        self._engine = None
        self._why = why
        self._pause = min(max(2 * self._pause, FIRST_PAUSE), LONGEST_PAUSE)
        self._not_before = asyncio.get_running_loop().time() + self._pause
        log.warning("the VPN of channel %s is down: %s", self._name, why)


async def _resolve_address(server: Server, address: str) -> Server:
    """Return the server at a checked IP address, so that the program does not resolve its name."""
    try:
        places = await resolve_host(server.host, server.port, local=False)
    except OSError as error:
        raise Unavailable("The name of the VPN's server cannot be resolved") from error
    found = [str(place[0]) for _, place in places]
    return pin_address(server, address if address in found else found[0])


def _retrieve_exception(task: asyncio.Task[VpnEngine]) -> None:
    """Retrieve a start's error: there may be no caller left to do so."""
    if not task.cancelled():
        task.exception()
