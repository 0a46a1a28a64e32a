"""The servers behind a link or a subscription of a VPN, before a channel is saved."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from agentd.clock import Timestamp
from agentd.errors import BadRequest, Unavailable
from agentd.proxy.vpn.engines import engine
from agentd.proxy.vpn.server import Server, ServerType, seen
from agentd.proxy.vpn.subscription import BODY_LIMIT, Subscription, single
from agentd.web.call import Answer, Call

REQUEST_LIMIT = 3 * BODY_LIMIT
"""Bytes of a request: a body of a subscription, escaped as JSON."""

_WEB = re.compile("https?://", re.IGNORECASE)

Text = Annotated[str, Meta(min_length=1, max_length=BODY_LIMIT)]


class PreviewWish(Struct, frozen=True, forbid_unknown_fields=True):
    """One of these: a link (``ss://…``), the body of a subscription, or its address."""

    link: Text | None = None
    """A link of a VPN client."""
    body: Text | None = None
    """What is behind a subscription, as it came."""
    url: Text | None = None
    """The address of a subscription, which is fetched."""
    local: bool = False
    """Whether the address may be one of this machine or its network."""


class PreviewServer(Struct, frozen=True, rename="camel"):
    """A server; never how one signs in."""

    name: str
    """By which a channel chooses it."""
    type: ServerType
    """What it speaks."""
    host: str
    """Its name or address."""
    port: int
    """Its port."""
    engine: str | None
    """The program on this machine that reaches it; null: ``problem`` tells what to do."""
    problem: str
    """Why it cannot be used; empty: it can."""


class PreviewTraffic(Struct, frozen=True, rename="camel"):
    """Bytes that the subscription allows, and that are used; null where it does not tell."""

    used: int | None
    """Bytes that are used."""
    total: int | None
    """Bytes that may be used."""
    left: int | None
    """Bytes that are left."""
    expires_at: Timestamp | None
    """Until when it holds."""


class ChannelPreview(Struct, frozen=True, rename="camel"):
    """What may be told of a VPN."""

    title: str
    """The subscription's name; empty: it tells none."""
    servers: list[PreviewServer]
    """Those that are found."""
    traffic: PreviewTraffic
    """What the subscription allows."""
    skipped: dict[str, int]
    """Why entries were left out, and how many."""


class Subscriptions(Protocol):
    """Who reads them (``outside.subscription.Subscriptions``). All raise ``BadRequest``."""

    def read(self, url: str, *, local: bool) -> Awaitable[Subscription]:
        """What an address leads to; also ``SupplierUnreachable``."""
        ...

    def told(self, body: str) -> Awaitable[Subscription]:
        """What a body tells."""
        ...


class PreviewDesk:
    """The endpoint ``/api/agent/channels/preview``; ``programs`` are those that are found here."""

    def __init__(
        self, subscriptions: Subscriptions, programs: Callable[[], Collection[str]]
    ) -> None:
        self._subscriptions = subscriptions
        self._programs = programs

    async def preview_channel(self, call: Call) -> Answer:
        """Tell the servers; nothing is kept."""
        found = await self._read(call.json(PreviewWish))
        return Answer(await asyncio.to_thread(_view, found, self._programs))

    async def _read(self, wish: PreviewWish) -> Subscription:
        match wish:
            case PreviewWish(link=str(link), body=None, url=None):
                return single(link)
            case PreviewWish(link=None, body=str(body), url=None):
                return await self._subscriptions.told(body)
            case PreviewWish(link=None, body=None, url=str(url)) if _WEB.match(url):
                return await self._subscriptions.read(url, local=wish.local)
        raise BadRequest(
            "Say exactly one of link, body and url",
            "A url begins with https:// or http://; what begins as ss:// does is a link.",
        )


def _view(found: Subscription, programs: Callable[[], Collection[str]]) -> ChannelPreview:
    here = programs()
    traffic = found.traffic
    return ChannelPreview(
        title=found.title,
        servers=[_server(one, here) for one in found.servers],
        traffic=PreviewTraffic(traffic.used, traffic.total, traffic.left, traffic.expires_at),
        skipped=found.skipped,
    )


def _server(server: Server, programs: Collection[str]) -> PreviewServer:
    told = seen(server)
    try:
        program, problem = engine(server, programs).program, ""
    except Unavailable as error:
        program, problem = None, error.message
    return PreviewServer(told.name, told.type, told.host, told.port, program, problem)
