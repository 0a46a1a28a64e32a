"""Wires the model gateway: its files, ledger, channels, limits and routes."""

import asyncio
import contextlib
import logging
import os
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self

from msgspec import structs

from agentd import __version__
from agentd.app.background import (
    build_rollups,
    purge_old_data,
    recount_after_wrong_clock,
    refresh_prices_daily,
)
from agentd.app.state import read_daemon_info
from agentd.core.clock import Clock
from agentd.core.errors import AgentdError, ConfigError, Unavailable
from agentd.core.events import Event, EventBus
from agentd.core.tasks import BackgroundTasks
from agentd.gateway.admin.check import CheckStep
from agentd.gateway.catalogue.service import PriceCatalogueService
from agentd.gateway.channels.automatic_disabling import RefusedChannels
from agentd.gateway.channels.balances import BalanceService
from agentd.gateway.channels.egress import Egress
from agentd.gateway.channels.model import Channel
from agentd.gateway.channels.recent_times import RecentCallTimes
from agentd.gateway.channels.routing import Router, find_preferred_dialects
from agentd.gateway.channels.secrets import ChannelSecrets
from agentd.gateway.channels.store import watch_channels
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.keys.store import AccessKeyRepository
from agentd.gateway.ledger.bodies import BodyStore
from agentd.gateway.ledger.ledger import Ledger
from agentd.gateway.licence.store import LicenceFile, LicenceService
from agentd.gateway.limits.budget_store import watch_budgets
from agentd.gateway.limits.meters import KeyMeters
from agentd.gateway.limits.model_spend import ModelSpendCounter
from agentd.gateway.metrics.counters import RequestCounters
from agentd.gateway.relay import quota_api
from agentd.gateway.relay.api import GatewayEndpoints, routes
from agentd.gateway.relay.quota_api import QuotaEndpoints
from agentd.gateway.relay.relay import Relay
from agentd.gateway.relay.service_log_writer import ServiceLogWriter
from agentd.gateway.relay.services import RelayServices
from agentd.gateway.secrets.hidden_store import HiddenSecretStore
from agentd.gateway.secrets.known_values import KnownSecret
from agentd.gateway.secrets.masker import SecretMasker
from agentd.gateway.secrets.rule_file import load_seed, watch_rules
from agentd.gateway.secrets.rules import SHORTEST, ExactSecret, SecretRules
from agentd.gateway.service_log.store import ServiceLog
from agentd.gateway.settings.store import watch_settings
from agentd.gateway.tracing.service import TracingService
from agentd.gateway.updates import (
    CheckStepUpdate,
    CheckStepUpdateView,
    GatewayConfigUpdate,
    GatewayUpdatePublisher,
)
from agentd.gateway.vpn.fetch import Subscriptions
from agentd.gateway.vpn.manager import Vpns
from agentd.http.routing import Route
from agentd.llm.endpoint import ChannelDialect
from agentd.llm.upstream.client import HttpUpstream
from agentd.models.events import ModelsUpdate
from agentd.models.gateway_model import GatewayModel
from agentd.models.model import Models
from agentd.storage.layout import Layout
from agentd.storage.settled_clock import SettledClock
from agentd.storage.watched_file import WatchedFile
from agentd.storage.yaml import untrusted

log = logging.getLogger(__name__)


class Suppliers:
    """The connections of the channels; satisfies ``gateway.relay.services.SupplierConnections``."""

    def __init__(self, secrets: ChannelSecrets, egress: Egress) -> None:
        self._secrets = secrets
        self._egress = egress

    async def reach(self, channel: Channel, field: str = "", /) -> tuple[HttpUpstream, str]:
        """Return a channel's client, and the key of one of its ``key_fields``, or its first.

        Raises ``ConfigError`` if a secret cannot be read.
        """
        field = field or channel.key_fields[0]
        key = self._secrets.get(channel, field)
        if key is None:
            key = await self._secrets.fetch(channel, field)
        transport = channel.transport
        if transport.url:
            url = self._secrets.get(channel, "transport")
            if url is None:
                url = await self._secrets.fetch(channel, "transport")
            transport = structs.replace(transport, url=url)
        return self._egress.get_upstream(channel, transport), key


class ModelGateway:
    """Accepts model traffic inside its block. ``models`` returns the contents of ``models.yml``."""

    def __init__(
        self,
        layout: Layout,
        environ: Mapping[str, str],
        clock: Clock,
        keys: AccessKeyRepository,
        models: Callable[[], Models],
        generation: str,
        bus: EventBus,
        settled: SettledClock,
    ) -> None:
        self._layout, self._clock, self._bus, self._settled = layout, clock, bus, settled
        self._models = models
        self._named: tuple[Models | None, Mapping[str, GatewayModel]] = (None, {})
        self.settings = watch_settings(layout, self._on_settings_changed)
        self.channels = watch_channels(layout, self._on_channels_changed)
        self.budgets = watch_budgets(layout, self._on_budgets_changed)
        self.rules = watch_rules(layout, environ, self._on_rules_changed)
        self.log = ServiceLog(layout, clock)
        self.ledger = Ledger(layout, clock)
        self._updates = GatewayUpdatePublisher(bus)
        self.counters = RequestCounters()
        self.call_times = RecentCallTimes()
        add_record = (self.counters.add_record, self.call_times.add_record, self._updates.add)
        self.ledger.on_recorded += add_record
        self.bodies = BodyStore(layout, partial(self.log.add, "warning", "bodies"))
        self.meters = KeyMeters(self.settings.current.zone, clock, bus.publish)
        self.model_spend = ModelSpendCounter(self.meters, self.ledger)
        self.incidents = ServiceLogWriter(self.log, clock.monotonic)
        self._tasks = BackgroundTasks()
        self._tracing = TracingService(environ, self.log.add)
        self.refused_channels = refused = RefusedChannels(
            lambda: self.settings.current.disable_channel_after, self.log, clock, self._tasks
        )
        self.router = Router(random.random, clock.monotonic, self.incidents, refused.on_refused)
        self._is_open = False
        self._masker: SecretMasker | None = None
        self._hidden: HiddenSecretStore | None = None
        self.licence = LicenceService(LicenceFile(layout), clock)
        self.prices = PriceCatalogueService(layout, clock, lambda: self.channels.current)
        self._egress = Egress(Vpns(generation, Subscriptions(untrusted.parse_untrusted_yaml)))
        self._secrets = ChannelSecrets(environ, self._reload_own_secrets)
        self._own_secrets: tuple[ExactSecret, ...] = ()
        self.suppliers = Suppliers(self._secrets, self._egress)
        """The connections of the channels."""
        self.balances = BalanceService(self.suppliers.reach, lambda: self.channels.current, clock)
        self._find_key = keys.find
        self._relay = Relay(self._build_relay_services(keys))
        keys.on_revoked(self._relay.cancel_revoked)
        keys.on_address_refused = self.incidents.on_address_refused
        keys.on_problems = partial(self.incidents.on_key_file_changed, layout.access_keys)
        self._gateway = GatewayEndpoints(
            self._relay, keys, self.get_models, lambda: self.settings.current.max_body
        )
        self._quota = QuotaEndpoints(keys, self.meters, self.model_spend)

    @property
    def rows(self) -> tuple[Route, ...]:
        """The routes of the gateway."""
        return (
            *routes(self._gateway),
            *quota_api.routes(self._quota),
        )

    @property
    def files(self) -> tuple[WatchedFile[Any], ...]:
        """The hand-written files, to be watched; the licence is, too."""
        return self.settings, self.channels, self.budgets, self.rules

    @property
    def active_rules(self) -> SecretRules:
        """The masking rules in force: the configured ones, and the suppliers' own keys."""
        return self._masker.rules if self._masker else self.rules.current

    def get_models(self) -> Mapping[str, GatewayModel]:
        """Return the models that can be called, by their names."""
        now = self._models()
        if self._named[0] is not now:
            self._named = (now, {model.name: model for model in now.proxy})
        return self._named[1]

    async def __aenter__(self) -> Self:
        """Read what is written down, and what was spent."""
        for file in self.files:
            await file.refresh()
        self._apply_settings()
        await self.licence.refresh()
        secret = await asyncio.to_thread(load_seed, self._layout)
        await self._load_own_secrets()
        self._masker = SecretMasker(self.rules.current.with_values(self._own_secrets), secret)
        self._hidden = HiddenSecretStore(self._layout, secret, self._clock)
        try:
            self._masker.remember(await asyncio.to_thread(self._hidden.load, self._settled.now()))
        except AgentdError as error:  # it only makes up for what a start forgets
            log.error("what was hidden before this start is not known: %s", error)
        zone = self.settings.current.zone
        self.meters.reset_to(await self.ledger.open(self.meters.iter_window_starts(zone)), zone)
        self._is_open = True
        self._unsubscribe = self._bus.subscribe_to(
            (ModelsUpdate, GatewayConfigUpdate), self._on_config_changed
        )
        self._tasks.start(
            purge_old_data(self._layout, self._settled, self.ledger, self.bodies, self.settings)
        )
        self._tasks.start(recount_after_wrong_clock(self.meters, self.recount))
        self._tasks.start(build_rollups(self.ledger))
        self._tasks.start(refresh_prices_daily(self.prices))
        self._tasks.start(self.balances.run())
        await _note_start(self, self._layout)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Book what is under way, and cut what is connected."""
        self._updates.close()
        self.log.add("info", "stopping", "No more model requests are taken")
        self._unsubscribe()
        await self._tasks.cancel()
        for file in self.files:
            await file.stop()
        await self.licence.stop()
        await self._relay.close()
        await self._tracing.close()
        await self._egress.close()
        await self.ledger.close()
        await asyncio.to_thread(self.bodies.close)
        await asyncio.to_thread(self.log.close)

    def _build_relay_services(self, keys: AccessKeyRepository) -> RelayServices:
        return RelayServices(
            models=self.get_models,
            channels=lambda: self.channels.current,
            settings=lambda: self.settings.current,
            masker=lambda: self._masker if self.settings.current.mask_secrets else None,
            remember_secrets=self._save_hidden,
            mask_for_storage=self._redact_body,
            licence_problem=self._explain_unlicensed,
            find_unread_file=partial(find_unread_file, self),
            is_still_valid=keys.is_still_valid,
            limits=self.meters.limit_request,
            count_models=self.model_spend.count_key,
            announce_limit=self.meters.announcer.on_refused,
            router=self.router,
            suppliers=self.suppliers,
            ledger=self.ledger,
            bodies=self.bodies,
            service_log=self.incidents,
            tracing=self._tracing,
            clock=self._clock,
        )

    def _redact_body(self, body: bytes, dialect: ChannelDialect, key_id: str) -> bytes:
        return self._masker.redact_body(body, dialect, key_id) if self._masker else b""

    async def _save_hidden(self, secrets: Sequence[KnownSecret]) -> None:
        if self._hidden is None:
            return
        try:
            await asyncio.to_thread(self._hidden.append, secrets)
        except AgentdError as error:
            log.error("hidden secrets will be forgotten at the next start: %s", error.message)

    def _explain_unlicensed(self) -> str:
        status = self.licence.status
        return "" if status.state == "valid" else status.reason

    def log_edit(self, file: WatchedFile[Any]) -> None:
        """Note that a file of the gateway was edited, and tell administrators."""
        if self._is_open:
            self.incidents.on_config_changed(file.path, file.problems, was_valid=file.was_valid)
            self._bus.publish(GatewayConfigUpdate(os.path.basename(file.path)))

    def publish_check_step(self, channel: str, step: CheckStep) -> None:
        """Publish the progress of a channel's check to administrators."""
        self._bus.publish(CheckStepUpdate(CheckStepUpdateView(channel, step)))

    def _on_config_changed(self, event: Event) -> None:
        match event:
            case ModelsUpdate():
                self.incidents.on_config_changed(self._layout.models, event.problems)
            case GatewayConfigUpdate() if event.file == os.path.basename(self._layout.access_keys):
                self.meters.forget_removed(self._find_key)

    def _on_settings_changed(self) -> None:
        self.log_edit(self.settings)
        self._apply_settings()

    def _apply_settings(self) -> None:
        now = self.settings.current
        self.bodies.most = now.bodies.max_bytes
        self.ledger.sync, self.ledger.zone = now.sync_ledger, now.zone
        self._tracing.follow(now.tracing)
        if self._is_open and now.zone != self.meters.zone:
            self._tasks.start(self._change_time_zone())

    async def recount(self) -> None:
        """Ask the ledger for the spend again: the time zone or prices changed."""
        while True:
            zone = self.settings.current.zone
            sums = await self.ledger.count_spend(self.meters.iter_window_starts(zone))
            # At once: what is settled from now on is added to them.
            self.meters.reset_to(sums, zone)
            if zone == self.settings.current.zone:
                return

    async def _change_time_zone(self) -> None:
        try:
            await self.recount()
        except AgentdError as error:
            log.error("limits stay in the time zone %s: %s", self.meters.zone, error.message)

    def _on_channels_changed(self) -> None:
        self.log_edit(self.channels)
        self._egress.retain_only(self.channels.current)
        self.call_times.retain_only(self.channels.current)
        self.balances.on_channels_changed()
        self._reload_own_secrets()

    def _reload_own_secrets(self) -> None:
        if self._is_open:
            self._tasks.start(self._load_own_secrets())

    async def _load_own_secrets(self) -> None:
        """Load the suppliers' keys, which are masked in requests like other secrets."""
        own, channels = [], self.channels.current
        for channel in channels.values():
            for field in channel.key_fields:
                with contextlib.suppress(ConfigError, Unavailable):  # reported when it is used
                    key = await self._secrets.fetch(channel, field)
                    if len(key.encode()) >= SHORTEST:
                        own.append(ExactSecret(id=f"channel-{channel.name}", text=key, mode="hide"))
        if channels is self.channels.current:  # else those of the newer ones are known, or soon
            self._own_secrets = tuple(own)
            self._apply_rules()

    def _on_budgets_changed(self) -> None:
        self.log_edit(self.budgets)
        self.meters.set_budgets(self.budgets.current.values())

    def _on_rules_changed(self) -> None:
        self.log_edit(self.rules)
        self._apply_rules()

    def _apply_rules(self) -> None:
        if self._masker:
            self._masker.rules = self.rules.current.with_values(self._own_secrets)


async def _note_start(gateway: ModelGateway, layout: Layout) -> None:
    """Note in the service log what a person should know of a start."""
    for file in gateway.files:
        if file.problems:
            gateway.incidents.on_config_changed(file.path, file.problems, was_valid=False)
    with contextlib.suppress(AgentdError):
        if before := await asyncio.to_thread(read_daemon_info, layout):
            text = f"The daemon that served since {before.since} ended without a stop;"
            count = gateway.ledger.interrupted_calls
            text = f"{text} {count} requests that were under way then are"
            text = f"{text} booked as estimated, at all that was reserved for them"
            gateway.log.add("warning", "broke_off", text)
    gateway.log.add("info", "started", f"agentd {__version__} takes model requests")


def find_unread_file(gateway: ModelGateway, key: AccessKey) -> str:
    """Return what a request must not be relayed without: what hides its secrets or limits it.

    A file that becomes invalid later leaves in force what it said before.
    """
    may_be_limited_by_budgets = bool(key.owner or key.tags)
    if not gateway.settings.was_valid and (key.has_calendar_limit or may_be_limited_by_budgets):
        return "The file of the gateway's settings, such as the time zone of limits,"
    if gateway.settings.current.mask_secrets and not gateway.rules.was_valid:
        return "The file of the rules for secrets"
    if may_be_limited_by_budgets and not gateway.budgets.was_valid:
        return "The file of the budgets"
    return ""


def find_dialects(gateway: ModelGateway, name: str) -> tuple[ChannelDialect, ...]:
    """Return the dialects in which a model is reached without translation, the best first."""
    model = gateway.get_models().get(name)
    return find_preferred_dialects(model, gateway.channels.current) if model else ()
