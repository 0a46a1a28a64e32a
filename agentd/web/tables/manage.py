"""The rows of the model gateway's management, all below ``/api/agent``."""

from typing import NamedTuple

from agentd.web.manage.changes import ChangeDesk
from agentd.web.manage.channels import ChannelDesk
from agentd.web.manage.daemon_settings import DaemonSettingsDesk
from agentd.web.manage.keys import AccessKeyDesk
from agentd.web.manage.models import ProxyModelDesk
from agentd.web.manage.preview import PreviewDesk
from agentd.web.manage.secret_rules import SecretRuleDesk
from agentd.web.manage.settings import GatewaySettingsDesk
from agentd.web.table import Route
from agentd.web.tables import (
    manage_changes,
    manage_channels,
    manage_keys,
    manage_models,
    manage_preview,
    manage_secret_rules,
    manage_settings,
)


class Desks(NamedTuple):
    """Who answers, one for each resource."""

    channels: ChannelDesk
    models: ProxyModelDesk
    keys: AccessKeyDesk
    secret_rules: SecretRuleDesk
    settings: GatewaySettingsDesk
    daemon: DaemonSettingsDesk
    changes: ChangeDesk
    preview: PreviewDesk


def rows(desks: Desks) -> tuple[Route, ...]:
    """Of all resources."""
    return (
        *manage_channels.rows(desks.channels),
        *manage_models.rows(desks.models),
        *manage_keys.rows(desks.keys),
        *manage_secret_rules.rows(desks.secret_rules),
        *manage_settings.rows(desks.settings, desks.daemon),
        *manage_changes.rows(desks.changes),
        *manage_preview.rows(desks.preview),
    )
