"""The management of the model gateway as it is composed: its desks, over the gateway's own parts.

A part of the composition root (``daemon``).
"""

from typing import Self

from agentd.catalog.models import Models
from agentd.daemon.gateway import ModelGateway
from agentd.disk.access_key_book import AccessKeyBook
from agentd.disk.channels import ChannelBook
from agentd.disk.layout import Layout
from agentd.disk.reload import Reloaded
from agentd.web.manage.channels import ChannelDesk
from agentd.web.table import Route
from agentd.web.tables import manage


class Management:
    """The surface ``/api/agent`` over a gateway."""

    def __init__(
        self,
        layout: Layout,
        gateway: ModelGateway,
        keys: AccessKeyBook,
        models: Reloaded[Models],
    ) -> None:
        channels = ChannelBook(layout, file=gateway.channels)
        self._desks = manage.Desks(channels=ChannelDesk(channels, lambda: models.current))

    async def __aenter__(self) -> Self:
        """Answer from now on."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Answer no more."""

    @property
    def rows(self) -> tuple[Route, ...]:
        """What it adds to the routes table."""
        return manage.rows(self._desks)
