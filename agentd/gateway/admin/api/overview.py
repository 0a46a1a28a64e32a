"""Endpoint of the gateway's overview: all that a first look shows, in one response.

The response is kept until something changed, or for ``ledger.OVERVIEW_SECONDS``: many
administrators who look at it cost one of them.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from decimal import Decimal
from itertools import islice
from typing import NamedTuple, Protocol

from msgspec import Struct

from agentd.core.clock import Timestamp
from agentd.core.errors import ConfigProblem, Unavailable
from agentd.gateway.admin.api import shapes
from agentd.gateway.admin.api.alerts import FiringAlertView, render_firing
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
from agentd.gateway.alerts.states import FiringTopic
from agentd.gateway.channels.balances import ChannelBalance
from agentd.gateway.channels.model import AutomaticDisabling, Channel
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
MAX_NEEDING = 16
"""Number shown of each: channels that were disabled, low balances and alerts."""

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


class DisabledChannelView(Struct, frozen=True):
    """A channel that agentd disabled by itself."""

    name: str
    """Name of the channel."""
    at: Timestamp
    """When it was disabled."""
    reason: str
    """Why."""


class LowBalanceView(Struct, frozen=True):
    """A channel of whose supplier's account little is left."""

    channel: str
    """Name of the channel."""
    amount: Decimal
    """What was left when it was last read, of the key with the least."""
    currency: str
    """The currency of both amounts, as the supplier tells it."""
    low: Decimal
    """The amount below which it is low."""


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
    disabled_channels: list[DisabledChannelView]
    """The channels that agentd disabled by itself, the latest first; 16 at most."""
    low_balances: list[LowBalanceView]
    """The channels whose balance is low; 16 at most."""
    firing: list[FiringAlertView]
    """The alerts about conditions that hold now, the latest first; 16 at most."""
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

    def list_disabled(self) -> Iterable[tuple[str, AutomaticDisabling]]:
        """Return the channels that agentd disabled by itself, by name."""
        ...

    def iter_balances(self) -> Iterable[tuple[Channel, ChannelBalance]]:
        """Return the balances of channels that are known."""
        ...

    @property
    def firing(self) -> Iterable[FiringTopic]:
        """The topics of alerts that fire, the oldest first."""
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
        needing = _list_low_balances(gateway.iter_balances()), tuple(gateway.firing)
        values = ledger.version, *state, gateway.count_dropped(), tuple(problems), *needing
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
            disabled_channels=_list_disabled(self._gateway.list_disabled()),
            low_balances=_list_low_balances(self._gateway.iter_balances())[:MAX_NEEDING],
            firing=render_firing(self._gateway.firing)[: -MAX_NEEDING - 1 : -1],
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
    rows = dict(islice((row for row in figures.channels if row[0] in enabled), LATEST))
    for name in enabled:
        if len(rows) >= LATEST:
            break
        rows.setdefault(name, RequestTotals())
    return [
        ChannelTodayView(name, enabled[name], row.requests, row.ok, row.cost, times.get(name))
        for name, row in rows.items()
    ]


def _list_disabled(
    channels: Iterable[tuple[str, AutomaticDisabling]],
) -> list[DisabledChannelView]:
    found = [DisabledChannelView(name, one.at, one.reason) for name, one in channels]
    return sorted(found, key=lambda one: one.at, reverse=True)[:MAX_NEEDING]


def _list_low_balances(
    balances: Iterable[tuple[Channel, ChannelBalance]],
) -> list[LowBalanceView]:
    found = []
    for channel, balance in balances:
        low = channel.balance.low
        for one in sorted(balance.list_low(low), key=lambda key: key.amount or 0)[:1]:
            found.append(
                LowBalanceView(
                    channel.name, one.amount or Decimal(0), one.currency, low or Decimal(0)
                )
            )
    return found


def routes(endpoints: OverviewEndpoints) -> tuple[Route, ...]:
    """Return the route of the overview."""
    return (
        build_route(
            "GET",
            "/api/agent/overview",
            endpoint=endpoints.get_overview,
            summary="The gateway at a first look, in one response: the summary, today beside"
            " yesterday hour by hour, the limits that are used up the most, what else needs"
            " attention, the busiest channels and the latest requests.",
            response_type=OverviewView,
            errors=(Unavailable,),
            operation_id="get_overview",
        ),
    )
