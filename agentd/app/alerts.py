"""Wires the alerts of the gateway: their files, what they watch, and whom they tell."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Self

from agentd.app.gateway import ModelGateway
from agentd.core.clock import Clock
from agentd.core.events import EventBus
from agentd.core.tasks import cancel_task
from agentd.gateway.alerts.model import AlertRules, AlertTarget
from agentd.gateway.alerts.monitor import AlertMonitor
from agentd.gateway.alerts.sender import AlertSender, BotNotifier
from agentd.gateway.alerts.service import AlertService
from agentd.gateway.alerts.store import AlertFile
from agentd.gateway.alerts.targets import watch_targets
from agentd.gateway.channels.balances import ChannelBalance
from agentd.gateway.channels.model import Channel
from agentd.gateway.export.service import Exporter
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.keys.store import AccessKeyRepository
from agentd.gateway.limits.events import HardLimitReached, ReachedLimit, SoftLimitReached
from agentd.gateway.limits.soft_limits import iter_told_limits, list_passed_soft_limits
from agentd.gateway.limits.spend import LimitStatus
from agentd.gateway.updates import GatewayAlertUpdate
from agentd.storage.layout import Layout


class AlertsComponent:
    """Raises and delivers alerts as long as its block lasts."""

    def __init__(
        self,
        layout: Layout,
        environ: Mapping[str, str],
        clock: Clock,
        bus: EventBus,
        gateway: ModelGateway,
        keys: AccessKeyRepository,
        exporter: Exporter,
        bots: BotNotifier,
    ) -> None:
        self._gateway = gateway
        self.file = watch_targets(layout, self._on_file_changed)
        """The targets, to be watched."""
        self._sender = AlertSender(environ, clock, bots)
        self.service = AlertService(
            AlertFile(layout),
            self._sender,
            self._get_targets,
            clock,
            lambda: bus.publish(GatewayAlertUpdate(self.service.count_firing())),
        )
        watched = _WatchedGateway(gateway, keys, exporter)
        self._monitor = AlertMonitor(self.service, watched, clock)
        self._polling: asyncio.Task[None] | None = None
        self._bus = bus

    async def __aenter__(self) -> Self:
        """Go on with what was not delivered, and watch the gateway."""
        await self.file.refresh()
        await self.service.start()
        self._gateway.incidents.listener = self._monitor
        self._gateway.ledger.on_recorded.append(self._monitor.on_record)
        self._unsubscribe = self._bus.subscribe_to(
            (SoftLimitReached, HardLimitReached), self._monitor.on_event
        )
        self._polling = asyncio.create_task(self._monitor.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop watching and sending; the next start goes on with it."""
        self._unsubscribe()
        self._gateway.incidents.listener = None
        self._gateway.ledger.on_recorded.remove(self._monitor.on_record)
        if self._polling:
            await cancel_task(self._polling)
        await self.file.stop()
        await self.service.stop()
        await self._sender.close()

    def _get_targets(self) -> Mapping[str, AlertTarget] | None:
        """Return the targets; None while they are unknown, as the file was never valid."""
        targets = self.file.current
        return None if self.file.problems and not targets else targets

    def _on_file_changed(self) -> None:
        self._gateway.log_edit(self.file)
        self.service.on_targets_changed()


class _WatchedGateway:
    """Satisfies ``gateway.alerts.monitor.WatchedGateway``."""

    def __init__(
        self, gateway: ModelGateway, keys: AccessKeyRepository, exporter: Exporter
    ) -> None:
        self._gateway = gateway
        self._keys = keys
        self._exporter = exporter

    @property
    def rules(self) -> AlertRules:
        return self._gateway.settings.current.alerts

    @property
    def channels(self) -> Mapping[str, Channel]:
        return self._gateway.channels.current

    def iter_balances(self) -> Iterable[tuple[Channel, ChannelBalance]]:
        return self._gateway.balances.iter_known()

    @property
    def ledger_problem(self) -> str:
        return self._gateway.ledger.problem

    @property
    def export_problem(self) -> str:
        return self._exporter.problem

    def find_key(self, key_id: str) -> AccessKey | None:
        return self._keys.keys.find(key_id)

    def describe_limits(self, key: AccessKey) -> Iterable[LimitStatus]:
        return self._gateway.meters.describe_limits(key)

    @property
    def limit_files(self) -> tuple[object, ...]:
        return self._keys.keys, self._gateway.budgets.current

    def iter_limits(self) -> Iterable[tuple[str, ReachedLimit]] | None:
        gateway = self._gateway
        if not gateway.budgets.was_valid:
            return None
        return iter_told_limits(self._keys.keys, gateway.budgets.current, gateway.meters)

    async def list_passed_soft_limits(self) -> Iterable[ReachedLimit]:
        gateway = self._gateway
        return await list_passed_soft_limits(
            self._keys.keys, gateway.budgets.current, gateway.meters, gateway.model_spend
        )
