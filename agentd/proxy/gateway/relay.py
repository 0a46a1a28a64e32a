"""One request through the gateway: admitted, hidden, reserved, sent on, told again, booked.

Nothing has been given to the caller as long as another channel is tried. A request is settled and
booked exactly once, before the end of its answer goes out, whatever becomes of it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from agentd.clock import Clock, Timestamp, parse_iso
from agentd.errors import AgentdError, Misconfigured, SupplierUnreachable, Unavailable
from agentd.proxy.access_key import AccessKey
from agentd.proxy.channel import Channel, ProxyModel
from agentd.proxy.dialects.callers import errors
from agentd.proxy.dialects.conversation import SupplierError
from agentd.proxy.dialects.failure import failure
from agentd.proxy.entry import Outcome
from agentd.proxy.gateway.asking import LEFT, Answered, Asked, Refused
from agentd.proxy.gateway.bill import Bill, Book, Meter
from agentd.proxy.gateway.calling import Calling
from agentd.proxy.gateway.glancing import glanced
from agentd.proxy.gateway.refusing import failed, refused
from agentd.proxy.gateway.stream import Stream
from agentd.proxy.pricing import output_at_most, settled, tokens_in, upper_bound
from agentd.proxy.routing import WORTH_ANOTHER, Choice, Failure, Router, found
from agentd.proxy.secrets.hiding import Hidden, Hiding
from agentd.proxy.secrets.restoring import restored, restorer
from agentd.proxy.settings import GatewaySettings
from agentd.proxy.upstream import Response, Upstream

log = logging.getLogger(__name__)

ERROR_LIMIT = 1024 * 1024
"""Bytes of a supplier's refusal that are read."""

LARGE = 128 * 1024
"""Bytes of a body above which its secrets are looked for off the loop."""

_EVENTS = "text/event-stream"

_TOLD_ON = ("anthropic-", "openai-", "x-ratelimit-", "retry-after", "request-id")
"""Headers of a supplier that a caller of the same dialect is to have, by their beginning."""


class Suppliers(Protocol):
    """How a channel is reached."""

    async def reach(self, channel: Channel) -> tuple[Upstream, str]:
        """Who calls it, and its secret; raises ``Misconfigured`` or ``Unavailable``."""
        ...


class Bodies(Protocol):
    """Where the bodies of some keys' requests are kept; ``disk.bodies.BodyFiles`` is one."""

    def keep(self, id_: str, at: Timestamp, request: bytes, response: bytes) -> None:
        """Have an exchange kept, secrets hidden; nobody waits for it."""
        ...


@dataclass(frozen=True, slots=True)
class House:
    """What the relay works with."""

    models: Callable[[], Mapping[str, ProxyModel]]
    channels: Callable[[], Mapping[str, Channel]]
    settings: Callable[[], GatewaySettings]
    hiding: Callable[[], Hiding | None]
    """None: nothing is hidden."""
    licence: Callable[[], str]
    """Why nothing may flow, with what to do; empty: it may."""
    meter: Callable[[AccessKey], Meter[Any]]
    router: Router
    suppliers: Suppliers
    book: Book
    bodies: Bodies
    clock: Clock


class _Failed(Struct, frozen=True):
    """A channel that did not answer; ``raw`` is its own refusal, fit for the caller."""

    kind: Failure
    error: SupplierError
    raw: Answered | None = None


_Outcome: TypeAlias = Answered | _Failed


class Relay:
    """Answers the requests of callers who were let in."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._later: set[asyncio.Task[None]] = set()
        self._unbooked = False

    async def answer(self, asked: Asked) -> Answered:
        """The answer; raises ``Refused``. To cancel it is to say that the caller has left."""
        bill = Bill(asked, self._house.clock)
        try:
            return await self._answered(asked, bill)
        except AgentdError as error:
            no = refused(error)
            status, _ = errors.error(asked.endpoint.dialect, no.kind, no.message, asked.id)
            await self._close(bill, "refused" if no.ours else "failed", status, no.name)
            raise no from error
        except asyncio.CancelledError:
            if not bill.heard_out:
                self.later(self._close(bill, "left", LEFT, ""))
            raise

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something done that nobody waits for; ``close`` does."""
        task = asyncio.get_running_loop().create_task(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def close(self) -> None:
        """Return once all is booked that was under way."""
        while self._later:
            await asyncio.wait(self._later)

    async def _answered(self, asked: Asked, bill: Bill) -> Answered:
        house, key = self._house, asked.key
        bill.glance = glanced(asked)
        if why := house.licence():
            raise Refused("no_licence", why)
        if self._unbooked and house.settings().when_unbooked == "stop":
            raise Refused("server", "The ledger cannot be written, so nothing is sent on.")
        model = found(house.models(), bill.glance.model, key)
        choices = self._choices(asked, model)
        hidden = await self._hidden(asked)
        bill.hidden = hidden.found
        if hidden.blocked:
            raise Refused("blocked", f'The request holds a secret (rule "{hidden.blocked}").')
        self._reserve(asked, bill, model, choices)
        created = int(parse_iso(house.clock.now()).timestamp())
        calling = Calling(asked, bill.glance, model, hidden, created)
        return await self._tried(calling, bill, choices)

    def _choices(self, asked: Asked, model: ProxyModel) -> list[Choice]:
        house, dialect = self._house, asked.endpoint.dialect
        channels, translate = house.channels(), asked.endpoint.kind == "reply"
        choices = house.router.ways(model, channels, asked.key, dialect, translate=translate)
        if not choices:
            raise house.router.why_none(model, channels, asked.key, dialect, translate=translate)
        return choices[: house.settings().tries]

    async def _hidden(self, asked: Asked) -> Hidden:
        hiding = self._house.hiding()
        if hiding is None:
            return Hidden(asked.body, {}, {}, "", ())
        dialect, key = asked.endpoint.dialect, asked.key.id
        if len(asked.body) > LARGE:
            return await asyncio.to_thread(hiding.hide, asked.body, dialect, key)
        return hiding.hide(asked.body, dialect, key)

    def _reserve(self, asked: Asked, bill: Bill, model: ProxyModel, choices: list[Choice]) -> None:
        """Set aside the most that the dearest of the choices can cost."""
        now = self._house.settings()
        bill.pricings = {
            choice.place: settled(model.name, choice.prices, now.unknown_price, now.assumed_prices)
            for choice in choices
        }
        into = bill.input_tokens = tokens_in(len(asked.body))
        glance = bill.glance
        out = output_at_most(glance.max_output, glance.replies, model.max_output)
        most = max(upper_bound(one, into, out) for one in bill.pricings.values())
        bill.reserve(self._house.meter(asked.key), asked.key.limits, most, into + out)

    async def _tried(self, calling: Calling, bill: Bill, choices: list[Choice]) -> Answered:
        """The first answer that a channel gives; else the last one's refusal."""
        last: _Failed | None = None
        for choice in choices:
            drains = choice.channel.on_leave == "drain"
            ask = self._to_the_end if drains else self._asked
            outcome = await ask(calling, bill, choice)
            if isinstance(outcome, Answered):
                return outcome
            last = outcome
            router = self._house.router
            wait = last.error.retry_after
            router.failed(choice.channel, last.kind, wait, choice.supplier_model)
            if last.kind not in WORTH_ANOTHER:
                break
        assert last
        if last.raw is None:
            raise failed(last.error)
        bill.sent = len(last.raw.body)
        await self._close(bill, "failed", last.raw.status, last.kind)
        return last.raw

    async def _to_the_end(self, calling: Calling, bill: Bill, choice: Choice) -> "_Outcome":
        """As ``_asked``, and heard out should the caller leave meanwhile."""
        asking = asyncio.get_running_loop().create_task(self._asked(calling, bill, choice))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            bill.heard_out = True
            self.later(self._hear_out(asking, bill))
            raise

    async def _hear_out(self, asking: "asyncio.Task[_Outcome]", bill: Bill) -> None:
        await asyncio.wait([asking])
        outcome = None if asking.exception() else asking.result()
        if isinstance(outcome, Answered) and outcome.portions:
            await outcome.portions.aclose()
        else:
            await self._close(bill, "left", LEFT, "")

    async def _asked(self, calling: Calling, bill: Bill, choice: Choice) -> "_Outcome":
        bill.tried(choice)
        async with AsyncExitStack() as stack:
            try:
                upstream, secret = await self._house.suppliers.reach(choice.channel)
                request = calling.request(choice, secret)
                bill.called = True
                response = await stack.enter_async_context(upstream.send(request))
                bill.mark("head")
                if response.status != 200:
                    return await _refusal(response, calling, choice, secret)
                if calling.glance.stream and _type(response).startswith(_EVENTS):
                    return await self._streamed(stack, response, calling, bill, choice)
                return await self._whole(response, calling, bill, choice)
            except SupplierUnreachable as error:
                bill.called = error.stage == "body"
                return _Failed("unreachable", SupplierError("broken", error.message))
            except (Misconfigured, Unavailable) as error:
                log.warning("channel %s: %s", choice.channel.name, error.message)
                why = f"The channel {choice.channel.name} is not ready."
                return _Failed("authentication", SupplierError("server", why))

    async def _streamed(
        self,
        stack: AsyncExitStack,
        response: Response,
        calling: Calling,
        bill: Bill,
        choice: Choice,
    ) -> "_Outcome":
        async def close(outcome: Outcome, error: str) -> None:
            if outcome == "ok":
                self._house.router.worked(choice.channel)
            elif outcome == "broken":
                self._house.router.failed(choice.channel, "broken", None, choice.supplier_model)
            if kept is not None:
                now, body = self._house.clock.now(), b"".join(kept)
                self._house.bodies.keep(calling.asked.id, now, calling.body, body)
            await self._close(bill, outcome, 200, error)

        kept: list[bytes] | None = [] if calling.asked.key.keep_bodies else None
        chunks = response.chunks()
        stack.push_async_callback(chunks.aclose)
        stream = Stream(
            chunks,
            calling.line(choice),
            restorer(calling.dialect, calling.secrets) if calling.secrets else None,
            bill,
            close,
            self.later,
            kept,
            drains=choice.channel.on_leave == "drain",
        )
        if error := await stream.begin():
            return _Failed(error.kind, error)
        stream.hold(stack.pop_all())
        return Answered(200, _headers(bill, choice, response, calling), portions=stream)

    async def _whole(
        self, response: Response, calling: Calling, bill: Bill, choice: Choice
    ) -> "_Outcome":
        whole = calling.whole(choice, await response.read())
        if isinstance(whole, SupplierError):
            return _Failed(whole.kind, whole)
        self._house.router.worked(choice.channel)
        bill.counted(whole.usage, told=True)
        body = whole.body
        if calling.asked.key.keep_bodies:
            now = self._house.clock.now()
            self._house.bodies.keep(calling.asked.id, now, calling.body, body)
        if calling.secrets:
            body = restored(calling.dialect, calling.secrets, body)
        bill.sent = len(body)
        bill.mark("first")
        headers = _headers(bill, choice, response, calling)
        await self._close(bill, "ok", 200, "")
        return Answered(200, headers, body)

    async def _close(self, bill: Bill, outcome: Outcome, status: int, error: str) -> None:
        """Settle, and book: once for each request, whatever becomes of it.

        Raises ``Unavailable`` when it cannot be booked and is to be, except for what nobody waits
        for or was refused anyhow.
        """
        if bill.closed:
            return
        if bill.heard_out and outcome == "ok":
            outcome, status = "left", LEFT
        entry = bill.close(outcome, status, error)
        try:
            await self._house.book.book(entry)
        except Unavailable as failure_:
            self._unbooked = True
            log.error("the request %s is not in the ledger: %s", entry.id, failure_.message)
            if outcome in ("ok", "broken") and self._house.settings().when_unbooked == "stop":
                raise
        else:
            self._unbooked = False


async def _refusal(response: Response, calling: Calling, choice: Choice, secret: str) -> _Failed:
    """An answer of another status than 200; our own key is never told on."""
    body = await response.read(ERROR_LIMIT)
    error = failure(response.status, response.headers, body).hiding(secret)
    if not choice.passes or error.kind in ("authentication", "permission", "quota"):
        return _Failed(error.kind, error)
    told = body.replace(secret.encode(), b"***") if secret else body
    headers = _told_on(response.headers) | {"content-type": _type(response)}
    return _Failed(error.kind, error, Answered(response.status, headers, told))


def _headers(bill: Bill, choice: Choice, response: Response, calling: Calling) -> dict[str, str]:
    ours = {
        "x-agentd-channel": choice.channel.name,
        "x-agentd-request-id": calling.asked.id,
        "Server-Timing": bill.timing(),
    }
    if choice.passes:
        return {**_told_on(response.headers), "Content-Type": _type(response), **ours}
    return {"Content-Type": _EVENTS if calling.glance.stream else "application/json", **ours}


def _type(response: Response) -> str:
    return response.headers.get("content-type", "application/json")


def _told_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith(_TOLD_ON)}
