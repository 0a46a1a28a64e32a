"""The rows of ``/api/agent/settings`` and ``/api/agent/settings/daemon``."""

from agentd.catalog.standing import SettingsView
from agentd.errors import BadRequest, Conflict, PreconditionFailed, Unavailable
from agentd.web.manage import settings as shapes
from agentd.web.manage.daemon_settings import DaemonSettingsDesk, DaemonSettingsPatch
from agentd.web.manage.resource import DRY_RUN, IF_MATCH
from agentd.web.manage.settings import GatewaySettingsDesk
from agentd.web.table import Route
from agentd.web.tables.manage_rows import row

_ALL = "/api/agent/settings"
_DAEMON = "/api/agent/settings/daemon"


def rows(desk: GatewaySettingsDesk, daemon: DaemonSettingsDesk) -> tuple[Route, ...]:
    """Read, change."""
    return (
        row(
            "GET",
            _ALL,
            endpoint=desk.gateway_settings,
            summary="Every setting of the gateway, its value, default and use; secrets are masked.",
            gives=shapes.GatewaySettingsView,
            operation="get_gateway_settings",
        ),
        row(
            "PATCH",
            _ALL,
            endpoint=desk.change_gateway_settings,
            summary="Change settings in proxy.yml, all or none: what is absent stays, null is the"
            " default. They hold at once.",
            takes=shapes.SettingsPatch,
            example={"time_zone": "Europe/Berlin", "bodies": {"keep_days": 3}},
            gives=shapes.GatewaySettingsView,
            errors=(BadRequest, Conflict, PreconditionFailed, Unavailable),
            parameters=(DRY_RUN, IF_MATCH),
        ),
        row(
            "GET",
            _DAEMON,
            endpoint=daemon.daemon_settings,
            summary="Every setting of the daemon: what is in force, what agentd.yml says, and what"
            " waits for a restart; secrets are masked.",
            gives=SettingsView,
            operation="get_daemon_settings",
        ),
        row(
            "PATCH",
            _DAEMON,
            endpoint=daemon.change_daemon_settings,
            summary="Change settings in agentd.yml, all or none: what is absent stays, null is the"
            " default. Each that needs no restart holds at once. The administrator's name and"
            " password and the management key are not changed from here.",
            takes=DaemonSettingsPatch,
            example={"max_parallel_turns": 3, "budget_per_day": 20},
            gives=SettingsView,
            errors=(BadRequest, Conflict, PreconditionFailed, Unavailable),
            parameters=(DRY_RUN, IF_MATCH),
        ),
    )
