"""A channel is tried step by step, its own way: name, connection, TLS, sign-in, one request.

Only the channel's own address is called, and no redirect is followed. What is told of a failure
never holds the channel's key.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from agentd.errors import AgentdError, NotFound, SupplierUnreachable, Unavailable
from agentd.outside.dialing import resolved
from agentd.outside.http_request import Origin, origin
from agentd.outside.models_list import models_list
from agentd.outside.upstream import HttpUpstream
from agentd.proxy.channel import Channel
from agentd.proxy.dialects.conversation import SupplierError, UsageSeen
from agentd.proxy.dialects.dialect import DIALECTS, address
from agentd.proxy.dialects.failure import failure
from agentd.proxy.management.check import SECONDS, Climbed, Paid, Rung, RungName, smallest
from agentd.proxy.price import NOTHING
from agentd.proxy.upstream import Request, Timeouts, merged_headers
from agentd.redaction import scrub, visible

Reach: TypeAlias = Callable[[Channel], Awaitable[tuple[HttpUpstream, str]]]
"""Who calls a channel's supplier, and its key; raises ``Misconfigured`` or ``Unavailable``."""

_LONGEST = 500
_ANSWER = 1024 * 1024
_TIMEOUTS = Timeouts(connect=SECONDS, head=SECONDS, idle=SECONDS, total=SECONDS)


class _FellError(Exception):
    """A step failed, and is noted: there is no further one."""


async def climb(
    reach: Reach, channel: Channel, paid: Paid | None = None, model: str = ""
) -> Climbed:
    """How far it comes within ``check.SECONDS``; never raises what a supplier can bring about.

    ``model`` is looked for in the supplier's list; the ``paid`` request is the last step.
    """
    ladder = _Ladder(channel)
    try:
        async with asyncio.timeout(SECONDS):
            await ladder.climb(reach, paid, model)
    except TimeoutError:
        ladder.note("failed", f"it takes longer than {SECONDS:g} s")
    except _FellError:
        pass
    return Climbed(tuple(ladder.rungs), ladder.usage, ladder.status)


class _Ladder:
    """One check."""

    def __init__(self, channel: Channel) -> None:
        self.rungs: list[Rung] = []
        self.usage = NOTHING
        self.status = 0
        self._channel = channel
        self._key = ""
        self._name: RungName = "secret"
        self._began = time.perf_counter()

    async def climb(self, reach: Reach, paid: Paid | None, model: str) -> None:
        """Step by step. Raises ``_FellError``, and ``TimeoutError`` from around it."""
        with self._rung("secret"):
            upstream, self._key = await reach(self._channel)
        await self._connect(upstream)
        with self._rung("models") as found:
            found.append(await self._listed(upstream, model))
        if paid:
            with self._rung("request"):
                await self._ask(upstream, paid)

    def note(self, state: Literal["passed", "failed", "skipped"], detail: str = "") -> None:
        """How the present step ended."""
        ms = 0.0 if state == "skipped" else (time.perf_counter() - self._began) * 1000
        told = detail.replace(self._key, "***") if self._key else detail
        self.rungs.append(Rung(self._name, state, round(ms, 3), visible(scrub(told))[:_LONGEST]))

    async def _connect(self, upstream: HttpUpstream) -> None:
        channel = self._channel
        with self._rung("name") as found:
            to = origin(channel.url)
            if channel.transport.kind == "direct":
                await _resolve(to, local=channel.local)
            else:
                found.append("by the channel's proxy or VPN")
        with self._rung("connect"):
            connection = await upstream.dialled(channel.url, _TIMEOUTS)
        if to.scheme == "http":
            connection.close()
            self._name = "tls"
            self.note("skipped", "the address begins with http")
            return
        with self._rung("tls"):
            await upstream.secured(channel.url, connection, _TIMEOUTS)

    async def _listed(self, upstream: HttpUpstream, model: str) -> str:
        """Ask for the models; what is to be told of them."""
        channel = self._channel
        try:
            listed = await models_list(
                upstream, channel.dialects[0], channel.url, self._key, channel.headers
            )
        except NotFound:
            await self._probe(upstream, model)
            raise
        if model and listed.all and listed.names and model not in listed.names:
            return f"{model} is none of the {len(listed.names)} that it lists"
        return f"{len(listed.names)} models"

    async def _probe(self, upstream: HttpUpstream, model: str) -> None:
        """Raise ``Unavailable`` if nothing is where requests go, or the key is not accepted.

        A supplier without a list of models and a wrong address both answer 404. A request that
        says nothing costs nothing: where there is something, it is refused for that.
        """
        channel = self._channel
        dialect = DIALECTS[channel.dialects[0]]
        to = address(channel.url, dialect.path(model or "model", stream=False))
        headers = merged_headers(dialect.headers(self._key), channel.headers)
        async with upstream.send(Request("POST", to, headers, b"{}", _TIMEOUTS)) as answer:
            await answer.read(_ANSWER)
        if answer.status in (401, 403):
            raise Unavailable(f"it does not accept its key (HTTP {answer.status})")
        if answer.status in (404, 405, 501) or 300 <= answer.status < 400:
            raise Unavailable(
                f"nothing is where requests would go ({urlsplit(to).path}: HTTP {answer.status}):"
                " is the address right?"
            )

    async def _ask(self, upstream: HttpUpstream, paid: Paid) -> None:
        """Make the one request that costs something."""
        channel = self._channel
        dialect = DIALECTS[channel.dialects[0]]
        request = Request(
            "POST",
            address(channel.url, dialect.path(paid.supplier_model, stream=False)),
            merged_headers(dialect.headers(self._key), channel.headers),
            dialect.request(smallest(channel), paid.supplier_model, stream=False),
            _TIMEOUTS,
        )
        async with upstream.send(request) as answer:
            body = await answer.read(_ANSWER)
            self.status = answer.status
            if answer.status != 200:
                said = failure(answer.status, answer.headers, body)
                raise Unavailable(f"HTTP {answer.status}: {said.message}")
        events = dialect.answer(body)
        for event in events:
            if isinstance(event, UsageSeen):
                self.usage = event.usage
        if events and isinstance(events[-1], SupplierError):
            raise Unavailable(events[-1].message)

    @contextmanager
    def _rung(self, name: RungName) -> Iterator[list[str]]:
        """One step; what is appended is told of it when it passes."""
        self._name, self._began = name, time.perf_counter()
        found: list[str] = []
        try:
            yield found
        except NotFound as error:
            self.note("skipped", error.message)
        except AgentdError as error:
            self.note("failed", error.message)
            raise _FellError from error
        else:
            self.note("passed", "; ".join(found))


async def _resolve(to: Origin, *, local: bool) -> None:
    try:
        await resolved(to.host, to.port, local=local)
    except OSError as error:
        message = f"The name {to.host} cannot be resolved: {error.strerror}"
        raise SupplierUnreachable(message, "name", str(to)) from error
