"""Egress of each channel's calls: each channel uses its own transport, or is not called at all."""

import asyncio
import socket
from collections.abc import Callable, Collection
from typing import Protocol, TypeAlias

from msgspec import Struct

from agentd.core.errors import BadRequest
from agentd.gateway.channels.model import Channel
from agentd.llm.endpoint import ChannelTransport
from agentd.llm.proxy_address import parse_proxy_address
from agentd.llm.upstream.client import HttpUpstream
from agentd.llm.upstream.dial import Dial, dial_directly, dial_through_http, dial_through_socks5


class Tunnel(Protocol):
    """The VPN of one channel; the first connection starts it."""

    async def dial(self, host: str, port: int) -> socket.socket:
        """Connect through the VPN, as a ``Dial`` does; never past it."""
        ...

    async def close(self) -> None:
        """Take it down."""
        ...


TunnelFactory: TypeAlias = Callable[[Channel, ChannelTransport], Tunnel]
"""A channel and its transport, with its secrets put in, to its VPN. Raises ``BadRequest``."""


class _Exit(Struct, frozen=True):
    transport: ChannelTransport
    local: bool
    upstream: HttpUpstream
    tunnel: Tunnel | None = None


class Egress:
    """Every channel's ``Upstream``, with its connections. Without ``tunnels`` there are no VPNs.

    Belongs to the event loop on which it is used; ``close`` it there.
    """

    def __init__(self, tunnels: TunnelFactory | None = None) -> None:
        self._make_tunnel = tunnels
        self._exits: dict[str, _Exit] = {}
        self._retiring: dict[asyncio.Task[None], HttpUpstream] = {}

    def get_upstream(self, channel: Channel, transport: ChannelTransport) -> HttpUpstream:
        """Return the client for this channel's supplier: the same one until the channel changes.

        ``transport`` is the channel's, with its secrets put in. The calls of a channel that has
        changed end as they began. Raises ``BadRequest`` for an address of a proxy or VPN
        that is none.
        """
        exit_ = self._exits.get(channel.name)
        if exit_ and exit_.transport == transport and exit_.local == channel.local:
            return exit_.upstream
        made = self._make_exit(channel, transport)
        self.forget(channel.name)
        self._exits[channel.name] = made
        return made.upstream

    def retain_only(self, names: Collection[str]) -> None:
        """Drop the connections of all channels but these."""
        for name in self._exits.keys() - set(names):
            self.forget(name)

    def forget(self, name: str) -> None:
        """Drop a channel's connections; calls under exit_ are finished first."""
        if exit_ := self._exits.pop(name, None):
            task = asyncio.get_running_loop().create_task(_retire(exit_))
            self._retiring[task] = exit_.upstream
            task.add_done_callback(self._retiring.pop)

    async def close(self) -> None:
        """Cut every connection, and end every VPN."""
        exits, self._exits = self._exits, {}
        retiring = dict(self._retiring)
        await asyncio.gather(*(upstream.close() for upstream in retiring.values()))
        await asyncio.gather(*retiring)
        await asyncio.gather(*map(_close, exits.values()))

    def _make_exit(self, channel: Channel, transport: ChannelTransport) -> _Exit:
        local = channel.local
        tunnel: Tunnel | None = None
        dial: Dial
        match transport.kind:
            case "direct":
                dial = dial_directly(local=local)
            case "http":
                dial = dial_through_http(parse_proxy_address(transport), local=local)
            case "socks5":
                dial = dial_through_socks5(parse_proxy_address(transport), local=local)
            case "vpn":
                if self._make_tunnel is None:
                    raise BadRequest("VPNs are not configured here")
                tunnel = self._make_tunnel(channel, transport)
                dial = tunnel.dial
        upstream = HttpUpstream(dial=dial, through_proxy=transport.kind != "direct")
        return _Exit(transport, local, upstream, tunnel)


async def _retire(exit_: _Exit) -> None:
    await exit_.upstream.close_when_idle()
    await _close(exit_)


async def _close(exit_: _Exit) -> None:
    await exit_.upstream.close()
    if exit_.tunnel:
        await exit_.tunnel.close()
