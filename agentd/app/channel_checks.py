"""Checks of channels, as they are composed: tried through the gateway's own ways, and booked.

A part of the composition root (``daemon``).
"""

from decimal import Decimal
from functools import partial

from agentd.app.gateway import ModelGateway
from agentd.core.clock import Clock
from agentd.gateway.admin.api.checks import CheckRequest
from agentd.gateway.admin.check import ChannelCheck, CheckReport, PaidRequest, find_paid_request
from agentd.gateway.channels.check import run_checks
from agentd.gateway.channels.model import Channel
from agentd.gateway.ledger.record import RequestRecord
from agentd.gateway.pricing.bounds import Pricing, RecordedCost, compute_recorded_cost
from agentd.gateway.service_log.note import Level
from agentd.llm.price import NO_USAGE

ENDPOINT = "check"
"""The ledger's name for requests made by a check."""


class GatewayChannelChecker:
    """Tries channels; satisfies ``gateway.admin.api.checks.ChannelChecker``."""

    def __init__(self, gateway: ModelGateway, clock: Clock) -> None:
        self._gateway = gateway
        self._clock = clock

    async def check(self, channel: Channel, request: CheckRequest) -> ChannelCheck:
        """Check a channel; the cost of a paid request is recorded. Raises ``Unavailable``."""
        candidate = find_paid_request(channel, request.model) if request.model else None
        name = candidate.supplier_model if candidate else ""
        paid = candidate if request.paid else None
        publish = partial(self._gateway.publish_check_step, channel.name)
        report = await run_checks(self._gateway.suppliers.reach, channel, paid, name, publish)
        cost = await self._record_cost(channel, report, paid, request.id) if paid else Decimal(0)
        self._note(channel, report, request.remote)
        return ChannelCheck(report.ok, channel.name, report.steps, cost)

    async def _record_cost(
        self, channel: Channel, report: CheckReport, paid: PaidRequest, request_id: str
    ) -> Decimal | None:
        """Record the cost of the paid request and return it; None if no price is known."""
        if report.status == 0:
            return Decimal(0)
        reported = report.usage != NO_USAGE or report.status != 200
        priced: RecordedCost = compute_recorded_cost(
            report.usage, Pricing(paid.prices, bool(paid.prices)), reported=reported
        )
        await self._gateway.ledger.add_record(
            RequestRecord(
                id=request_id,
                at=self._clock.now(),
                key="",
                endpoint=ENDPOINT,
                model=paid.model,
                channel=channel.name,
                supplier_model=paid.supplier_model,
                tries=1,
                status=report.status,
                outcome="ok" if report.ok else "failed",
                error="" if report.ok else "check",
                usage=report.usage,
                cost=priced.cost,
                priced=priced.priced,
                estimated=priced.estimated,
            )
        )
        return priced.cost if paid.prices else None

    def _note(self, channel: Channel, report: CheckReport, remote: str) -> None:
        failed = next((step for step in report.steps if step.state == "failed"), None)
        if failed:
            text = f"The channel {channel.name} was checked: {failed.name} failed: {failed.detail}"
        else:
            text = f"The channel {channel.name} was checked, and is in order"
        level: Level = "warning" if failed else "info"
        self._gateway.log.add(level, "channel_check", text, channel=channel.name, remote=remote)
