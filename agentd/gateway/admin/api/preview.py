"""Preview of the servers of a VPN link or subscription, before a channel is saved."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from agentd.core.clock import Timestamp
from agentd.core.errors import BadRequest, Unavailable
from agentd.gateway.admin.api.route_builders import build_route
from agentd.gateway.vpn.engines import choose_program
from agentd.gateway.vpn.server import Server, ServerType
from agentd.gateway.vpn.subscription import BODY_LIMIT, VpnSubscription, parse_single
from agentd.http.request import Request, Response
from agentd.http.routing import Route

REQUEST_LIMIT = 3 * BODY_LIMIT
"""Maximum size of a request in bytes: a subscription's body, escaped as JSON."""

_WEB = re.compile("https?://", re.IGNORECASE)

Text = Annotated[str, Meta(min_length=1, max_length=BODY_LIMIT)]


class PreviewRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The input: a link (``ss://…``), a subscription's body, or its URL."""

    link: Text | None = None
    """A VPN client's link."""
    body: Text | None = None
    """The content of a subscription."""
    url: Text | None = None
    """The URL of a subscription, which is fetched."""
    local: bool = False
    """True if the URL may point to this machine or its network."""


class PreviewServer(Struct, frozen=True, rename="camel"):
    """A server, without its credentials."""

    name: str
    """The name by which a channel selects it."""
    type: ServerType
    """Its protocol."""
    host: str
    """Its host name or IP address."""
    port: int
    """Its port."""
    engine: str | None
    """The program on this machine that connects to it; null: see ``problem``."""
    problem: str
    """Why it cannot be used, and what to do; empty if it can."""


class PreviewTraffic(Struct, frozen=True, rename="camel"):
    """Traffic of the subscription in bytes; null: unknown."""

    used: int | None
    """Used bytes."""
    total: int | None
    """Allowed bytes."""
    left: int | None
    """Remaining bytes."""
    expires_at: Timestamp | None
    """When it expires."""


class ChannelPreview(Struct, frozen=True, rename="camel"):
    """The preview of a VPN."""

    title: str
    """The subscription's name; empty: none."""
    servers: list[PreviewServer]
    """The servers found."""
    traffic: PreviewTraffic
    """The subscription's traffic."""
    skipped: dict[str, int]
    """Number of skipped entries by reason."""


class SubscriptionReader(Protocol):
    """Reads subscriptions (``gateway.vpn.fetch``). All raise ``BadRequest``."""

    def read(self, url: str, *, local: bool) -> Awaitable[VpnSubscription]:
        """Fetch a subscription; also ``SupplierUnreachable``."""
        ...

    def parse(self, body: str) -> Awaitable[VpnSubscription]:
        """Parse a subscription's body."""
        ...


class PreviewEndpoints:
    """The endpoint ``/api/agent/channels/preview``; ``programs`` returns installed VPN programs."""

    def __init__(
        self, subscriptions: SubscriptionReader, programs: Callable[[], Collection[str]]
    ) -> None:
        self._subscriptions = subscriptions
        self._programs = programs

    async def preview_channel(self, call: Request) -> Response:
        """Return the servers; nothing is stored."""
        found = await self._read(call.parse_json(PreviewRequest))
        return Response(await asyncio.to_thread(_to_view, found, self._programs))

    async def _read(self, request: PreviewRequest) -> VpnSubscription:
        match request:
            case PreviewRequest(link=str(link), body=None, url=None):
                return parse_single(link)
            case PreviewRequest(link=None, body=str(body), url=None):
                return await self._subscriptions.parse(body)
            case PreviewRequest(link=None, body=None, url=str(url)) if _WEB.match(url):
                return await self._subscriptions.read(url, local=request.local)
        raise BadRequest(
            "Give exactly one of link, body and url",
            "A url begins with https:// or http://; other schemes, such as ss://, are links.",
        )


def _to_view(found: VpnSubscription, programs: Callable[[], Collection[str]]) -> ChannelPreview:
    here = programs()
    traffic = found.traffic
    return ChannelPreview(
        title=found.title,
        servers=[_to_server_view(one, here) for one in found.servers],
        traffic=PreviewTraffic(traffic.used, traffic.total, traffic.left, traffic.expires_at),
        skipped=found.skipped,
    )


def _to_server_view(server: Server, programs: Collection[str]) -> PreviewServer:
    try:
        program, problem = choose_program(server, programs).program, ""
    except Unavailable as error:
        program, problem = None, error.message
    return PreviewServer(server.name, server.type, server.host, server.port, program, problem)


def routes(endpoints: PreviewEndpoints) -> tuple[Route, ...]:
    """Return the route of the preview."""
    return (
        build_route(
            "POST",
            "/api/agent/channels/preview",
            endpoint=endpoints.preview_channel,
            summary="Preview a VPN link or subscription: servers, remaining traffic and expiry.",
            request_type=PreviewRequest,
            example={"link": "ss://YWVzLTI1Ni1nY206cGFzc3dvcmQ@vpn.example.org:8388#Paris"},
            response_type=ChannelPreview,
            errors=(BadRequest, Unavailable),
            max_body=REQUEST_LIMIT,
        ),
    )
