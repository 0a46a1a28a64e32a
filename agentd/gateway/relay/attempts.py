"""Asking one channel: its reply on the way to the caller, or the reason for the failure."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct, structs

from agentd.core.errors import (
    AgentdError,
    BadRequest,
    ConfigError,
    SupplierUnreachable,
    TooLarge,
    Unavailable,
)
from agentd.gateway.channels.failures import Failure
from agentd.gateway.channels.masking import list_sent_secrets
from agentd.gateway.channels.routing import Candidate
from agentd.gateway.ledger.record import Outcome
from agentd.gateway.relay.accounting import RequestAccounting
from agentd.gateway.relay.error_masking import is_json, mask_in_body
from agentd.gateway.relay.errors import SEE_THE_LOG, make_no_response_error
from agentd.gateway.relay.recorder import RequestRecorder
from agentd.gateway.relay.request import STATUS_CLIENT_LEFT, GatewayResponse, build_id_headers
from agentd.gateway.relay.running_work import RunningWork
from agentd.gateway.relay.services import RelayServices
from agentd.gateway.relay.stream import RelayedStream
from agentd.gateway.relay.upstream_call import UpstreamCall, WholeReply
from agentd.gateway.secrets.restoring import create_restorer, restore_body
from agentd.llm.conversation import SupplierError
from agentd.llm.dialects.supplier_errors import parse_error_response
from agentd.llm.upstream.protocol import BODY_LIMIT, UpstreamResponse, merge_headers

log = logging.getLogger(__name__)

ERROR_LIMIT = 1024 * 1024
"""The most bytes that are read of a supplier's error response."""

_EVENTS = "text/event-stream"

_FORWARDED = ("anthropic-", "openai-", "x-ratelimit-", "retry-after", "request-id")
"""Prefixes of response headers that are forwarded to a caller of the same dialect."""
_ACCOUNT = frozenset(("anthropic-organization-id", "openai-organization", "openai-project"))
"""Response headers that name the account at the supplier, which is not the caller's."""


class FailedAttempt(Struct, frozen=True):
    """A failed call; ``raw`` is the supplier's own JSON error, safe to forward."""

    kind: Failure
    error: SupplierError
    raw: GatewayResponse | None = None
    detail: str = ""
    """The detail for the operator; it may contain the supplier's address, so not for callers."""


AttemptResult: TypeAlias = GatewayResponse | FailedAttempt


class UpstreamAttempts:
    """Calls the suppliers of channels."""

    def __init__(
        self,
        services: RelayServices,
        recorder: RequestRecorder,
        work: RunningWork,
    ) -> None:
        self._services = services
        self._recorder = recorder
        self._work = work

    async def ask_and_drain(
        self, call: UpstreamCall, accounting: RequestAccounting, candidate: Candidate
    ) -> AttemptResult:
        """Do as ``ask``, but read the reply even if the caller disconnects."""
        asking = asyncio.get_running_loop().create_task(self.ask(call, accounting, candidate))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            accounting.draining = self._services.is_still_valid(accounting.key)
            if not accounting.draining:
                asking.cancel()
            self._work.run(self._drain(asking, call, accounting), waits=accounting.key.id)
            raise

    async def _drain(
        self,
        asking: "asyncio.Task[AttemptResult]",
        call: UpstreamCall,
        accounting: RequestAccounting,
    ) -> None:
        try:
            await asyncio.wait([asking])
        finally:
            asking.cancel()
            has_ended = asking.done() and not asking.cancelled()
            error = asking.exception() if has_ended else None
            if error and not isinstance(error, AgentdError):  # nobody else would hear of a bug
                why = "request %s failed after its caller had left"
                log.error(why, call.request.id, exc_info=error)
            outcome = asking.result() if has_ended and not error else None
            if isinstance(outcome, GatewayResponse) and outcome.stream:
                await outcome.stream.aclose()
            else:
                if isinstance(outcome, FailedAttempt):
                    accounting.on_failed_attempt(outcome.kind)
                await self._recorder.record(accounting, "left", STATUS_CLIENT_LEFT, "")

    async def ask(
        self, call: UpstreamCall, accounting: RequestAccounting, candidate: Candidate
    ) -> AttemptResult:
        """Ask one channel and return its reply, complete or streaming, or the reason for a failure.

        Raises ``BadRequest`` for what the channel's dialect cannot express, ``Unavailable`` when a
        complete reply cannot be recorded, and ``GatewayError`` when the pending call cannot be
        marked and such calls are refused.
        """
        accounting.on_attempt(candidate)
        try:
            upstream, secret = await self._services.suppliers.reach(
                candidate.channel, candidate.key
            )
        except (BadRequest, ConfigError, Unavailable) as error:
            name = candidate.channel.name
            log.warning("channel %s: request %s: %s", name, call.request.id, error.message)
            why = f"Channel {name} is not ready. {SEE_THE_LOG}"
            return FailedAttempt(
                "authentication", SupplierError("server", why), detail=error.message
            )
        request = call.build_request(candidate, secret, self._services.settings().idle_timeout)
        if accounting.trace_headers:
            headers = merge_headers(request.headers, accounting.trace_headers)
            request = structs.replace(request, headers=headers)
        accounting.charge_given_up_call()
        await self._recorder.mark_pending(accounting)
        accounting.supplier_called = True
        secrets = list_sent_secrets(candidate.channel, secret)
        try:
            response = await upstream.open(request)
            accounting.mark_stage("head")
            if response.status != 200:
                return await _read_refusal(response, call, accounting, candidate, secrets)
            if call.summary.stream and _get_content_type(response).startswith(_EVENTS):
                return await self._start_stream(response, call, accounting, candidate, secrets)
            whole = call.read_whole(candidate, await _read_body(response))
        except SupplierUnreachable as error:
            accounting.abandoned = error.gave_up
            accounting.supplier_called = error.stage == "body" or error.gave_up
            failure = make_no_response_error(call.request.id, candidate.channel.name, error)
            return FailedAttempt("unreachable", failure, detail=error.message)
        except TooLarge as error:
            failure = make_no_response_error(call.request.id, candidate.channel.name, error)
            return FailedAttempt("unusable_reply", failure, detail=error.message)
        return (
            FailedAttempt(whole.kind, whole.mask(secrets))
            if isinstance(whole, SupplierError)
            else await self._finish_whole(whole, response, call, accounting, candidate)
        )

    async def _start_stream(
        self,
        response: UpstreamResponse,
        call: UpstreamCall,
        accounting: RequestAccounting,
        candidate: Candidate,
        secrets: Sequence[str],
    ) -> AttemptResult:
        async def close(outcome: Outcome, error: str) -> None:
            self._work.remove_stream(stream)
            if outcome == "ok":
                self._services.router.record_success(candidate.channel)
            elif outcome == "broken":
                self._services.router.record_failure(
                    candidate.channel, "broken", None, candidate.supplier_model
                )
            if kept is not None:
                self._keep_bodies(call, b"".join(kept))
            await self._recorder.record(accounting, outcome, 200, error)

        kept: list[bytes] | None = [] if call.request.key.keep_bodies else None
        stream = RelayedStream(
            response, call, candidate, secrets, accounting, close, self._work, kept
        )
        if error := await stream.start():
            return FailedAttempt(error.kind, error)
        self._work.add_stream(stream, accounting.key.id)
        return GatewayResponse(
            200, _build_response_headers(accounting, candidate, response, call), stream=stream
        )

    def _keep_bodies(self, call: UpstreamCall, answer: bytes) -> None:
        request, services = call.request, self._services
        services.bodies.store(
            request.id,
            services.clock.now(),
            call.body,
            answer,
            lambda body: services.mask_for_storage(body, call.dialect, request.key.id),
        )

    async def _finish_whole(
        self,
        whole: WholeReply,
        response: UpstreamResponse,
        call: UpstreamCall,
        accounting: RequestAccounting,
        candidate: Candidate,
    ) -> GatewayResponse:
        self._services.router.record_success(candidate.channel)
        accounting.set_usage(whole.usage, final=True)
        body = whole.body
        if call.request.key.keep_bodies:
            self._keep_bodies(call, body)
        if call.secrets and call.summary.stream:
            stream = create_restorer(call.dialect, call.secrets)
            body = stream.feed(body) + stream.close()
        elif call.secrets:
            body = restore_body(call.dialect, call.secrets, body)
        accounting.on_body(body)
        accounting.mark_stage("first")
        headers = _build_response_headers(accounting, candidate, response, call)
        await self._recorder.record(accounting, "ok", 200, "")
        return GatewayResponse(200, headers, body)


async def _read_refusal(
    response: UpstreamResponse,
    call: UpstreamCall,
    accounting: RequestAccounting,
    candidate: Candidate,
    secrets: Sequence[str],
) -> FailedAttempt:
    """Return the failure of a response with another status than 200, without our own secrets."""
    try:
        body = await _read_body(response, ERROR_LIMIT)
    except TooLarge:
        body = b""
    body = mask_in_body(body, secrets)
    error = parse_error_response(response.status, response.headers, body).mask(secrets)
    ours = error.kind in ("authentication", "permission", "quota")
    if ours or not (candidate.is_passthrough and response.status >= 400 and is_json(body)):
        return FailedAttempt(error.kind, error)
    headers = _build_response_headers(accounting, candidate, response, call) | {
        "Content-Type": "application/json"
    }
    return FailedAttempt(error.kind, error, GatewayResponse(response.status, headers, body))


async def _read_body(response: UpstreamResponse, limit: int = BODY_LIMIT) -> bytes:
    try:
        return await response.read(limit)
    finally:
        response.close()


def _build_response_headers(
    accounting: RequestAccounting,
    candidate: Candidate,
    response: UpstreamResponse,
    call: UpstreamCall,
) -> dict[str, str]:
    ours = {
        "x-agentd-channel": candidate.channel.name,
        **build_id_headers(call.dialect, call.request.id),
        "Server-Timing": accounting.format_server_timing(),
    }
    if candidate.model != call.summary.model:
        ours["x-agentd-fallback"] = candidate.model
    if candidate.is_passthrough:
        ours |= _select_forwarded_headers(response.headers)
    elif dropped := call.list_dropped_fields(candidate):
        ours["x-agentd-dropped"] = ", ".join(dropped)
    return {"Content-Type": _EVENTS if call.summary.stream else "application/json", **ours}


def _get_content_type(response: UpstreamResponse) -> str:
    return response.headers.get("content-type", "application/json")


def _select_forwarded_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in headers.items()
        if name.startswith(_FORWARDED) and name not in _ACCOUNT
    }
