"""The rows of the model gateway's management, all below ``/api/agent``."""

from typing import NamedTuple

from agentd.web.manage.channels import ChannelDesk
from agentd.web.table import Route
from agentd.web.tables import manage_channels


class Desks(NamedTuple):
    """Who answers, one for each resource."""

    channels: ChannelDesk


def rows(desks: Desks) -> tuple[Route, ...]:
    """Of all resources."""
    return manage_channels.rows(desks.channels)
