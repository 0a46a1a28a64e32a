"""Health, metrics and the OpenAPI document of the daemon: endpoints and routes."""

import asyncio
import resource
from ipaddress import ip_address

from msgspec import Struct

from agentd.auth.gate import INVALID_KEY
from agentd.chats.service import ChatService
from agentd.core.clock import Clock
from agentd.core.errors import (
    Unauthorized,
)
from agentd.http.access import ANONYMOUS, RouteGroup
from agentd.http.access_log import AccessLog
from agentd.http.openapi import build_openapi
from agentd.http.prometheus import CONTENT_TYPE, MetricFamily, MetricsText
from agentd.http.request import Request, Response
from agentd.http.routing import OPENAPI_SCHEMA, Route, RouteTable

UPTIME = MetricFamily("agentd_uptime_seconds", "gauge", "Seconds since the start of the daemon.")
RESIDENT_PEAK = MetricFamily(
    "agentd_resident_peak_bytes", "gauge", "The most memory that the daemon has had."
)
CHATS = MetricFamily("agentd_chats", "gauge", "Chats.")
CHATS_WORKING = MetricFamily("agentd_chats_working", "gauge", "Chats with a running turn.")
CHATS_DAMAGED = MetricFamily("agentd_chats_damaged", "gauge", "Chats whose files are damaged.")
PROMPTS_WAITING = MetricFamily("agentd_prompts_waiting", "gauge", "Queued prompts of all chats.")
HTTP_ANSWERS = MetricFamily(
    "agentd_http_answers_total", "counter", "HTTP responses by method and status."
)

_FORWARDED = ("X-Forwarded-For", "Forwarded")
"""The headers in which proxies name the client."""


class Health(Struct, frozen=True):
    """The health of the daemon, which anybody may see: that it is up."""

    status: str = "ok"


class SystemEndpoints:
    """Health, OpenAPI document and metrics."""

    def __init__(self, chats: ChatService, access_log: AccessLog, clock: Clock) -> None:
        self._chats = chats
        self._access_log = access_log
        self._clock = clock
        self._began = clock.monotonic()
        self._table = RouteTable(())
        self._openapi = b""

    def describe(self, table: RouteTable) -> None:
        """Set the routes to describe, which include those of this object."""
        self._table = table

    def check_health(self, call: Request) -> Response:
        """Answer that the daemon is up."""
        return Response(Health())

    async def get_openapi(self, call: Request) -> Response:
        """Return all API routes as an OpenAPI 3.1 document."""
        if not self._openapi:  # made on first use: most daemons are never asked
            await self._table.import_deferred()
            self._openapi = await asyncio.to_thread(build_openapi, self._list_api())
        return Response(self._openapi)

    def _list_api(self) -> tuple[Route, ...]:
        return tuple(route for route in self._table.routes if not route.is_page)

    def get_metrics(self, call: Request) -> Response:
        """Return metrics for Prometheus: without a key only to this machine, and through no proxy.

        A proxy of this machine that ``trusted_proxies`` does not name has the address of loopback.
        """
        is_forwarded = any(name in call.headers for name in _FORWARDED)
        is_local = ip_address(call.remote_ip).is_loopback and not is_forwarded
        if call.caller is ANONYMOUS and not is_local:
            raise Unauthorized(INVALID_KEY)
        chats = self._chats.list_summaries()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        text = MetricsText()
        text.add_metric(UPTIME, round(self._clock.monotonic() - self._began, 3))
        text.add_metric(RESIDENT_PEAK, peak)
        text.add_metric(CHATS, len(chats))
        text.add_metric(CHATS_WORKING, sum(chat.working for chat in chats))
        text.add_metric(CHATS_DAMAGED, sum(bool(chat.damage) for chat in chats))
        text.add_metric(PROMPTS_WAITING, sum(chat.waiting for chat in chats))
        text.add_family(HTTP_ANSWERS)
        for (method, status), count in sorted(self._access_log.answers.items()):
            text.add_sample(HTTP_ANSWERS.name, count, {"method": method, "status": status})
        return Response(text.encode(), headers={"Content-Type": CONTENT_TYPE})


def routes(system: SystemEndpoints) -> tuple[Route, ...]:
    """Return the routes that belong to no surface."""
    return (
        Route(
            "GET",
            "/healthz",
            RouteGroup.PUBLIC,
            system.check_health,
            "Report that the daemon is up.",
            operation_id="check_health",
            response_type=Health,
        ),
        Route(
            "GET",
            "/metrics",
            RouteGroup.OPEN,
            system.get_metrics,
            "Counters and gauges in the text format of Prometheus; from loopback, or with a key.",
            operation_id="read_metrics",
            extra_media_types=("text/plain",),
        ),
        Route(
            "GET",
            "/api/openapi.json",
            RouteGroup.OPEN,
            system.get_openapi,
            "Describe every endpoint, as OpenAPI 3.1.",
            operation_id="get_openapi",
            raw_response_schema=OPENAPI_SCHEMA,
        ),
    )
