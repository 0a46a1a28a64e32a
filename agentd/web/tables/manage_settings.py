"""The rows of ``/api/agent/settings``."""

from agentd.errors import BadRequest, Conflict, PreconditionFailed, Unavailable
from agentd.web.manage import settings as shapes
from agentd.web.manage.resource import DRY_RUN, IF_MATCH
from agentd.web.manage.settings import GatewaySettingsDesk
from agentd.web.table import Route
from agentd.web.tables.manage_rows import row

_ALL = "/api/agent/settings"


def rows(desk: GatewaySettingsDesk) -> tuple[Route, ...]:
    """Read, change."""
    return (
        row(
            "GET",
            _ALL,
            endpoint=desk.gateway_settings,
            summary="Every setting of the gateway, its value, default and use; secrets are masked.",
            gives=shapes.GatewaySettingsView,
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
    )
