"""Endpoint of the gateway's overview: all that a first look shows, in one response.

The response is kept until something changed, or for ``ledger.OVERVIEW_SECONDS``: many
administrators who look at it cost one of them.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple, Protocol

from msgspec import Struct

from agentd.core.errors import ConfigProblem, Unavailable
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.limits import BurnView, PassedView
from agentd.gateway.admin.api.requests import RequestView
from agentd.gateway.admin.api.route_builders import build_route
from agentd.gateway.admin.api.summary import (
    GatewaySummary,
    LedgerSummary,
    PeriodView,
    SummaryEndpoints,
    SummaryLicence,
    SummaryView,
    make_period_view,
)
from agentd.gateway.ledger.daily_totals import RequestTotals
from agentd.gateway.ledger.query import RecordPage, RequestFilter
from agentd.gateway.limits.burn_down import BurnLine
from agentd.gateway.limits.events import ReachedLimit
from agentd.gateway.reports.overview import DayFigures
from agentd.gateway.reports.reports import Quantiles
from agentd.http.json_body import encode_json
from agentd.http.request import Request, Response
from agentd.http.routing import Route

LATEST = 8
"""Number of requests shown."""
MAX_PASSED = 16
"""Number of soft limits shown."""

QuantilesView = shapes.define_view(Quantiles)


class HourView(Struct, frozen=True, rename="camel"):
    """The requests of an hour of a day."""

    hour: int
    """The hour, from 0 to 23, in the time zone of the limits."""
    requests: int
    """Number of requests."""
    ok: int
    """Successful requests."""
    cost: Decimal
    """Cost in USD."""
    secrets: int
    """Secrets found in requests."""
    first_token: float | None
    """Milliseconds until the first token in half of the requests, of the current day only."""


class ChannelTodayView(Struct, frozen=True, rename="camel"):
    """A channel and what it did today."""

    name: str
    """Name of the channel."""
    enabled: bool
    """False if no request uses it."""
    requests: int
    """Number of requests."""
    ok: int
    """Successful requests."""
    cost: Decimal
    """Cost in USD."""
    first_token: float | None
    """Milliseconds until the first token in half of the requests."""


class OverviewView(Struct, frozen=True, rename="camel"):
    """The gateway at a first look: today beside yesterday, limits, channels, latest requests."""

    day: str
    """The current day in the summary's time zone."""
    summary: SummaryView
    """The summary, as at its own path."""
    yesterday: PeriodView
    """The usage of the whole day before."""
    first_token: QuantilesView  # type: ignore[valid-type]
    """Milliseconds until the first token, of today's requests."""
    hours: list[HourView]
    """The hours of today that had requests."""
    yesterday_hours: list[HourView]
    """The hours of the day before that had requests."""
    channels: list[ChannelTodayView]
    """The channels, those with the most requests today first; 8 at most."""
    limits: list[BurnView]
    """The limits in USD of keys and budgets that are used up the most, or soon; 16 at most."""
    soft_limits: list[PassedView]
    """The soft limits that are passed, until they are raised or reset; 16 at most."""
    latest: list[RequestView]
    """The latest requests, newest first; 8 at most."""


class OverviewLedger(LedgerSummary, Protocol):
    """The ledger (``gateway.ledger.ledger.Ledger``)."""

    @property
    def version(self) -> object:
        """Differs once something was recorded, and after some seconds."""
        ...

    def get_day_figures(self) -> Awaitable[DayFigures]:
        """Return the current day beside the one before."""
        ...

    def read_page(
        self, wanted: RequestFilter, limit: int = 50, cursor: str = ""
    ) -> Awaitable[RecordPage]:
        """Return one page of requests, newest first."""
        ...


class OverviewGateway(GatewaySummary, Protocol):
    """The state of the gateway, with what shows that it was changed."""

    @property
    def configuration(self) -> Sequence[object]:
        """The objects of the files in force; others once a file was changed."""
        ...

    def list_channels(self) -> Iterable[tuple[str, bool]]:
        """Return the name of each channel, and whether it is enabled."""
        ...

    def find_nearest_limits(self) -> Awaitable[Sequence[BurnLine]]:
        """Return the limits that are used up the most, or soon."""
        ...

    def list_passed_soft_limits(self) -> Awaitable[Sequence[ReachedLimit]]:
        """Return the soft limits that are passed."""
        ...


class _Version(NamedTuple):
    """What an overview was made of: values, and objects that are replaced when files change."""

    values: tuple[object, ...]
    objects: Sequence[object]

    def is_same(self, other: "_Version") -> bool:
        """Return whether nothing changed between them."""
        pairs = zip(self.objects, other.objects, strict=False)
        return self.values == other.values and all(one is another for one, another in pairs)


class OverviewEndpoints:
    """The endpoint ``/api/agent/overview``; ``summaries`` makes the summary in it."""

    def __init__(
        self,
        gateway: OverviewGateway,
        ledger: OverviewLedger,
        licences: SummaryLicence,
        summaries: SummaryEndpoints,
    ) -> None:
        self._gateway = gateway
        self._ledger = ledger
        self._licences = licences
        self._summaries = summaries
        self._kept: tuple[_Version, bytes] = _Version((), ()), b""
        self._lock = asyncio.Lock()

    async def get_overview(self, _: Request) -> Response:
        """Return the overview, as it was encoded last unless something changed since."""
        await self._licences.ensure_current()
        problems = await self._gateway.find_problems()
        async with self._lock:  # others who ask meanwhile get the same
            version = self._get_version(problems)
            if not version.is_same(self._kept[0]):
                self._kept = version, encode_json(await self._build(problems))
            return Response(self._kept[1])

    def _get_version(self, problems: Sequence[ConfigProblem]) -> "_Version":
        gateway, ledger = self._gateway, self._ledger
        state = ledger.problem, self._licences.status.state, gateway.export_problem
        values = ledger.version, *state, gateway.count_dropped(), tuple(problems)
        return _Version(values, gateway.configuration)

    async def _build(self, problems: Sequence[ConfigProblem]) -> OverviewView:
        figures = await self._ledger.get_day_figures()
        latest = await self._ledger.read_page(RequestFilter(), LATEST)
        medians = figures.hour_medians
        hours = [(name, _make_hour_view(name, row, medians)) for name, row in figures.hours]
        limits = await self._gateway.find_nearest_limits()
        passed = await self._gateway.list_passed_soft_limits()
        return OverviewView(
            day=figures.day,
            summary=await self._summaries.build_summary(problems),
            yesterday=make_period_view(figures.yesterday),
            first_token=shapes.to_view(figures.first_token, QuantilesView),
            hours=[one for name, one in hours if name.startswith(figures.day)],
            yesterday_hours=[one for name, one in hours if not name.startswith(figures.day)],
            channels=_list_channels(figures, dict(self._gateway.list_channels())),
            limits=[shapes.to_view(one, BurnView) for one in limits],
            soft_limits=[shapes.to_view(one, PassedView) for one in passed[:MAX_PASSED]],
            latest=[shapes.to_view(one, RequestView) for one in latest.records],
        )


def _make_hour_view(name: str, row: RequestTotals, medians: dict[str, float | None]) -> HourView:
    return HourView(
        hour=int(name[11:13]),
        requests=row.requests,
        ok=row.ok,
        cost=row.cost,
        secrets=sum(row.hidden.values()),
        first_token=medians.get(name),
    )


def _list_channels(figures: DayFigures, enabled: dict[str, bool]) -> list[ChannelTodayView]:
    """List the channels that there are: the busiest ones, and then others."""
    times = figures.channel_medians
    rows = {name: row for name, row in figures.channels if name in enabled}
    for name in enabled:
        if len(rows) >= LATEST:
            break
        rows.setdefault(name, RequestTotals())
    return [
        ChannelTodayView(name, enabled[name], row.requests, row.ok, row.cost, times.get(name))
        for name, row in rows.items()
    ]


def routes(endpoints: OverviewEndpoints) -> tuple[Route, ...]:
    """Return the route of the overview."""
    return (
        build_route(
            "GET",
            "/api/agent/overview",
            endpoint=endpoints.get_overview,
            summary="The gateway at a first look, in one response: the summary, today beside"
            " yesterday hour by hour, the limits that are used up the most, the busiest channels"
            " and the latest requests.",
            response_type=OverviewView,
            errors=(Unavailable,),
            operation_id="get_overview",
        ),
    )
