"""Wires the export of the ledger to an analytics database."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Self

from agentd.core.clock import Clock
from agentd.core.tasks import cancel_task
from agentd.gateway.export.clickhouse import ClickHouseConnector
from agentd.gateway.export.service import Exporter
from agentd.gateway.export.state_store import ExportStateFile
from agentd.gateway.ledger.export_reader import LedgerFileReader
from agentd.gateway.service_log.store import ServiceLog
from agentd.gateway.settings.model import ExportSettings, GatewaySettings
from agentd.storage.layout import Layout
from agentd.storage.secret_ref import resolve_secret


class ExportComponent:
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
            ClickHouseConnector(self._resolve_password),
            LedgerFileReader(layout),
            ExportStateFile(layout),
            clock,
            lambda level, text: log.add(level, "export", text),
        )
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Resume the export where it stopped."""
        await self.exporter.open()
        self._task = asyncio.create_task(self.exporter.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop; the next start checks what of an interrupted block was received."""
        if self._task:
            await cancel_task(self._task)

    async def _resolve_password(self, to: ExportSettings) -> str:
        """Return the password of the database; raises ``ConfigError`` or ``Unavailable``."""
        where, whose = "export.password", "the database's"
        return await asyncio.to_thread(resolve_secret, to.password, self._environ, where, whose)
