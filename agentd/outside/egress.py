"""How each channel's calls leave this machine: every one its own way, or not at all."""

import asyncio
import socket
from collections.abc import Callable, Collection
from typing import Protocol, TypeAlias

from msgspec import Struct

from agentd.errors import BadRequest
from agentd.outside.dialing import Dial, direct, through_http, through_socks5
from agentd.outside.upstream import HttpUpstream
from agentd.proxy.channel import Channel, Transport
from agentd.proxy.transport import proxy_server


class Tunnel(Protocol):
    """A VPN of one channel; it is brought up by whoever dials first."""

    async def dial(self, host: str, port: int) -> socket.socket:
        """As ``dialing.Dial``; never past the VPN."""
        ...

    async def close(self) -> None:
        """Take it down."""
        ...


Tunnels: TypeAlias = Callable[[Channel, Transport], Tunnel]
"""A channel and its transport, with its secrets put in, to its VPN. Raises ``BadRequest``."""


class _Way(Struct, frozen=True):
    transport: Transport
    local: bool
    upstream: HttpUpstream
    tunnel: Tunnel | None = None


class Egress:
    """Every channel's ``Upstream``, with its connections. Without ``tunnels`` there are no VPNs.

    Belongs to the event loop on which it is used; ``close`` it there.
    """

    def __init__(self, tunnels: Tunnels | None = None) -> None:
        self._tunnels = tunnels
        self._ways: dict[str, _Way] = {}
        self._retiring: dict[asyncio.Task[None], HttpUpstream] = {}

    def upstream(self, channel: Channel, transport: Transport) -> HttpUpstream:
        """Who calls this channel's supplier: the same one for as long as the channel is the same.

        ``transport`` is the channel's, with its secrets put in. The calls of a channel that has
        changed end the way they began. Raises ``BadRequest`` for an address of a proxy or VPN
        that is none.
        """
        way = self._ways.get(channel.name)
        if way and way.transport == transport and way.local == channel.local:
            return way.upstream
        made = self._made(channel, transport)
        self.forget(channel.name)
        self._ways[channel.name] = made
        return made.upstream

    def keep(self, names: Collection[str]) -> None:
        """Only these channels are there now."""
        for name in self._ways.keys() - set(names):
            self.forget(name)

    def forget(self, name: str) -> None:
        """The channel is gone, or should be connected to anew; its calls go on to their end."""
        if way := self._ways.pop(name, None):
            task = asyncio.get_running_loop().create_task(_retired(way))
            self._retiring[task] = way.upstream
            task.add_done_callback(self._retiring.pop)

    async def close(self) -> None:
        """Cut every connection, and end every VPN."""
        ways, self._ways = self._ways, {}
        retiring = dict(self._retiring)
        await asyncio.gather(*(upstream.close() for upstream in retiring.values()))
        await asyncio.gather(*retiring)
        await asyncio.gather(*map(_closed, ways.values()))

    def _made(self, channel: Channel, transport: Transport) -> _Way:
        local = channel.local
        tunnel: Tunnel | None = None
        dial: Dial
        match transport.kind:
            case "direct":
                dial = direct(local=local)
            case "http":
                dial = through_http(proxy_server(transport), local=local)
            case "socks5":
                dial = through_socks5(proxy_server(transport), local=local)
            case "vpn":
                if self._tunnels is None:
                    raise BadRequest("VPNs are not configured here")
                tunnel = self._tunnels(channel, transport)
                dial = tunnel.dial
        return _Way(transport, local, HttpUpstream(dial=dial), tunnel)


async def _retired(way: _Way) -> None:
    await way.upstream.retire()
    await _closed(way)


async def _closed(way: _Way) -> None:
    await way.upstream.close()
    if way.tunnel:
        await way.tunnel.close()
