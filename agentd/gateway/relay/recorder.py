"""Records each request in the ledger, and knows whether the ledger can be written."""

import asyncio
import logging

from agentd.core.errors import AgentdError, Unavailable
from agentd.gateway.ledger.record import Outcome
from agentd.gateway.relay.accounting import RequestAccounting
from agentd.gateway.relay.request import (
    ERROR_KEY_REVOKED,
    STATUS_CLIENT_LEFT,
    GatewayError,
)
from agentd.gateway.relay.services import RelayServices

log = logging.getLogger(__name__)

LEDGER_UNAVAILABLE = "The ledger cannot be written, so no request is relayed."
"""The message for callers; the path and the cause are in the log only."""


class RequestRecorder:
    """Settles and records requests; one for all of them."""

    def __init__(self, services: RelayServices) -> None:
        self._services = services
        self._is_failing = False
        """Writing a record failed, and no later write has succeeded."""
        self._probing = asyncio.Lock()

    async def require_ledger(self) -> None:
        """Raise ``GatewayError`` while the ledger is required and cannot be written.

        One probe serves all requests that wait for it.
        """
        if not (self._is_failing and self._services.settings().requires_ledger):
            return
        async with self._probing:
            if self._is_failing:
                try:
                    await self._services.ledger.probe()
                except AgentdError as error:
                    raise GatewayError("server", LEDGER_UNAVAILABLE) from error
                self._is_failing = False

    async def mark_pending(self, accounting: RequestAccounting) -> None:
        """Mark a call as pending before the supplier is asked: a crash must not lose its cost.

        Raises ``GatewayError`` when that fails and the ledger is required.
        """
        pending = accounting.make_pending_call()
        if pending is None:
            return
        try:
            await self._services.ledger.mark_pending(pending)
        except Unavailable as failure:
            self._is_failing = True
            log.error("request %s cannot be marked as pending: %s", pending.id, failure.message)
            if self._services.settings().requires_ledger:
                raise GatewayError("server", LEDGER_UNAVAILABLE) from failure

    async def record(
        self, accounting: RequestAccounting, outcome: Outcome, status: int, error: str
    ) -> None:
        """Settle and record a request, once, however it ended.

        Raises ``Unavailable`` when it cannot be recorded although it must be; requests that were
        refused or whose caller is gone only cause a log entry.
        """
        if accounting.is_closed:
            return
        services = self._services
        if accounting.draining and outcome in ("ok", "left"):
            outcome, status = "left", STATUS_CLIENT_LEFT
        if outcome == "left" and not services.is_still_valid(accounting.key):
            error = ERROR_KEY_REVOKED
            services.service_log.on_key_revoked(accounting.key)
        record = accounting.close(outcome, status, error)
        try:
            await services.ledger.add_record(record)
        except Unavailable as failure:
            self._is_failing = True
            services.service_log.on_ledger_failed(failure.message)
            log.error("request %s is not in the ledger: %s", record.id, failure.message)
            if outcome in ("ok", "broken") and services.settings().requires_ledger:
                raise Unavailable(LEDGER_UNAVAILABLE) from failure
        else:
            services.service_log.on_ledger_written()
