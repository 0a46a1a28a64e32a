"""Endpoint of the gateway's summary, cheap enough to be polled often."""

from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from datetime import tzinfo
from decimal import Decimal
from typing import Protocol

from msgspec import Struct

from agentd import __version__
from agentd.core.clock import Clock, Timestamp
from agentd.core.errors import ConfigProblem, Unavailable
from agentd.gateway.admin.api.route_builders import build_route
from agentd.gateway.channels.routing import ChannelHealth
from agentd.gateway.keys.keyring import Keyring
from agentd.gateway.ledger.daily_totals import RequestTotals, to_spent
from agentd.gateway.licence.licence import LicenceStatus
from agentd.gateway.reports.overview import LedgerOverview
from agentd.http.request import Request, Response
from agentd.http.routing import Route

MAX_CHANNELS = 20
"""Maximum number of unhealthy channels listed by name."""
MAX_PROBLEMS = 20


class PeriodView(Struct, frozen=True, rename="camel"):
    """Totals since the beginning of the day or month."""

    requests: int
    """Number of requests."""
    ok: int
    """Successful requests."""
    errors: dict[str, int]
    """Failed requests, by kind of error."""
    cost: Decimal
    """Cost in USD."""
    input_tokens: int
    """Input tokens."""
    output_tokens: int
    """Output and reasoning tokens."""
    secrets: int
    """Secrets found in requests."""


class TopModelView(Struct, frozen=True):
    """A model among those with the highest cost today."""

    name: str
    """Name of the model, as callers use it."""
    requests: int
    """Number of requests."""
    cost: Decimal
    """Cost in USD."""


class UnhealthyChannelView(Struct, frozen=True, rename="camel"):
    """A channel in cooldown, or whose last call failed."""

    name: str
    """Name of the channel."""
    state: str
    """``ok``, ``cooldown`` or ``disabled``."""
    cooldown_seconds: float
    """Remaining cooldown in seconds."""
    error: str
    """Why the last failed call failed."""
    seconds_since_failure: float
    """Seconds since the last failure."""
    succeeded: int
    """Successful calls since the start."""
    failed: int
    """Failed calls since the start."""
    model_cooldowns: dict[str, float]
    """Its models in cooldown while the channel is not: remaining seconds by name."""


class ChannelsView(Struct, frozen=True, rename="camel"):
    """Number of channels by state, and the unhealthy ones, those in cooldown first."""

    ok: int
    """Channels in use."""
    cooldown: int
    """Channels in cooldown after failures."""
    disabled: int
    """Disabled channels."""
    unhealthy: list[UnhealthyChannelView]
    """Channels in cooldown, or whose last call failed."""


class KeyCountsView(Struct, frozen=True):
    """Number of access keys; an enabled one may be expired."""

    total: int
    """All keys."""
    enabled: int
    """Enabled keys."""


class LicenceShortView(Struct, frozen=True):
    """True if model requests are allowed."""

    state: str
    """State of the licence."""
    reason: str
    """Why it is not valid, and what to do; empty if it is valid."""
    expires: Timestamp | None
    """When it expires; null: there is no licence."""


class CorruptDayView(Struct, frozen=True):
    """A day of the ledger with corrupt lines, which are not counted."""

    day: str
    """The day in UTC."""
    lines: int
    """Number of corrupt lines."""


class DroppedView(Struct, frozen=True, rename="camel"):
    """The numbers of lost entries since the start."""

    service_log: int
    """Entries of the service log."""
    bodies: int
    """Bodies of requests."""


class SummaryView(Struct, frozen=True, rename="camel"):
    """The gateway at a glance."""

    at: Timestamp
    """Time of this summary."""
    version: str
    """Version of the daemon."""
    licence: LicenceShortView
    """True if model requests are allowed."""
    zone: str
    """The time zone of days and months, also used by limits."""
    today: PeriodView
    """The usage since the beginning of the day."""
    month: PeriodView
    """The usage since the beginning of the month."""
    top_models: list[TopModelView]
    """Today's models with the highest cost."""
    channels: ChannelsView
    """State of the channels."""
    models: int
    """Number of models that can be used."""
    keys: KeyCountsView
    """Number of access keys."""
    ledger_problem: str
    """Why requests cannot be recorded now; empty if they can."""
    export_problem: str
    """Why the ledger cannot be exported now; empty if it can, or the export is off."""
    corrupt_days: list[CorruptDayView]
    """Days of the ledger with corrupt lines."""
    dropped: DroppedView
    """The numbers of lost entries since the start."""
    problems: list[str]
    """Problems of the configuration files; the same as in ``agentd proxy check``."""


class LedgerSummary(Protocol):
    """The ledger (``gateway.ledger.ledger.Ledger``)."""

    @property
    def problem(self) -> str:
        """Why requests cannot be recorded now; empty if they can."""
        ...

    @property
    def zone(self) -> tzinfo:
        """The time zone of days and months."""
        ...

    def get_overview(self) -> Awaitable[LedgerOverview]:
        """Return a summary of the current day and month."""
        ...


class SummaryLicence(Protocol):
    """The licence as it is now (``gateway.licence.store.LicenceService``)."""

    @property
    def status(self) -> LicenceStatus:
        """The current status."""
        ...

    def ensure_current(self) -> Awaitable[None]:
        """Return once it matches its files."""
        ...


class GatewaySummary(Protocol):
    """The state of the gateway, all of it from memory."""

    @property
    def models(self) -> int:
        """Number of models that can be used."""
        ...

    @property
    def keys(self) -> Keyring:
        """The valid keys."""
        ...

    def get_health(self) -> Mapping[str, ChannelHealth]:
        """Return the state of each channel by name."""
        ...

    def count_dropped(self) -> tuple[int, int]:
        """Return the numbers of service log lines and bodies lost since the start."""
        ...

    @property
    def export_problem(self) -> str:
        """Why the ledger cannot be exported now; empty if it can, or the export is off."""
        ...

    def find_problems(self) -> Awaitable[Sequence[ConfigProblem]]:
        """Return the problems of the configuration files."""
        ...


class SummaryEndpoints:
    """The endpoint ``/api/agent/summary``."""

    def __init__(
        self, gateway: GatewaySummary, ledger: LedgerSummary, licences: SummaryLicence, clock: Clock
    ) -> None:
        self._gateway = gateway
        self._ledger = ledger
        self._licences = licences
        self._clock = clock
        self._counted: tuple[Keyring | None, KeyCountsView] = (None, KeyCountsView(0, 0))

    async def get_summary(self, _: Request) -> Response:
        """Return the summary, from memory except for a check of the licence's files."""
        await self._licences.ensure_current()
        return Response(await self.build_summary(await self._gateway.find_problems()))

    async def build_summary(self, problems: Sequence[ConfigProblem]) -> SummaryView:
        """Return the summary with these problems, by the licence as it was last read."""
        overview = await self._ledger.get_overview()
        gateway = self._gateway
        return SummaryView(
            at=self._clock.now(),
            version=__version__,
            licence=_make_licence_view(self._licences.status),
            zone=str(self._ledger.zone),
            today=make_period_view(overview.today),
            month=make_period_view(overview.month),
            top_models=[
                TopModelView(name, one.requests, one.cost) for name, one in overview.models
            ],
            channels=_make_channels_view(gateway.get_health()),
            models=gateway.models,
            keys=self._count_keys(),
            ledger_problem=self._ledger.problem,
            export_problem=gateway.export_problem,
            corrupt_days=[CorruptDayView(one.day, one.lines) for one in overview.corrupt_days],
            dropped=DroppedView(*gateway.count_dropped()),
            problems=[str(one) for one in problems[:MAX_PROBLEMS]],
        )

    def _count_keys(self) -> KeyCountsView:
        keys = self._gateway.keys
        if self._counted[0] is not keys:
            self._counted = keys, KeyCountsView(len(keys), sum(one.enabled for one in keys))
        return self._counted[1]


def make_period_view(totals: RequestTotals) -> PeriodView:
    """Return totals as the summary shows them."""
    output = totals.output + totals.reasoning
    return PeriodView(
        requests=totals.requests,
        ok=totals.ok,
        errors=totals.errors,
        cost=totals.cost,
        input_tokens=to_spent(totals).tokens - output,
        output_tokens=output,
        secrets=sum(totals.hidden.values()),
    )


def _make_licence_view(status: LicenceStatus) -> LicenceShortView:
    expires = status.licence.expires if status.licence else None
    return LicenceShortView(status.state, status.reason, expires)


def _make_channels_view(health: Mapping[str, ChannelHealth]) -> ChannelsView:
    states = Counter(one.state for one in health.values())
    unhealthy = [name for name, one in health.items() if one.error or one.models or one.seconds]
    unhealthy.sort(key=lambda name: (health[name].state != "cooldown", health[name].ago, name))
    return ChannelsView(
        ok=states["ok"],
        cooldown=states["cooldown"],
        disabled=states["disabled"],
        unhealthy=[_make_unhealthy_view(name, health[name]) for name in unhealthy[:MAX_CHANNELS]],
    )


def _make_unhealthy_view(name: str, one: ChannelHealth) -> UnhealthyChannelView:
    return UnhealthyChannelView(
        name=name,
        state=one.state,
        cooldown_seconds=round(one.seconds, 1),
        error=one.error,
        seconds_since_failure=round(one.ago, 1),
        succeeded=one.succeeded,
        failed=one.failed,
        model_cooldowns={model: round(seconds, 1) for model, seconds in one.models.items()},
    )


def routes(endpoints: SummaryEndpoints) -> tuple[Route, ...]:
    """Return the route of the summary."""
    return (
        build_route(
            "GET",
            "/api/agent/summary",
            endpoint=endpoints.get_summary,
            summary="The gateway at a glance: spend, errors, channels, licence and problems.",
            response_type=SummaryView,
            errors=(Unavailable,),
            operation_id="get_summary",
        ),
    )
