"""The export of the ledger as it is composed, for as long as the daemon lives.

A part of the composition root (``daemon``).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Self

from agentd.clock import Clock
from agentd.daemon.chores import end
from agentd.disk.export_state import ExportFile
from agentd.disk.layout import Layout
from agentd.disk.ledger_export import LedgerDays
from agentd.disk.secret import resolve
from agentd.disk.service_log import ServiceLog
from agentd.outside.clickhouse import ClickHouses
from agentd.proxy.export.service import Exporter
from agentd.proxy.settings import Export, GatewaySettings
from agentd.web.manage.export import ExportDesk
from agentd.web.table import Route
from agentd.web.tables import manage_export


class Exporting:
    """Sends the ledger to the analytics database of the settings as long as its block lasts."""

    def __init__(
        self,
        layout: Layout,
        environ: Mapping[str, str],
        clock: Clock,
        settings: Callable[[], GatewaySettings],
        log: ServiceLog,
    ) -> None:
        self._environ = environ
        self.exporter = Exporter(
            lambda: settings().export,
            ClickHouses(self._password),
            LedgerDays(layout),
            ExportFile(layout),
            clock,
            lambda level, text: log.note(level, "export", text),
        )
        self._desk = ExportDesk(self.exporter, lambda: settings().export)
        self._task: asyncio.Task[None] | None = None

    @property
    def rows(self) -> tuple[Route, ...]:
        """What it adds to the routes table."""
        return manage_export.rows(self._desk)

    async def __aenter__(self) -> Self:
        """Go on where it was left off."""
        await self.exporter.open()
        self._task = asyncio.create_task(self.exporter.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave off; what was being sent is found out about at the next start."""
        if self._task:
            await end(self._task)

    async def _password(self, to: Export) -> str:
        """Raises ``Misconfigured`` or ``Unavailable``."""
        where, whose = "export.password", "the database's"
        return await asyncio.to_thread(resolve, to.password, self._environ, where, whose)
