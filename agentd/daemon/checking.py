"""Checks of channels, as they are composed: tried through the gateway's own ways, and booked.

A part of the composition root (``daemon``).
"""

from decimal import Decimal

from agentd.clock import Clock
from agentd.daemon.gateway import ModelGateway
from agentd.outside.ladder import climb
from agentd.proxy.channel import Channel
from agentd.proxy.entry import Entry
from agentd.proxy.management.check import Checked, Climbed, Paid, request_by
from agentd.proxy.notes import Level
from agentd.proxy.price import NOTHING
from agentd.proxy.pricing import Booked, Pricing, booked
from agentd.web.manage.checks import Wish

ENDPOINT = "check"
"""How the ledger calls what was asked by a check."""


class Checking:
    """Tries channels; satisfies ``web.manage.checks.Checks``."""

    def __init__(self, gateway: ModelGateway, clock: Clock) -> None:
        self._gateway = gateway
        self._clock = clock

    async def check(self, channel: Channel, wish: Wish) -> Checked:
        """What is found; what it cost is in the ledger then. Raises ``Unavailable``."""
        way = request_by(channel, wish.model) if wish.model else None
        name = way.supplier_model if way else ""
        paid = way if wish.paid else None
        climbed = await climb(self._gateway.suppliers.reach, channel, paid, name)
        cost = await self._book(channel, climbed, paid, wish.id) if paid else Decimal(0)
        self._note(channel, climbed, wish.remote)
        return Checked(climbed.ok, channel.name, climbed.rungs, cost)

    async def _book(
        self, channel: Channel, climbed: Climbed, paid: Paid, request_id: str
    ) -> Decimal | None:
        """What the request cost, written down like any other; None when no price is known."""
        if climbed.status == 0:
            return Decimal(0)
        told = climbed.usage != NOTHING or climbed.status != 200
        priced: Booked = booked(climbed.usage, Pricing(paid.prices, bool(paid.prices)), told=told)
        await self._gateway.ledger.book(
            Entry(
                id=request_id,
                at=self._clock.now(),
                key="",
                endpoint=ENDPOINT,
                model=paid.model,
                channel=channel.name,
                supplier_model=paid.supplier_model,
                tries=1,
                status=climbed.status,
                outcome="ok" if climbed.ok else "failed",
                error="" if climbed.ok else "check",
                usage=climbed.usage,
                cost=priced.cost,
                priced=priced.priced,
                estimated=priced.estimated,
            )
        )
        return priced.cost if paid.prices else None

    def _note(self, channel: Channel, climbed: Climbed, remote: str) -> None:
        failed = next((rung for rung in climbed.rungs if rung.state == "failed"), None)
        if failed:
            text = f"The channel {channel.name} was checked: {failed.name} failed: {failed.detail}"
        else:
            text = f"The channel {channel.name} was checked, and is in order"
        level: Level = "warning" if failed else "info"
        self._gateway.log.note(level, "channel_check", text, channel=channel.name, remote=remote)
