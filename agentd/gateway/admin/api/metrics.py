"""Endpoint of the gateway's metrics, for Prometheus."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Protocol

from agentd.core.clock import Clock
from agentd.gateway.admin.api.limits import LimitedKeys
from agentd.gateway.admin.api.route_builders import build_route
from agentd.gateway.channels.balances import ChannelBalance
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.routing import ChannelHealth
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.limits.spend import LimitStatus
from agentd.gateway.metrics.counters import RequestCounts
from agentd.gateway.metrics.exposition import GatewayMetrics, render_metrics
from agentd.gateway.metrics.key_states import KeyCounts
from agentd.http.prometheus import CONTENT_TYPE
from agentd.http.request import Request, Response
from agentd.http.routing import Route

KEYS_AT_ONCE = 200
"""Keys whose limits are looked at before other requests may run."""


class MonitoredGateway(Protocol):
    """The state of the gateway, all of it from memory."""

    def take_request_counts(self) -> RequestCounts:
        """Return the counts since the start."""
        ...

    def get_health(self) -> Mapping[str, ChannelHealth]:
        """Return the state of each channel by name."""
        ...

    def iter_balances(self) -> Iterable[tuple[Channel, ChannelBalance]]:
        """Return the enabled channels whose balance was read."""
        ...

    def describe_limits(self, key: AccessKey) -> tuple[LimitStatus, ...]:
        """Return each limit of a key and how much of it is used."""
        ...

    @property
    def is_ledger_writable(self) -> bool:
        """True if requests can be recorded now."""
        ...


class MetricsEndpoints:
    """The endpoint ``/api/agent/metrics``."""

    def __init__(self, gateway: MonitoredGateway, keys: LimitedKeys, clock: Clock) -> None:
        self._gateway = gateway
        self._keys = keys
        self._clock = clock

    async def get_gateway_metrics(self, _: Request) -> Response:
        """Return all metrics."""
        await self._keys.ensure_current()
        keys = await self._count_keys(self._keys.keys)
        gateway = self._gateway
        metrics = GatewayMetrics(
            gateway.take_request_counts(),
            gateway.get_health(),
            sorted(
                ((channel.name, one) for channel, one in gateway.iter_balances()),
                key=lambda pair: pair[0],
            ),
            keys,
            gateway.is_ledger_writable,
        )
        text = await asyncio.to_thread(render_metrics, metrics)
        return Response(text, headers={"Content-Type": CONTENT_TYPE})

    async def _count_keys(self, keys: Iterable[AccessKey]) -> KeyCounts:
        counts, now = KeyCounts(), self._clock.now()
        for number, key in enumerate(keys, 1):
            limits = self._gateway.describe_limits(key) if key.limits.has_usd_limit else ()
            counts.add(key, limits, now)
            if number % KEYS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return counts


def routes(endpoints: MetricsEndpoints) -> tuple[Route, ...]:
    """Return the route of the metrics."""
    return (
        build_route(
            "GET",
            "/api/agent/metrics",
            endpoint=endpoints.get_gateway_metrics,
            summary="Metrics of the gateway in the text format of Prometheus: requests, tokens,"
            " cost, errors and times by model and channel, cooldowns, balances of suppliers, and"
            " keys near their limits.",
            operation_id="read_metrics",
            extra_media_types=("text/plain",),
        ),
    )
