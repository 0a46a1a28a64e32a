"""One request through the gateway: admitted, hidden, reserved, sent on, told again, booked.

Nothing has been given to the caller as long as another channel is tried. A request is settled and
booked exactly once, before the end of its answer goes out, whatever becomes of it.
"""

import asyncio
import logging
from collections.abc import Coroutine
from decimal import Decimal
from functools import partial
from typing import Any

from msgspec import structs

from agentd.clock import Clock, parse_iso
from agentd.errors import AgentdError, BadRequest, Unavailable
from agentd.proxy.channel import ProxyModel
from agentd.proxy.dialects.callers import errors
from agentd.proxy.dialects.callers.references import resolve_references
from agentd.proxy.entry import Outcome
from agentd.proxy.gateway.asking import DISMISSED, LEFT, REVOKED, Answered, Asked, Refused
from agentd.proxy.gateway.attempt import Attempts, Failed
from agentd.proxy.gateway.bill import Bill
from agentd.proxy.gateway.calling import Calling
from agentd.proxy.gateway.glancing import counted_here, glanced, tokens_in
from agentd.proxy.gateway.hiding_threads import HidingThreads
from agentd.proxy.gateway.house import House
from agentd.proxy.gateway.item_memory import ItemMemory
from agentd.proxy.gateway.refusing import failed, refused
from agentd.proxy.pricing import output_at_most, output_limit, settled, upper_bound
from agentd.proxy.routing import WORTH_ANOTHER, Choice, found
from agentd.proxy.secrets.hiding import Hidden
from agentd.proxy.settings import GatewaySettings
from agentd.proxy.spend import OverLimit

log = logging.getLogger(__name__)

UNBOOKED = "The ledger cannot be written, so nothing is sent on or answered."
"""What callers are told; where and why is for whoever reads the logs."""


class Relay:
    """Answers the requests of callers who were let in."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._hiders = HidingThreads()
        self._memory = ItemMemory(house.clock.monotonic)
        self._later: set[asyncio.Task[None]] = set()
        self._waiting: dict[asyncio.Task[None], str] = {}
        """Those of them that wait for a supplier, by the ids of their keys."""
        self._attempts = Attempts(house, self._begin, self._close, self.later)
        self._unbooked = False
        """An entry could not be written, and it was not looked since whether one can."""
        self._probing = asyncio.Lock()

    async def answer(self, asked: Asked) -> Answered:
        """The answer; raises ``Refused``. To cancel it is to say that the caller has left."""
        bill = Bill(asked, self._house.clock)
        try:
            return await self._answered(asked, bill)
        except AgentdError as error:
            if isinstance(error, OverLimit):
                self._house.noting.over_limit(asked.key, error)
            no = refused(error)
            status, _ = errors.error(asked.endpoint.dialect, no.kind, no.message, asked.id)
            await self._close(bill, "refused" if no.ours else "failed", status, no.name)
            raise no from error
        except asyncio.CancelledError:
            if not bill.heard_out:
                status = LEFT if self._house.welcomes(asked.key) else DISMISSED
                self.later(self._close(bill, "left", status, ""))
            raise
        except Exception:  # a task boundary: what broke off by a mistake of ours is settled, too
            await self._close(bill, "failed", 500, "server")
            raise

    def dismiss(self, lost: frozenset[str]) -> None:
        """These keys are good no more: end what is told, and what is heard out.

        Who waits for the beginning of an answer is sent away by who called ``answer``.
        """
        self._memory.forget_keys(lost)
        self._attempts.dismiss(lost)
        for task in [task for task, key in self._waiting.items() if key in lost]:
            task.cancel()

    def later(self, work: Coroutine[Any, Any, None], *, waits: str = "") -> None:
        """Have something done that nobody waits for; ``close`` does, but for a supplier.

        ``waits`` is the id of the access key with which one is waited for.
        """
        task = asyncio.get_running_loop().create_task(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)
        if waits:
            self._waiting[task] = waits
            task.add_done_callback(self._waiting.pop)

    async def close(self) -> None:
        """Return once all is booked that was under way; nobody is heard out any more."""
        await asyncio.sleep(0)  # what was only just begun must know that it is cancelled
        while self._later:
            for task in self._waiting:
                task.cancel()
            await asyncio.wait(self._later)
        self._hiders.close()

    async def _answered(self, asked: Asked, bill: Bill) -> Answered:
        house, key = self._house, asked.key
        settings = house.settings()
        asked = self._with_items(asked)
        bill.glance = glanced(asked)
        if why := house.licence():
            raise Refused("no_licence", why)
        if self._unbooked and settings.when_unbooked == "stop":
            await self._probed()
        model = found(house.models(), bill.glance.model, key)
        choices = self._choices(asked, model)[: settings.tries]
        if not choices:
            return await self._counted_here(asked, bill)
        hidden = await self._hidden(asked)
        bill.hidden = hidden.found
        if hidden.blocked:
            house.noting.blocked(key, hidden.blocked)
            raise Refused("blocked", f'The request holds a secret (rule "{hidden.blocked}").')
        limit = output_limit(
            bill.glance.max_output, model.max_output, bounded=key.limits.bounds_spending
        )
        self._reserve(asked, bill, model, choices, limit, settings)
        calling = Calling(
            asked, bill.glance, limit, hidden, self._memory, partial(_seconds, house.clock)
        )
        return await self._tried(calling, bill, choices)

    def _with_items(self, asked: Asked) -> Asked:
        """The request with the items that it refers to: it is counted and looked through as such.

        Raises ``BadRequest`` for what is no request.
        """
        if asked.endpoint.dialect != "openai-responses":
            return asked
        body = resolve_references(asked.body, partial(self._memory.find, asked.key.id))
        return asked if body is asked.body else structs.replace(asked, body=body)

    async def _probed(self) -> None:
        """Raise ``Refused`` as long as entries cannot be written; one call looks for all."""
        async with self._probing:
            if self._unbooked:
                try:
                    await self._house.book.probe()
                except AgentdError as error:
                    raise Refused("server", UNBOOKED) from error
                self._unbooked = False

    def _choices(self, asked: Asked, model: ProxyModel) -> list[Choice]:
        house, dialect = self._house, asked.endpoint.dialect
        channels, translate = house.channels(), asked.endpoint.kind == "reply"
        choices = house.router.ways(model, channels, asked.key, dialect, translate=translate)
        if not choices and asked.endpoint.kind != "count":
            raise house.router.why_none(model, channels, asked.key, dialect, translate=translate)
        return choices

    async def _counted_here(self, asked: Asked, bill: Bill) -> Answered:
        """No channel of the model can count tokens in the caller's dialect."""
        body = counted_here(asked)
        await self._close(bill, "ok", 200, "")
        return Answered(200, {"x-agentd-request-id": asked.id}, body)

    async def _hidden(self, asked: Asked) -> Hidden:
        hiding = self._house.hiding()
        if hiding is None:
            return Hidden(asked.body)
        for name, value in asked.headers.items():
            hiding.check(f"The header {name}", value)
        hidden = await self._hiders.hide(hiding, asked)
        if hidden.learnt:
            await self._house.remember(hidden.learnt)
        return hidden

    def _reserve(
        self,
        asked: Asked,
        bill: Bill,
        model: ProxyModel,
        choices: list[Choice],
        limit: int,
        settings: GatewaySettings,
    ) -> None:
        """Set aside the most that the dearest of the choices can cost, at ``limit`` a reply."""
        glance = bill.glance
        writes = asked.endpoint.kind == "reply"
        into = bill.input_tokens = tokens_in(asked)
        if asked.endpoint.kind == "count":  # which costs nothing
            bill.reserve(self._house.meter(asked.key), asked.key.limits, Decimal(0), 0)
            return
        bill.pricings = {
            choice.place: settled(
                model.name,
                choice.prices,
                settings.unknown_price,
                settings.assumed_prices,
                glance.tier if choice.passes else "",
            )
            for choice in choices
        }
        out = output_at_most(limit, glance.replies) if writes else 0
        bill.output_tokens = out
        most = max(upper_bound(one, into, out) for one in bill.pricings.values())
        bill.reserve(self._house.meter(asked.key), asked.key.limits, most, into + out)

    async def _tried(self, calling: Calling, bill: Bill, choices: list[Choice]) -> Answered:
        """The first answer that a channel gives; else the last one's refusal."""
        last: Failed | None = None
        unsayable: BadRequest | None = None
        for choice in choices:
            drains = choice.channel.on_leave == "drain"
            ask = self._attempts.to_the_end if drains else self._attempts.ask
            try:
                outcome = await ask(calling, bill, choice)
            except BadRequest as error:  # another one may speak the caller's own dialect
                unsayable = error
                continue
            if isinstance(outcome, Answered):
                return outcome
            last = outcome
            router = self._house.router
            wait = last.error.retry_after
            router.failed(choice.channel, last.kind, wait, choice.supplier_model, last.why)
            if last.kind not in WORTH_ANOTHER:
                break
        if last is None:
            assert unsayable
            raise unsayable
        if last.raw is None:
            raise failed(last.error, last.kind)
        bill.sent = len(last.raw.body)
        await self._close(bill, "failed", last.raw.status, last.kind)
        return last.raw

    async def _begin(self, bill: Bill) -> None:
        """Mark a request before a supplier is asked, so that a crash does not forgive it.

        Raises ``Refused`` when that is not possible, and no request is to go unbooked.
        """
        entry = bill.cut_off()
        if entry is None:
            return
        try:
            await self._house.book.begin(entry)
        except Unavailable as failure_:
            self._unbooked = True
            log.error("the request %s cannot be marked: %s", entry.id, failure_.message)
            if self._house.settings().when_unbooked == "stop":
                raise Refused("server", UNBOOKED) from failure_

    async def _close(self, bill: Bill, outcome: Outcome, status: int, error: str) -> None:
        """Settle, and book: once for each request, whatever becomes of it.

        Raises ``Unavailable`` when it cannot be booked and is to be, except for what nobody waits
        for or was refused anyhow.
        """
        if bill.closed:
            return
        if bill.heard_out and outcome in ("ok", "left"):
            outcome, status = "left", LEFT
        if outcome == "left" and not self._house.welcomes(bill.key):
            error = REVOKED
            self._house.noting.dismissed(bill.key)
        entry = bill.close(outcome, status, error)
        try:
            await self._house.book.book(entry)
        except Unavailable as failure_:
            self._unbooked = True
            self._house.noting.unbooked(failure_.message)
            log.error("the request %s is not in the ledger: %s", entry.id, failure_.message)
            if outcome in ("ok", "broken") and self._house.settings().when_unbooked == "stop":
                raise Unavailable(UNBOOKED) from failure_
        else:
            self._house.noting.booked()


def _seconds(clock: Clock) -> int:
    """Since 1970."""
    return int(parse_iso(clock.now()).timestamp())
