"""Repricing of recorded requests as a change of the journal, which is undone as others are.

What it replaced stands in the records themselves (``ledger.record.EarlierPrice``), for it may be
of millions of requests; undo data only says where, and of how many.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Raw, Struct

from agentd.core.errors import Conflict
from agentd.gateway.admin.changes import ChangeRecord, ChangeRequest, UndoRecord
from agentd.gateway.admin.service import UNDO_HINT, ChangeLog
from agentd.gateway.ledger.reprice import Revise
from agentd.gateway.pricing.repricing import PricesOf, RepricingSummary, restore_price


class RepricedDays(Struct, frozen=True):
    """The days (UTC) of a repricing, both included, and how many requests it changed."""

    first: str
    last: str
    changed: int


class RepricingLedger(Protocol):
    """The stored requests (``gateway.ledger.ledger.Ledger``)."""

    def reprice(
        self, first: str, last: str, prices_of: PricesOf, change: int = 0, *, dry_run: bool = False
    ) -> Awaitable[RepricingSummary]:
        """Reprice the requests of these days. ``Unavailable``."""
        ...

    def revise_prices(
        self, first: str, last: str, revise: Revise, *, dry_run: bool = False
    ) -> Awaitable[RepricingSummary]:
        """Give the requests of these days other prices. ``Unavailable``."""
        ...


class Repricing(NamedTuple):
    """The result of a repricing."""

    difference: RepricingSummary
    change: int | None
    """The number by which it is undone; ``None``: a dry run, or nothing changed."""


class RepricedHistory:
    """The prices of recorded requests; ``recount`` is called after they changed."""

    resource = "requests"

    def __init__(
        self, ledger: RepricingLedger, journal: ChangeLog, recount: Callable[[], Awaitable[None]]
    ) -> None:
        self._ledger = ledger
        self._journal = journal
        self._recount = recount

    async def reprice(
        self, first: str, last: str, prices: PricesOf, request: ChangeRequest
    ) -> Repricing:
        """Reprice the requests of these days. Raises ``Unavailable``."""
        async with self._recounting(request), self._journal.hold(request):
            difference = await self._ledger.reprice(
                first, last, prices, self._journal.last_number + 1, dry_run=request.dry_run
            )
            days = RepricedDays(first, last, difference.changed)
            logged = await self._log(request, "reprice", days, difference)
        is_change = difference.changed and not request.dry_run
        return Repricing(difference, logged.number if is_change else None)

    async def undo(self, record: UndoRecord, request: ChangeRequest, number: int) -> ChangeRecord:
        """Restore the prices. Raises ``Conflict`` if a later repricing changed any of them."""
        days = msgspec.json.decode(record.after, type=RepricedDays)
        first, last = days.first, days.last
        async with self._recounting(request), self._journal.hold(request):
            change = self._journal.last_number + 1
            revise = partial(restore_price, undone=number, change=change)
            found = await self._ledger.revise_prices(first, last, revise, dry_run=True)
            if found.changed < days.changed:
                raise Conflict(
                    f"{days.changed - found.changed} of the {days.changed} requests were repriced"
                    " since, or are deleted",
                    UNDO_HINT,
                )
            if not request.dry_run:
                await self._ledger.revise_prices(first, last, revise)
            days = RepricedDays(first, last, found.changed)
            return await self._log(request, "undo", days, found, undoes=number)

    @asynccontextmanager
    async def _recounting(self, request: ChangeRequest) -> AsyncIterator[None]:
        """Recount at the end unless it is a dry run, also of a change that failed half way."""
        try:
            yield
        finally:
            if not request.dry_run:
                await self._recount()

    async def _log(
        self,
        request: ChangeRequest,
        action: str,
        days: RepricedDays,
        difference: RepricingSummary,
        undoes: int | None = None,
    ) -> ChangeRecord:
        undo = UndoRecord(resource=self.resource, after=Raw(msgspec.json.encode(days)))
        return await self._journal.append(
            request,
            action,
            self.resource,
            f"{days.first} to {days.last}",
            before={"cost": str(difference.before)},
            after={"changed": difference.changed, "cost": str(difference.after)},
            undo=undo if difference.changed else None,
            undoes=undoes,
        )
