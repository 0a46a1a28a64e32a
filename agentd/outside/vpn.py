"""VPNs of channels: the server that was chosen, by an engine found on this machine.

An engine is started by the first call, and again by the next one after it has ended, though not
too often. It bears the mark of the daemon's programs (``process.MARK``): what a killed daemon
leaves is ended with it by the kernel, or by the next start (``strays``).
"""

import asyncio
import logging
import shutil
import socket
from collections.abc import Mapping

from agentd.errors import AgentdError, SupplierUnreachable, Unavailable
from agentd.outside.dialing import resolved, through_socks5
from agentd.outside.process import MARK, environment
from agentd.outside.subscription import Subscriptions
from agentd.outside.vpn_engine import VpnEngine
from agentd.proxy.channel import Channel, Transport
from agentd.proxy.transport import ProxyServer
from agentd.proxy.vpn.engines import ENGINES, engine
from agentd.proxy.vpn.local import LOOPBACK
from agentd.proxy.vpn.server import Server, placed

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds without another try, after an engine could not be started or has ended."""


LOOK_SECONDS = 900.0
"""After these the next connection has it looked whether the server has moved or changed."""


class Vpns:
    """Makes the VPN of a channel (``egress.Tunnels``).

    ``generation`` is the state folder's. ``programs``: where engines are, by their names; the
    others are looked for in PATH.
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

    def __call__(self, channel: Channel, transport: Transport) -> "Vpn":
        """The channel's VPN; nothing is started yet."""
        mark = f"{self._generation}.vpn.{channel.name}"
        return Vpn(channel, transport, self._subscriptions, engines_found(self._programs), mark)


def engines_found(programs: Mapping[str, str] | None = None) -> dict[str, str]:
    """The engines that are here, by their names, with their paths; ``programs`` as of ``Vpns``."""
    wanted = {one.program: (programs or {}).get(one.program, one.program) for one in ENGINES}
    paths = {name: shutil.which(program) for name, program in wanted.items()}
    return {name: path for name, path in paths.items() if path}


class Vpn:
    """A channel's VPN; satisfies ``egress.Tunnel``."""

    def __init__(
        self,
        channel: Channel,
        transport: Transport,
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
        self._ending: set[asyncio.Task[None]] = set()
        self._pause = 0.0
        self._not_before = 0.0
        self._why = ""
        self._looked = 0.0
        self._comparing: asyncio.Task[None] | None = None

    async def dial(self, host: str, port: int) -> socket.socket:
        """See ``dialing.Dial``. Raises ``SupplierUnreachable`` while the VPN is down."""
        running = await self._up(host)
        loop = asyncio.get_running_loop()
        compares = self._comparing and not self._comparing.done()
        if not compares and loop.time() > self._looked + LOOK_SECONDS:
            self._looked = loop.time()
            self._comparing = asyncio.create_task(self._compared(running))
        local = running.local
        proxy = ProxyServer(LOOPBACK, local.port, local.user, local.password)
        return await through_socks5(proxy, local=self._local, ours=True)(host, port)

    async def close(self) -> None:
        """End the engine, also one that is just starting."""
        task, self._engine = self._engine, None
        if self._comparing:
            self._comparing.cancel()
        if task and not task.cancel() and not task.exception():
            await task.result().end()
        await asyncio.gather(
            *filter(None, (task, self._comparing, *self._ending)), return_exceptions=True
        )

    async def _up(self, host: str) -> VpnEngine:
        """The engine; whoever stops waiting for its start does not stop it."""
        engine = self._engine
        if engine is None:
            wait = self._not_before - asyncio.get_running_loop().time()
            if wait > 0:
                why = f"{self._why}; it is tried again in {wait:.0f} s"
                raise SupplierUnreachable(f"The VPN is down: {why}", "proxy", host)
            engine = self._engine = asyncio.create_task(self._started())
            engine.add_done_callback(_heard)
        await asyncio.wait([engine])
        if engine.cancelled():  # it, and not who waits here: the channel has changed, or is gone
            raise SupplierUnreachable("The VPN is down: it is to start no more", "proxy", host)
        try:
            return engine.result()
        except AgentdError as error:
            message = f"The VPN is down: {error.message}"
            raise SupplierUnreachable(message, "proxy", host) from error

    async def _started(self) -> VpnEngine:
        try:
            running = await self._begun()
        except AgentdError as error:
            self._down(error.message)
            raise
        except asyncio.CancelledError:  # it is closed
            raise
        except BaseException:
            self._down("it could not be started")
            raise
        loop = asyncio.get_running_loop()
        since = loop.time()
        own = asyncio.current_task()

        def ended(_: object) -> None:
            if self._engine is not own:  # it was to end
                return
            if loop.time() - since > LONGEST_PAUSE:
                self._pause = 0.0
            self._down(f"its engine ended: {running.last_words()}")
            self._end(running)

        running.exited.add_done_callback(ended)
        return running

    async def _begun(self) -> VpnEngine:
        server = await self._chosen("")
        best = engine(server, self._found)
        env = environment(**{MARK: self._mark})
        running = await VpnEngine.start(best, self._found[best.program], server, env)
        self._looked = asyncio.get_running_loop().time()
        log.info("the VPN of channel %s is up, by %s", self._name, best.program)
        return running

    async def _chosen(self, address: str) -> Server:
        """The server as it is told of now; at this address, if it is still one of its own."""
        subscription = await self._subscriptions.read(self._transport.url, local=self._local)
        server = subscription.server(self._transport.server)
        return server if self._local else await _looked_at(server, address)

    async def _compared(self, running: VpnEngine) -> None:
        """End an engine whose server is another one now; who cannot be asked has not changed."""
        try:
            server = await self._chosen(running.server.host)
        except AgentdError as error:
            log.warning("the VPN of channel %s cannot be looked at: %s", self._name, error.message)
            return
        if server != running.server and not running.exited.done():
            log.info("the VPN of channel %s has moved or changed", self._name)
            self._engine = None
            self._end(running)

    def _end(self, running: VpnEngine) -> None:
        task = asyncio.create_task(running.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _down(self, why: str) -> None:
        self._engine = None
        self._why = why
        self._pause = min(max(2 * self._pause, FIRST_PAUSE), LONGEST_PAUSE)
        self._not_before = asyncio.get_running_loop().time() + self._pause
        log.warning("the VPN of channel %s is down: %s", self._name, why)


async def _looked_at(server: Server, address: str) -> Server:
    """The server at an address that was looked at: the engine does not resolve it anew."""
    try:
        places = await resolved(server.host, server.port, local=False)
    except OSError as error:
        raise Unavailable("The name of the VPN's server cannot be resolved") from error
    found = [str(place[0]) for _, place in places]
    return placed(server, address if address in found else found[0])


def _heard(task: asyncio.Task[VpnEngine]) -> None:
    """Nobody may be waiting any more for what went wrong."""
    if not task.cancelled():
        task.exception()
