"""The management of the model gateway as it is composed: its desks, over the gateway's own parts.

A part of the composition root (``daemon``).
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from agentd.clock import Clock
from agentd.daemon.checking import Checking
from agentd.daemon.gateway import ModelGateway
from agentd.daemon.written import HandWritten
from agentd.disk import clash
from agentd.disk.access_key_book import AccessKeyBook
from agentd.disk.changes import ChangeJournal
from agentd.disk.channels import ChannelBook
from agentd.disk.gateway_settings import GatewaySettingsBook
from agentd.disk.layout import Layout
from agentd.disk.proxy_models import ProxyModelBook
from agentd.disk.secret_rule_book import SecretRuleBook
from agentd.disk.secret_rules import seed
from agentd.outside.subscription import Subscriptions
from agentd.outside.vpn import engines_found
from agentd.proxy.channel import Channel, ProxyModel
from agentd.proxy.management.secret_rules import Samples
from agentd.web.manage.changes import ChangeDesk
from agentd.web.manage.channels import ChannelDesk
from agentd.web.manage.daemon_settings import DaemonSettingsDesk
from agentd.web.manage.keys import AccessKeyDesk
from agentd.web.manage.models import ProxyModelDesk
from agentd.web.manage.preview import PreviewDesk
from agentd.web.manage.secret_rules import SecretRuleDesk
from agentd.web.manage.settings import GatewaySettingsDesk
from agentd.web.table import Route
from agentd.web.tables import manage

PURGE_SECONDS = 3600.0
"""How often old changes are looked for that can be undone no longer."""
NAMED = 5
"""How many of those who need something are named."""


class Management:
    """The surface ``/api/agent`` over a gateway, as long as its block lasts."""

    def __init__(
        self,
        layout: Layout,
        clock: Clock,
        gateway: ModelGateway,
        keys: AccessKeyBook,
        written: HandWritten,
    ) -> None:
        self._layout = layout
        self._clock = clock
        self._gateway = gateway
        self._keys = keys
        self._written = written
        self.journal = ChangeJournal(layout, clock)
        """Where every change by any route of the surface is to be noted."""
        self.rows: tuple[Route, ...] = ()
        """What it adds to the routes table."""

    async def __aenter__(self) -> Self:
        """Find out how many changes there were."""
        secret = await asyncio.to_thread(seed, self._layout)
        await self.journal.open(secret)
        self.rows = manage.rows(self._desks(secret))
        self._purging = asyncio.create_task(self._purge())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave off what goes on by itself."""
        self._purging.cancel()
        with suppress(asyncio.CancelledError):
            await self._purging

    async def _purge(self) -> None:
        while True:
            await self.journal.purge()
            await asyncio.sleep(PURGE_SECONDS)

    def _desks(self, secret: bytes) -> manage.Desks:
        layout, gateway, journal = self._layout, self._gateway, self.journal
        checks = Checking(gateway, self._clock)
        channels = ChannelDesk(
            ChannelBook(layout, file=gateway.channels),
            lambda: self._written.models.current,
            journal,
            self._needs_channel,
            checks,
        )
        models = ProxyModelDesk(
            ProxyModelBook(layout, self._written.models),
            lambda: gateway.channels.current,
            journal,
            self._needs_model,
            checks,
        )
        keys = AccessKeyDesk(self._keys, _Keys(self._keys), gateway.meters, self._clock, journal)
        rules = SecretRuleDesk(
            SecretRuleBook(layout, gateway.rules),
            Samples(lambda: gateway.looked_for, secret),
            journal,
        )
        settings = GatewaySettingsDesk(GatewaySettingsBook(layout, file=gateway.settings), journal)
        daemon = DaemonSettingsDesk(self._written.settings, journal, self._written.view)
        undoing = (channels, models, keys, rules, settings, daemon)
        return manage.Desks(
            channels=channels,
            models=models,
            keys=keys,
            secret_rules=rules,
            settings=settings,
            daemon=daemon,
            changes=ChangeDesk(journal, (one.managed for one in undoing)),
            preview=PreviewDesk(Subscriptions(clash.read), engines_found),
        )

    def failed(self, text: str, remote: str) -> None:
        """Note a failed sign-in from this address."""
        self._gateway.log.note("warning", "sign_in_failed", text, remote=remote)

    def _needs_channel(self, channel: Channel) -> str:
        keys = [key.name for key in self._keys.keys if channel.name in (key.channels or ())]
        models = self._written.models.current.using(channel.name)
        return "; ".join(filter(None, (_told("model", models), _told("access key", keys))))

    def _needs_model(self, model: ProxyModel) -> str:
        keys = [key.name for key in self._keys.keys if model.name in (key.models or ())]
        return _told("access key", keys)


class _Keys:
    """The access keys as entries that are added and changed as a whole, their letters too."""

    def __init__(self, book: AccessKeyBook) -> None:
        self.add, self.change, self.remove = book.put, book.rewrite, book.remove


def _told(what: str, names: Sequence[str]) -> str:
    """Such as ``models "a", "b" and 3 more``; empty for none."""
    if not names:
        return ""
    known = ", ".join(f'"{name}"' for name in names[:NAMED])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{what}{'s' if len(names) > 1 else ''} {known}{more}"
