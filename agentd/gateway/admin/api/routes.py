"""The routes of the management API, all below ``/api/agent``; each module defines its own."""

from typing import NamedTuple

from agentd.gateway.admin.api import (
    alerts,
    budgets,
    changes,
    channel_balances,
    channel_state,
    channels,
    codes,
    imports,
    keys,
    licence,
    limits,
    management_keys,
    metrics,
    models,
    offered_models,
    overview,
    preview,
    prices,
    reports,
    request_stream,
    requests,
    secret_rules,
    service_log,
    settings,
    summary,
)
from agentd.gateway.admin.api.alerts import AlertTargetEndpoints
from agentd.gateway.admin.api.batches import BatchEndpoints, KeyBatchEndpoints, build_batch_route
from agentd.gateway.admin.api.budgets import BudgetEndpoints
from agentd.gateway.admin.api.changes import ChangeEndpoints
from agentd.gateway.admin.api.channel_balances import ChannelBalanceEndpoints
from agentd.gateway.admin.api.channel_state import ChannelStateEndpoints
from agentd.gateway.admin.api.channels import ChannelEndpoints
from agentd.gateway.admin.api.codes import CodeEndpoints
from agentd.gateway.admin.api.daemon_settings import DaemonSettingsEndpoints
from agentd.gateway.admin.api.imports import ImportEndpoints
from agentd.gateway.admin.api.keys import AccessKeyEndpoints
from agentd.gateway.admin.api.licence import LicenceEndpoints
from agentd.gateway.admin.api.limits import LimitEndpoints
from agentd.gateway.admin.api.management_keys import ManagementKeyEndpoints
from agentd.gateway.admin.api.metrics import MetricsEndpoints
from agentd.gateway.admin.api.models import ProxyModelEndpoints
from agentd.gateway.admin.api.offered_models import OfferedModelEndpoints
from agentd.gateway.admin.api.overview import OverviewEndpoints
from agentd.gateway.admin.api.preview import PreviewEndpoints
from agentd.gateway.admin.api.prices import PriceEndpoints
from agentd.gateway.admin.api.reports import ReportEndpoints
from agentd.gateway.admin.api.request_stream import RequestStreamEndpoint
from agentd.gateway.admin.api.requests import RequestEndpoints
from agentd.gateway.admin.api.secret_rules import SecretRuleEndpoints
from agentd.gateway.admin.api.service_log import ServiceLogEndpoints
from agentd.gateway.admin.api.settings import GatewaySettingsEndpoints
from agentd.gateway.admin.api.summary import SummaryEndpoints
from agentd.gateway.channels.model import Channel
from agentd.http.routing import Route
from agentd.models.gateway_model import GatewayModel


class BatchesByResource(NamedTuple):
    """The endpoint objects of changes of several resources of one kind."""

    channels: BatchEndpoints[Channel]
    models: BatchEndpoints[GatewayModel]
    keys: KeyBatchEndpoints


class ManagementEndpoints(NamedTuple):
    """The endpoint objects of the resources."""

    channels: ChannelEndpoints
    models: ProxyModelEndpoints
    imports: ImportEndpoints
    batches: BatchesByResource
    keys: AccessKeyEndpoints
    management_keys: ManagementKeyEndpoints
    budgets: BudgetEndpoints
    secret_rules: SecretRuleEndpoints
    alert_targets: AlertTargetEndpoints
    settings: GatewaySettingsEndpoints
    daemon: DaemonSettingsEndpoints
    changes: ChangeEndpoints
    preview: PreviewEndpoints
    prices: PriceEndpoints
    offered: OfferedModelEndpoints
    channel_balances: ChannelBalanceEndpoints


def list_management_routes(endpoints: ManagementEndpoints) -> tuple[Route, ...]:
    """Return the routes of all resources."""
    return (
        *channels.routes(endpoints.channels),
        *models.routes(endpoints.models),
        *imports.routes(endpoints.imports),
        build_batch_route(endpoints.batches.channels, "channels", "channels", "openai"),
        build_batch_route(endpoints.batches.models, "models", "models", "large"),
        build_batch_route(
            endpoints.batches.keys,
            "keys",
            "access keys",
            "ann",
            "Enable, disable, tag, untag or delete",
        ),
        *keys.routes(endpoints.keys),
        *management_keys.routes(endpoints.management_keys),
        *budgets.routes(endpoints.budgets),
        *secret_rules.routes(endpoints.secret_rules),
        *alerts.list_target_routes(endpoints.alert_targets),
        *settings.routes(endpoints.settings, endpoints.daemon),
        *changes.routes(endpoints.changes),
        *preview.routes(endpoints.preview),
        *prices.routes(endpoints.prices),
        *offered_models.routes(endpoints.offered),
        *channel_balances.routes(endpoints.channel_balances),
    )


class MonitoringEndpoints(NamedTuple):
    """The endpoint objects of logs, reports, metrics, summary, licence and login codes."""

    requests: RequestEndpoints
    request_stream: RequestStreamEndpoint
    notes: ServiceLogEndpoints
    reports: ReportEndpoints
    limits: LimitEndpoints
    metrics: MetricsEndpoints
    channel_state: ChannelStateEndpoints
    summary: SummaryEndpoints
    overview: OverviewEndpoints
    licence: LicenceEndpoints
    codes: CodeEndpoints


def list_monitoring_routes(endpoints: MonitoringEndpoints) -> tuple[Route, ...]:
    """Return the routes of logs, reports, metrics, summary, licence and login codes."""
    every = (*reports.routes(endpoints.reports), *limits.routes(endpoints.limits))
    return (
        *request_stream.routes(endpoints.request_stream),
        *requests.routes(endpoints.requests),
        *service_log.routes(endpoints.notes),
        reports.list_route(every),
        *every,
        reports.build_leaks_route(endpoints.reports),
        *metrics.routes(endpoints.metrics),
        *channel_state.routes(endpoints.channel_state),
        *summary.routes(endpoints.summary),
        *overview.routes(endpoints.overview),
        *licence.routes(endpoints.licence),
        *codes.routes(endpoints.codes),
    )
