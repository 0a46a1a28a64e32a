"""Wires the reports of the management API to the parts of the gateway.

A part of the composition root (``daemon``).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import tzinfo
from functools import partial

from agentd.app.auth import AuthServices
from agentd.app.gateway import ModelGateway
from agentd.app.inspect import GatewayInspection
from agentd.core.clock import Clock
from agentd.core.errors import BadRequest, ConfigProblem, suggest_name
from agentd.gateway.admin.api.channel_balances import ChannelBalanceView, render_balance
from agentd.gateway.admin.api.channel_state import ChannelStateEndpoints
from agentd.gateway.admin.api.codes import CodeEndpoints
from agentd.gateway.admin.api.licence import LicenceEndpoints
from agentd.gateway.admin.api.limits import LimitEndpoints
from agentd.gateway.admin.api.metrics import MetricsEndpoints
from agentd.gateway.admin.api.overview import OverviewEndpoints
from agentd.gateway.admin.api.reports import ReportEndpoints
from agentd.gateway.admin.api.request_stream import RequestStreamEndpoint
from agentd.gateway.admin.api.requests import RequestEndpoints
from agentd.gateway.admin.api.routes import MonitoringEndpoints, list_monitoring_routes
from agentd.gateway.admin.api.service_log import ServiceLogEndpoints
from agentd.gateway.admin.api.summary import SummaryEndpoints
from agentd.gateway.admin.repriced_history import RepricedHistory
from agentd.gateway.admin.service import ChangeLog
from agentd.gateway.alerts.service import AlertService
from agentd.gateway.alerts.states import FiringTopic
from agentd.gateway.channels.model import AutomaticDisabling
from agentd.gateway.channels.routing import ChannelHealth
from agentd.gateway.export.service import Exporter
from agentd.gateway.keys.keyring import Keyring
from agentd.gateway.keys.model import casefold_name, is_key_id
from agentd.gateway.keys.store import AccessKeyRepository
from agentd.gateway.ledger.bodies import StoredExchange
from agentd.gateway.ledger.tail import open_tail
from agentd.gateway.limits.events import ReachedLimit
from agentd.gateway.limits.nearest_limits import NearestLimits
from agentd.gateway.limits.soft_limits import list_passed_soft_limits
from agentd.gateway.service_log.note import ServiceLogFilter, ServiceLogPage
from agentd.gateway.service_log.store import read_page as notes_page
from agentd.http.connections import ConnectionRegistry
from agentd.http.routing import Route
from agentd.storage.layout import Layout


def build_report_routes(
    layout: Layout,
    clock: Clock,
    gateway: ModelGateway,
    auth: AuthServices,
    journal: ChangeLog,
    exporter: Exporter,
    connections: ConnectionRegistry,
    alerts: AlertService,
) -> tuple[Route, ...]:
    """Return the routes of the reports."""
    ledger, licence, keys = gateway.ledger, gateway.licence, auth.access
    key_id = partial(_find_key_id, keys)
    monitor = _GatewayMonitor(gateway)
    source = _SummarySource(gateway, keys, exporter, alerts, layout, clock)
    summaries = SummaryEndpoints(source, ledger, licence, clock)

    def get_zone() -> tzinfo:
        return ledger.zone

    return list_monitoring_routes(
        MonitoringEndpoints(
            requests=RequestEndpoints(
                ledger,
                _build_body_reader(gateway),
                key_id,
                gateway.get_models,
                RepricedHistory(ledger, journal, gateway.recount),
                get_zone,
                gateway.prices,
            ),
            request_stream=RequestStreamEndpoint(
                ledger,
                lambda cursor, since: open_tail(
                    layout, ledger.get_size, clock.now()[:10], cursor, since
                ),
                connections,
                key_id,
                get_zone,
                clock,
            ),
            notes=ServiceLogEndpoints(_build_note_reader(layout), lambda: gateway.log.dropped),
            reports=ReportEndpoints(ledger, key_id, clock, get_zone),
            limits=LimitEndpoints(
                keys, gateway.budgets, gateway.meters, gateway.model_spend, clock
            ),
            metrics=MetricsEndpoints(monitor, keys, clock),
            channel_state=ChannelStateEndpoints(monitor, clock),
            summary=summaries,
            overview=OverviewEndpoints(source, ledger, licence, summaries),
            licence=LicenceEndpoints(licence, journal),
            codes=CodeEndpoints(auth.sessions.issue_code, journal),
        )
    )


class _SummarySource:
    """Satisfies ``GatewaySummary`` of the summary and ``OverviewGateway`` of the overview."""

    def __init__(
        self,
        gateway: ModelGateway,
        keys: AccessKeyRepository,
        exporter: Exporter,
        alerts: AlertService,
        layout: Layout,
        clock: Clock,
    ) -> None:
        self._exporter = exporter
        self._alerts = alerts
        self.iter_balances = gateway.balances.iter_known
        self.find_nearest_limits = NearestLimits(
            lambda: keys.keys,
            lambda: gateway.budgets.current,
            gateway.meters,
            gateway.model_spend,
            clock,
        ).find
        self._gateway = gateway
        self._book = keys
        self._inspection = GatewayInspection(layout)

    @property
    def models(self) -> int:
        """The number of callable models."""
        return len(self._gateway.get_models())

    @property
    def keys(self) -> Keyring:
        """The valid access keys."""
        return self._book.keys

    def get_health(self) -> Mapping[str, ChannelHealth]:
        """Return the health of each channel by name."""
        return self._gateway.router.get_health(self._gateway.channels.current)

    def count_dropped(self) -> tuple[int, int]:
        """Return the numbers of dropped service log entries and dropped bodies."""
        return self._gateway.log.dropped, self._gateway.bodies.dropped

    @property
    def export_problem(self) -> str:
        """Why the ledger cannot be exported now."""
        return self._exporter.problem

    @property
    def configuration(self) -> Sequence[object]:
        """The objects of the files in force."""
        gateway = self._gateway
        files = gateway.channels.current, gateway.get_models(), gateway.budgets.current
        return (self._book.keys, *files)

    async def list_passed_soft_limits(self) -> Sequence[ReachedLimit]:
        """Return the soft limits that are passed."""
        gateway = self._gateway
        return await list_passed_soft_limits(
            self._book.keys, gateway.budgets.current, gateway.meters, gateway.model_spend
        )

    def list_channels(self) -> Iterable[tuple[str, bool]]:
        """Return the name of each channel, and whether it is enabled."""
        return [(one.name, one.enabled) for one in self._gateway.channels.current.values()]

    def list_disabled(self) -> Iterable[tuple[str, AutomaticDisabling]]:
        """Return the channels that were disabled automatically, by name."""
        channels = self._gateway.channels.current.values()
        return [
            (one.name, one.auto_disabled)
            for one in channels
            if one.auto_disabled and not one.enabled
        ]

    @property
    def firing(self) -> Iterable[FiringTopic]:
        """The topics of alerts that fire."""
        return self._alerts.firing

    async def find_problems(self) -> Sequence[ConfigProblem]:
        """Return all problems that ``agentd proxy check`` finds in the files."""
        return await asyncio.to_thread(self._inspection.find_problems)


class _GatewayMonitor:
    """Satisfies ``MonitoredGateway`` of the metrics, and ``LiveChannels`` of their states."""

    def __init__(self, gateway: ModelGateway) -> None:
        self._gateway = gateway
        self.take_request_counts = gateway.counters.take_snapshot
        self.describe_limits = gateway.meters.describe_limits
        self.get_times = gateway.call_times.get_times
        self.iter_balances = gateway.balances.iter_known

    def get_health(self) -> Mapping[str, ChannelHealth]:
        """Return the health of each channel by name."""
        return self._gateway.router.get_health(self._gateway.channels.current)

    def find_balance(self, channel: str) -> ChannelBalanceView | None:
        """Return what was last read of a channel's balance."""
        known = self._gateway.channels.current.get(channel)
        balance = self._gateway.balances.get(known) if known else None
        return render_balance(known, balance) if known and balance else None

    @property
    def is_ledger_writable(self) -> bool:
        """True if requests can be recorded now."""
        return not self._gateway.ledger.problem


def _find_key_id(keys: AccessKeyRepository, given: str) -> str:
    """Return the id of the access key with this id or name.

    An unknown text in the form of an id is taken for the id of a deleted key; raises ``BadRequest``
    with the nearest name for anything else.
    """
    if keys.keys.find(given):
        return given
    name = casefold_name(given)
    found = next((key.id for key in keys.keys if casefold_name(key.name) == name), "")
    if not found and not is_key_id(given):
        near = suggest_name(given, [key.name for key in keys.keys])
        raise BadRequest(f'There is no access key "{given[:100]}"{near}')
    return found or given


def _build_body_reader(
    gateway: ModelGateway,
) -> Callable[[str, str], Awaitable[StoredExchange | None]]:
    return lambda id_, day: asyncio.to_thread(gateway.bodies.read, id_, day)


def _build_note_reader(
    layout: Layout,
) -> Callable[[ServiceLogFilter, int, str], Awaitable[ServiceLogPage]]:
    return lambda wanted, limit, cursor: asyncio.to_thread(
        notes_page, layout, wanted, limit, cursor
    )
