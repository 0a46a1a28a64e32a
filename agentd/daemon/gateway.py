"""The model gateway as it is composed: its files, its ledger, the ways out, and its addresses.

A part of the composition root (``daemon``), apart because it is a product of its own.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self

from msgspec import structs

from agentd import __version__
from agentd.catalog.models import Models
from agentd.clock import Clock
from agentd.daemon.chores import keep_house, keep_sums
from agentd.disk import clash
from agentd.disk.access_key_book import AccessKeyBook
from agentd.disk.bodies import BodyFiles
from agentd.disk.channels import load as load_channels
from agentd.disk.gateway_settings import load as load_settings
from agentd.disk.hidden_secrets import HiddenSecrets
from agentd.disk.layout import Layout
from agentd.disk.ledger import Ledger
from agentd.disk.licence import LicenceBook, LicenceFile
from agentd.disk.reload import Reloaded
from agentd.disk.secret import SecretBook
from agentd.disk.secret_rules import followed, seed
from agentd.disk.service_log import ServiceLog
from agentd.disk.state import announced
from agentd.errors import AgentdError, Misconfigured, Unavailable
from agentd.events import Bus, Event, ModelsUpdate
from agentd.outside.egress import Egress
from agentd.outside.subscription import Subscriptions
from agentd.outside.upstream import HttpUpstream
from agentd.outside.vpn import Vpns
from agentd.proxy.channel import Channel, ChannelDialect, ProxyModel
from agentd.proxy.gateway.house import House
from agentd.proxy.gateway.noting import Noting
from agentd.proxy.gateway.relay import Relay
from agentd.proxy.meters import Meters
from agentd.proxy.routing import Router
from agentd.proxy.secrets.hiding import Hiding
from agentd.proxy.secrets.known import Secret
from agentd.proxy.secrets.rules import SHORTEST, Rules, Value
from agentd.proxy.settings import GatewaySettings
from agentd.web.gateway import Gateway
from agentd.web.table import Route
from agentd.web.tables.gateway import rows

log = logging.getLogger(__name__)


class Suppliers:
    """How each channel is reached; satisfies ``proxy.gateway.relay.Suppliers``."""

    def __init__(self, secrets: SecretBook, egress: Egress) -> None:
        self._secrets = secrets
        self._egress = egress

    async def reach(self, channel: Channel) -> tuple[HttpUpstream, str]:
        """Who calls it, and its key. Raises ``Misconfigured`` when a secret is not to be had."""
        key = self._secrets.get(channel)
        if key is None:
            key = await self._secrets.fetch(channel)
        transport = channel.transport
        if transport.url:
            url = self._secrets.get(channel, "transport")
            if url is None:
                url = await self._secrets.fetch(channel, "transport")
            transport = structs.replace(transport, url=url)
        return self._egress.upstream(channel, transport), key


class ModelGateway:
    """Takes model traffic as long as its block lasts. ``models`` tells what ``models.yml`` says."""

    def __init__(
        self,
        layout: Layout,
        environ: Mapping[str, str],
        clock: Clock,
        keys: AccessKeyBook,
        models: Callable[[], Models],
        generation: str,
        bus: Bus,
    ) -> None:
        self._layout = layout
        self._bus = bus
        self._clock = clock
        self._models = models
        self._named: tuple[Models | None, Mapping[str, ProxyModel]] = (None, {})
        nowhere: Mapping[str, Channel] = {}
        usual = GatewaySettings()
        self.settings = Reloaded(
            layout.gateway_settings, partial(load_settings, layout), usual, self._reset
        )
        self.channels = Reloaded(
            layout.channels, partial(load_channels, layout), nowhere, self._rerouted
        )
        self.rules = followed(layout, environ, self._reruled)
        self.log = ServiceLog(layout, clock)
        self.ledger = Ledger(layout, clock)
        self.bodies = BodyFiles(layout, partial(self.log.note, "warning", "bodies"))
        self.meters = Meters(usual.zone, clock)
        self._noting = Noting(self.log, clock.monotonic)
        self.router = Router(random.random, clock.monotonic, self._noting)
        self._opened = False
        self._hiding: Hiding | None = None
        self._hidden: HiddenSecrets | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.licence = LicenceBook(LicenceFile(layout), clock)
        self._egress = Egress(Vpns(generation, Subscriptions(clash.read)))
        self._secrets = SecretBook(environ)
        self._own: tuple[Value, ...] = ()
        self.suppliers = Suppliers(self._secrets, self._egress)
        """How each channel is reached."""
        self._relay = Relay(self._house(keys))
        keys.hear(self._relay.dismiss)
        keys.mistaken = partial(self._noting.keys_edited, layout.access_keys)
        self._gateway = Gateway(
            self._relay, keys, self.models, lambda: self.settings.current.max_body
        )

    @property
    def rows(self) -> tuple[Route, ...]:
        """What it adds to the routes table."""
        return rows(self._gateway, self.settings.current.max_body)

    @property
    def files(self) -> tuple[Reloaded[Any], ...]:
        """The hand-written files, to be watched; the licence is, too."""
        return self.settings, self.channels, self.rules

    @property
    def looked_for(self) -> Rules:
        """What is hidden: by the rules, and the suppliers' own keys."""
        return self._hiding.rules if self._hiding else self.rules.current

    def models(self) -> Mapping[str, ProxyModel]:
        """The models that can be called, by their names."""
        now = self._models()
        if self._named[0] is not now:
            self._named = (now, {model.name: model for model in now.proxy})
        return self._named[1]

    async def __aenter__(self) -> Self:
        """Read what is written down, and what was spent."""
        for file in self.files:
            await file.refresh()
        self._set()
        await self.licence.refresh()
        secret = await asyncio.to_thread(seed, self._layout)
        await self._know_own()
        self._hiding = Hiding(self._to_look_for(), secret)
        self._hidden = HiddenSecrets(self._layout, secret, self._clock)
        try:
            self._hiding.remember(await asyncio.to_thread(self._hidden.load))
        except AgentdError as error:  # it only makes up for what a start forgets
            log.error("what was hidden before this start is not known: %s", error)
        zone = self.settings.current.zone
        self.meters.take(await self.ledger.open(self.meters.cuts(zone)), zone)
        self._opened = True
        self._unsubscribe = self._bus.subscribe(self._heard)
        self._later(
            keep_house(
                self._layout, self._clock, self.ledger, self.bodies, lambda: self.settings.current
            )
        )
        self._later(keep_sums(self.ledger))
        await self._note_start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Book what is under way, and cut what is connected."""
        self.log.note("info", "stopping", "No more model requests are taken")
        self._unsubscribe()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for file in self.files:
            await file.stop()
        await self.licence.stop()
        await self._relay.close()
        await self._egress.close()
        await self.ledger.close()
        await asyncio.to_thread(self.bodies.close)
        await asyncio.to_thread(self.log.close)

    async def _note_start(self) -> None:
        with contextlib.suppress(AgentdError):
            if before := await asyncio.to_thread(announced, self._layout):
                text = f"The daemon that served since {before.since} ended without a stop;"
                text = f"{text} {self.ledger.unfinished} requests that were under way then are"
                text = f"{text} booked as estimated, at all that was reserved for them"
                self.log.note("warning", "broke_off", text)
        self.log.note("info", "started", f"agentd {__version__} takes model requests")

    def _house(self, keys: AccessKeyBook) -> House:
        return House(
            models=self.models,
            channels=lambda: self.channels.current,
            settings=lambda: self.settings.current,
            hiding=lambda: self._hiding if self.settings.current.hiding else None,
            remember=self._remember,
            without_secrets=self._without_secrets,
            licence=self._unlicensed,
            welcomes=keys.welcomes,
            meter=self.meters.of,
            router=self.router,
            suppliers=self.suppliers,
            book=self.ledger,
            bodies=self.bodies,
            noting=self._noting,
            clock=self._clock,
        )

    def _without_secrets(self, body: bytes, dialect: ChannelDialect, key_id: str) -> bytes:
        return self._hiding.without_secrets(body, dialect, key_id) if self._hiding else b""

    async def _remember(self, secrets: Sequence[Secret]) -> None:
        if self._hidden is None:
            return
        try:
            await asyncio.to_thread(self._hidden.keep, secrets)
        except AgentdError as error:
            log.error("hidden secrets will be forgotten at the next start: %s", error.message)

    def _unlicensed(self) -> str:
        status = self.licence.status
        return "" if status.state == "valid" else status.reason

    def _edited(self, file: Reloaded[Any]) -> None:
        if self._opened:
            self._noting.edited(file.path, file.mistakes)

    def _heard(self, event: Event) -> None:
        if isinstance(event, ModelsUpdate):
            self._noting.edited(self._layout.models, event.mistakes)

    def _reset(self) -> None:
        self._edited(self.settings)
        self._set()

    def _set(self) -> None:
        now = self.settings.current
        self.bodies.most = now.bodies.max_bytes
        self.ledger.sync, self.ledger.zone = now.sync_ledger, now.zone
        if self._opened and now.zone != self.meters.zone:
            self._later(self._rezone())

    async def recount(self) -> None:
        """Ask the ledger what was spent: days begin at other moments, or prices are others now."""
        while True:
            zone = self.settings.current.zone
            sums = await self.ledger.sums(self.meters.cuts(zone))
            self.meters.take(sums, zone)  # at once: what is settled from now on is added to them
            if zone == self.settings.current.zone:
                return

    async def _rezone(self) -> None:
        try:
            await self.recount()
        except AgentdError as error:
            log.error("limits stay in the time zone %s: %s", self.meters.zone, error.message)

    def _rerouted(self) -> None:
        self._edited(self.channels)
        self._egress.keep(self.channels.current)
        if self._opened:
            self._later(self._know_own())

    async def _know_own(self) -> None:
        """The suppliers' keys are secrets, too, wherever somebody writes them down."""
        own = []
        for channel in self.channels.current.values():
            with contextlib.suppress(Misconfigured, Unavailable):  # told when it is called
                key = await self._secrets.fetch(channel)
                if len(key.encode()) >= SHORTEST:
                    own.append(Value(id=f"channel-{channel.name}", text=key, mode="hide"))
        self._own = tuple(own)
        self._ruled()

    def _reruled(self) -> None:
        self._edited(self.rules)
        self._ruled()

    def _ruled(self) -> None:
        if self._hiding:
            self._hiding.rules = self._to_look_for()

    def _to_look_for(self) -> Rules:
        return self.rules.current.including(self._own)

    def _later(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
