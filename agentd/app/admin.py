"""The part of the management API that every daemon runs; its endpoints are built at first use."""

import asyncio
import os
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Self

from agentd.app.alerts import AlertsComponent
from agentd.app.config_files import ConfigFiles
from agentd.app.gateway import ModelGateway
from agentd.core.clock import Clock
from agentd.core.tasks import cancel_task
from agentd.gateway.admin.changes import ChangeRecord
from agentd.gateway.admin.changes_store import ChangeJournal
from agentd.gateway.channels.model import AutomaticDisabling, Channel
from agentd.gateway.keys.store import AccessKeyRepository
from agentd.gateway.management_keys.store import ManagementKeyRepository
from agentd.gateway.secrets.rule_file import load_seed
from agentd.storage.layout import Layout
from agentd.storage.settled_clock import SettledClock

if TYPE_CHECKING:
    from agentd.app.management import ManagementApi

PURGE_SECONDS = 3600.0
"""The interval at which changes too old to undo are removed."""


class AdminComponent:
    """The changes of a gateway through its management API, as long as its block lasts."""

    def __init__(
        self,
        layout: Layout,
        clock: Clock,
        gateway: ModelGateway,
        keys: AccessKeyRepository,
        management_keys: ManagementKeyRepository,
        written: ConfigFiles,
        alerts: AlertsComponent,
        settled: SettledClock,
    ) -> None:
        self._settled = settled
        self._layout = layout
        self._clock = clock
        self._gateway = gateway
        self._keys = keys
        self._management_keys = management_keys
        self._written = written
        self._alerts = alerts
        self._secret = b""
        self.journal = ChangeJournal(layout, clock)
        """The journal of all changes through the management API."""

    async def __aenter__(self) -> Self:
        """Find out how many changes there were, and finish an import that was interrupted."""
        self._secret = await asyncio.to_thread(load_seed, self._layout)
        await self.journal.open(self._secret)
        self.journal.on_change = self._note_change
        self._gateway.refused_channels.disable = self._disable_channel
        if await asyncio.to_thread(os.path.exists, self._layout.import_intent):
            await self.api.imports.recover()
        self._purging = asyncio.create_task(self._purge())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the background work."""
        self._gateway.refused_channels.disable = None
        await cancel_task(self._purging)

    @cached_property
    def api(self) -> "ManagementApi":
        """The resources of the management API."""
        from agentd.app.management import (  # noqa: PLC0415 - not at the start: it is large
            ManagementApi,
        )

        return ManagementApi(
            layout=self._layout,
            clock=self._clock,
            gateway=self._gateway,
            keys=self._keys,
            management_keys=self._management_keys,
            written=self._written,
            alerts=self._alerts,
            journal=self.journal,
            secret=self._secret,
        )

    async def _disable_channel(self, refused: Channel, note: AutomaticDisabling) -> bool:
        await asyncio.to_thread(import_module, "agentd.app.management")
        return await self.api.channels.disable_automatically(refused, note)

    async def _purge(self) -> None:
        while True:
            await self.journal.purge_undo(self._settled.now())
            await asyncio.sleep(PURGE_SECONDS)

    def note_failed_sign_in(self, text: str, remote: str) -> None:
        """Note a failed sign-in from this address."""
        self._gateway.log.add("warning", "sign_in_failed", text, remote=remote)

    def _note_change(self, change: ChangeRecord) -> None:
        text = f"{change.by}: {change.action} {change.resource} {change.name}"
        text = f"{text} (change {change.number})"
        self._gateway.log.add("info", "changed", text, remote=change.remote)
