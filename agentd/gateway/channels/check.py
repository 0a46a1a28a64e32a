"""A channel is tried step by step, its own way: name, connection, TLS, sign-in, one request.

Only the channel's own address is called, and no redirect is followed. What is reported of a failure
never holds the channel's key, nor what its secret headers hold.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from agentd.core.errors import AgentdError, NotFound, SupplierUnreachable, Unavailable
from agentd.core.redaction import escape_unprintable, mask_values, scrub
from agentd.gateway.admin.check import (
    SECONDS,
    CheckReport,
    CheckStep,
    CheckStepName,
    PaidRequest,
    build_smallest_request,
)
from agentd.gateway.channels.masking import list_sent_secrets
from agentd.gateway.channels.model import Channel
from agentd.llm.conversation import SupplierError, UsageUpdated
from agentd.llm.dialects.dialect import DIALECTS, join_url
from agentd.llm.dialects.openai_chat.strict_suppliers import adapt_to_supplier
from agentd.llm.dialects.supplier_errors import parse_error_response
from agentd.llm.price import NO_USAGE
from agentd.llm.upstream.client import HttpUpstream
from agentd.llm.upstream.dial import resolve_host
from agentd.llm.upstream.models_list import fetch_models
from agentd.llm.upstream.protocol import Timeouts, UpstreamRequest, merge_headers
from agentd.llm.upstream.request import Origin, parse_origin

Reach: TypeAlias = Callable[[Channel, str], Awaitable[tuple[HttpUpstream, str]]]
"""A function for a channel's client and the key in one of its fields.

Raises ``ConfigError`` or ``Unavailable``."""

_MAX_DETAIL_CHARS = 500
_MAX_REPLY_BYTES = 1024 * 1024
_TIMEOUTS = Timeouts(connect=SECONDS, head=SECONDS, idle=SECONDS, total=SECONDS)


class _StepFailedError(Exception):
    """A step failed, and is noted: there is no further one."""


async def run_checks(
    reach: Reach,
    channel: Channel,
    paid: PaidRequest | None = None,
    model: str = "",
    on_step: Callable[[CheckStep], None] = lambda step: None,
) -> CheckReport:
    """Run the steps within ``check.SECONDS``; never raises because of the supplier's behaviour.

    ``model`` is searched in the supplier's list; the ``paid`` request is the last step.
    ``on_step`` is called after each step.
    """
    run = _CheckRun(channel, on_step)
    try:
        async with asyncio.timeout(SECONDS):
            await run.run(reach, paid, model)
    except TimeoutError:
        run.add_step("failed", f"it takes longer than {SECONDS:g} s")
    except _StepFailedError:
        pass
    return CheckReport(tuple(run.steps), run.usage, run.status)


class _CheckRun:
    """A run of a check."""

    def __init__(self, channel: Channel, on_step: Callable[[CheckStep], None]) -> None:
        self.steps: list[CheckStep] = []
        self._on_step = on_step
        self.usage = NO_USAGE
        self.status = 0
        self._channel = channel
        self._key = ""
        self._name: CheckStepName = "secret"
        self._field = ""
        self._began = time.perf_counter()

    async def run(self, reach: Reach, paid: PaidRequest | None, model: str) -> None:
        """Run the steps. Raises ``_StepFailedError``, and ``TimeoutError`` from outside."""
        first, *others = self._channel.key_fields
        with self._step("secret"):
            upstream, key = await reach(self._channel, first)
            self._key = key
        await self._connect(upstream)
        with self._step("models") as found:
            found.append(await self._list_models(upstream, model))
        for field in others:
            with self._step("models", field) as found:
                upstream, self._key = await reach(self._channel, field)
                found.append(await self._list_models(upstream, model))
        self._key = key
        if paid:
            with self._step("request"):
                await self._send_request(upstream, paid)

    def add_step(self, state: Literal["passed", "failed", "skipped"], detail: str = "") -> None:
        """Add the result of the current step."""
        ms = 0.0 if state == "skipped" else (time.perf_counter() - self._began) * 1000
        secrets = list_sent_secrets(self._channel, self._key)
        shown = mask_values(detail, secrets, may_be_cut=True)
        shown = f"{self._field}: {shown}" if self._field else shown
        self.steps.append(
            CheckStep(
                self._name,
                state,
                round(ms, 3),
                escape_unprintable(scrub(shown))[:_MAX_DETAIL_CHARS],
            )
        )
        self._on_step(self.steps[-1])

    async def _connect(self, upstream: HttpUpstream) -> None:
        channel = self._channel
        with self._step("name") as found:
            to = parse_origin(channel.url)
            if channel.transport.kind == "direct":
                await _resolve(to, local=channel.local)
            else:
                found.append("by the channel's proxy or VPN")
        with self._step("connect"):
            connection = await upstream.open_tcp(channel.url, _TIMEOUTS)
        if to.scheme == "http":
            connection.close()
            self._name = "tls"
            self.add_step("skipped", "the address begins with http")
            return
        with self._step("tls"):
            await upstream.open_tls(channel.url, connection, _TIMEOUTS)

    async def _list_models(self, upstream: HttpUpstream, model: str) -> str:
        """List the models; return the detail of the step."""
        channel = self._channel
        try:
            listed = await fetch_models(
                upstream, channel.dialects[0], channel.url, self._key, channel.headers
            )
        except NotFound:
            await self._probe(upstream, model)
            raise
        if model and listed.all and listed.names and model not in listed.names:
            return f"{model} is not among the {len(listed.names)} models that it lists"
        return f"{len(listed.names)} models"

    async def _probe(self, upstream: HttpUpstream, model: str) -> None:
        """Raise ``Unavailable`` if nothing is where requests go, or the key is not accepted.

        A supplier without a list of models and a wrong address both answer 404. A request that
        says nothing costs nothing: where there is something, it is refused for that.
        """
        channel = self._channel
        dialect = DIALECTS[channel.dialects[0]]
        to = join_url(channel.url, dialect.get_path(model or "model", stream=False))
        headers = merge_headers(dialect.build_headers(self._key), channel.headers)
        async with upstream.send(UpstreamRequest("POST", to, headers, b"{}", _TIMEOUTS)) as answer:
            await answer.read(_MAX_REPLY_BYTES)
        if answer.status in (401, 403):
            raise Unavailable(f"it does not accept its key (HTTP {answer.status})")
        if answer.status in (404, 405, 501) or 300 <= answer.status < 400:
            raise Unavailable(
                f"nothing is where requests would go ({urlsplit(to).path}: HTTP {answer.status}):"
                " is the address right?"
            )

    async def _send_request(self, upstream: HttpUpstream, paid: PaidRequest) -> None:
        """Make the one request that costs something."""
        channel = self._channel
        dialect = DIALECTS[channel.dialects[0]]
        body = dialect.encode_request(
            build_smallest_request(channel), paid.supplier_model, stream=False
        )
        request = UpstreamRequest(
            "POST",
            join_url(channel.url, dialect.get_path(paid.supplier_model, stream=False)),
            merge_headers(dialect.build_headers(self._key), channel.headers),
            adapt_to_supplier(body, channel.dialects[0], channel.url),
            _TIMEOUTS,
        )
        async with upstream.send(request) as answer:
            body = await answer.read(_MAX_REPLY_BYTES)
            self.status = answer.status
            if answer.status != 200:
                error = parse_error_response(answer.status, answer.headers, body)
                raise Unavailable(f"HTTP {answer.status}: {error.message}")
        events = dialect.parse_response(body)
        for event in events:
            if isinstance(event, UsageUpdated):
                self.usage = event.usage
        if events and isinstance(events[-1], SupplierError):
            raise Unavailable(events[-1].message)

    @contextmanager
    def _step(self, name: CheckStepName, field: str = "") -> Iterator[list[str]]:
        """Run one step; what is appended to the list is its detail when it passes.

        ``field`` is that of the key which is tried, where the channel has several.
        """
        self._name, self._field, self._began = name, field, time.perf_counter()
        found: list[str] = []
        try:
            yield found
        except NotFound as error:
            self.add_step("skipped", error.message)
        except AgentdError as error:
            self.add_step("failed", error.message)
            raise _StepFailedError from error
        else:
            self.add_step("passed", "; ".join(found))


async def _resolve(to: Origin, *, local: bool) -> None:
    try:
        await resolve_host(to.host, to.port, local=local)
    except OSError as error:
        message = f"The name {to.host} cannot be resolved: {error.strerror}"
        raise SupplierUnreachable(message, "name", str(to)) from error
