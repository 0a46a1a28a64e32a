"""One channel asked: its answer on the way to the caller, or why there is none."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct

from agentd.errors import BadRequest, Misconfigured, SupplierUnreachable, TooLarge, Unavailable
from agentd.proxy.dialects.conversation import SupplierError
from agentd.proxy.dialects.failure import failure
from agentd.proxy.entry import Outcome
from agentd.proxy.gateway.asking import LEFT, Answered
from agentd.proxy.gateway.bill import Bill
from agentd.proxy.gateway.calling import Calling, Whole
from agentd.proxy.gateway.house import House
from agentd.proxy.gateway.refusing import IN_THE_LOG, unanswered
from agentd.proxy.gateway.stream import Later, Stream
from agentd.proxy.routing import Choice, Failure
from agentd.proxy.secrets.restoring import restored, restorer
from agentd.proxy.upstream import BODY_LIMIT, Response

log = logging.getLogger(__name__)

ERROR_LIMIT = 1024 * 1024
"""Bytes of a supplier's refusal that are read."""

_EVENTS = "text/event-stream"

_TOLD_ON = ("anthropic-", "openai-", "x-ratelimit-", "retry-after", "request-id")
"""Headers of a supplier that a caller of the same dialect is to have, by their beginning."""


class Failed(Struct, frozen=True):
    """A channel that did not answer; ``raw`` is its own refusal, JSON fit for the caller."""

    kind: Failure
    error: SupplierError
    raw: Answered | None = None
    why: str = ""
    """What no caller is told, such as the supplier's address."""


Result: TypeAlias = Answered | Failed

Begin: TypeAlias = Callable[[Bill], Awaitable[None]]
"""Have a crash book the request, too. Raises ``Refused`` where that is to be and cannot."""

Close: TypeAlias = Callable[[Bill, Outcome, int, str], Awaitable[None]]
"""Settle and book a request, once. Raises ``Unavailable``."""


class Attempts:
    """Asks channels."""

    def __init__(self, house: House, begin: Begin, close: Close, later: Later) -> None:
        self._house = house
        self._begin = begin
        self._close = close
        self._later = later
        self._streams: dict[Stream, str] = {}
        """Those that are told, by the ids of their keys."""

    def dismiss(self, lost: frozenset[str]) -> None:
        """These keys are good no more: end the streams that were begun with them."""
        for stream in [stream for stream, key in self._streams.items() if key in lost]:
            stream.dismiss()

    async def to_the_end(self, calling: Calling, bill: Bill, choice: Choice) -> Result:
        """As ``_asked``, and heard out should the caller leave meanwhile."""
        asking = asyncio.get_running_loop().create_task(self.ask(calling, bill, choice))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            bill.heard_out = self._house.welcomes(bill.key)
            if not bill.heard_out:
                asking.cancel()
            self._later(self._hear_out(asking, bill), waits=bill.key.id)
            raise

    async def _hear_out(self, asking: "asyncio.Task[Result]", bill: Bill) -> None:
        try:
            await asyncio.wait([asking])
        finally:
            asking.cancel()
            answered = asking.done() and not asking.cancelled() and not asking.exception()
            outcome = asking.result() if answered else None
            if isinstance(outcome, Answered) and outcome.portions:
                await outcome.portions.aclose()
            else:
                await self._close(bill, "left", LEFT, "")

    async def ask(self, calling: Calling, bill: Bill, choice: Choice) -> Result:
        """The answer, whole or begun. Raises ``BadRequest`` for what its dialect cannot say.

        Raises ``Unavailable`` for a whole answer that cannot be booked, and ``Refused`` where no
        call is to be made that a crash would forgive.
        """
        bill.tried(choice)
        try:
            upstream, secret = await self._house.suppliers.reach(choice.channel)
        except (BadRequest, Misconfigured, Unavailable) as error:
            name = choice.channel.name
            log.warning("channel %s: request %s: %s", name, calling.asked.id, error.message)
            why = f"The channel {name} is not ready. {IN_THE_LOG}"
            return Failed("authentication", SupplierError("server", why), why=error.message)
        request = calling.request(choice, secret, self._house.settings().idle_timeout)
        await self._begin(bill)
        bill.called, bill.gave_up = True, False
        try:
            response = await upstream.open(request)
            bill.mark("head")
            if response.status != 200:
                return await _refusal(response, calling, bill, choice, secret)
            if calling.glance.stream and _type(response).startswith(_EVENTS):
                return await self._streamed(response, calling, bill, choice)
            whole = calling.whole(choice, await _body(response))
        except SupplierUnreachable as error:
            bill.gave_up = error.gave_up
            bill.called = error.stage == "body" or error.gave_up
            told = unanswered(calling.asked.id, choice.channel.name, error)
            return Failed("unreachable", told, why=error.message)
        except TooLarge as error:
            told = unanswered(calling.asked.id, choice.channel.name, error)
            return Failed("garbled", told, why=error.message)
        return await self._whole(whole, response, calling, bill, choice)

    async def _streamed(
        self, response: Response, calling: Calling, bill: Bill, choice: Choice
    ) -> Result:
        async def close(outcome: Outcome, error: str) -> None:
            self._streams.pop(stream, None)
            if outcome == "ok":
                self._house.router.worked(choice.channel)
            elif outcome == "broken":
                self._house.router.failed(choice.channel, "broken", None, choice.supplier_model)
            if kept is not None:
                self._keep(calling, b"".join(kept))
            await self._close(bill, outcome, 200, error)

        kept: list[bytes] | None = [] if calling.asked.key.keep_bodies else None
        stream = Stream(response, calling, choice, bill, close, self._later, kept)
        if error := await stream.begin():
            return Failed(error.kind, error)
        self._streams[stream] = bill.key.id
        return Answered(200, _headers(bill, choice, response, calling), portions=stream)

    def _keep(self, calling: Calling, answer: bytes) -> None:
        asked, house = calling.asked, self._house
        house.bodies.keep(
            asked.id,
            house.clock.now(),
            calling.body,
            answer,
            lambda body: house.without_secrets(body, calling.dialect, asked.key.id),
        )

    async def _whole(
        self,
        whole: Whole | SupplierError,
        response: Response,
        calling: Calling,
        bill: Bill,
        choice: Choice,
    ) -> Result:
        if isinstance(whole, SupplierError):
            return Failed(whole.kind, whole)
        self._house.router.worked(choice.channel)
        bill.counted(whole.usage, told=True)
        body = whole.body
        if calling.asked.key.keep_bodies:
            self._keep(calling, body)
        if calling.secrets and calling.glance.stream:
            stream = restorer(calling.dialect, calling.secrets)
            body = stream.feed(body) + stream.close()
        elif calling.secrets:
            body = restored(calling.dialect, calling.secrets, body)
        bill.gave_whole(body)
        bill.mark("first")
        headers = _headers(bill, choice, response, calling)
        await self._close(bill, "ok", 200, "")
        return Answered(200, headers, body)


async def _refusal(
    response: Response, calling: Calling, bill: Bill, choice: Choice, secret: str
) -> Failed:
    """An answer of another status than 200; our own key is never told on."""
    try:
        body = await _body(response, ERROR_LIMIT)
    except TooLarge:
        body = b""
    error = failure(response.status, response.headers, body).hiding(secret)
    ours = error.kind in ("authentication", "permission", "quota")
    if ours or not (choice.passes and response.status >= 400 and _is_json(body)):
        return Failed(error.kind, error)
    told = body.replace(secret.encode(), b"***") if secret else body
    headers = _headers(bill, choice, response, calling) | {"Content-Type": "application/json"}
    return Failed(error.kind, error, Answered(response.status, headers, told))


def _is_json(body: bytes) -> bool:
    """True for a JSON object or list: nothing else of a supplier's may become a page of ours."""
    try:
        return isinstance(msgspec.json.decode(body), dict | list)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


async def _body(response: Response, limit: int = BODY_LIMIT) -> bytes:
    try:
        return await response.read(limit)
    finally:
        response.close()


def _headers(bill: Bill, choice: Choice, response: Response, calling: Calling) -> dict[str, str]:
    ours = {
        "x-agentd-channel": choice.channel.name,
        "x-agentd-request-id": calling.asked.id,
        "Server-Timing": bill.timing(),
    }
    if choice.passes:
        ours |= _told_on(response.headers)
    elif dropped := calling.dropped(choice):
        ours["x-agentd-dropped"] = ", ".join(dropped)
    return {"Content-Type": _EVENTS if calling.glance.stream else "application/json", **ours}


def _type(response: Response) -> str:
    return response.headers.get("content-type", "application/json")


def _told_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith(_TOLD_ON)}
