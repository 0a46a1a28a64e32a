"""The path of one gateway request: mask, reserve, call a supplier, relay the reply, record.

The caller gets no byte while another channel may still be tried. Each request is settled and
recorded exactly once, before the end of its reply is sent, however it ends.
"""

import asyncio
from functools import partial

from msgspec import structs

from agentd.core.errors import AgentdError
from agentd.gateway.channels.routing import find_model
from agentd.gateway.ledger.record import Outcome
from agentd.gateway.limits.spend import OverLimit
from agentd.gateway.relay.accounting import RequestAccounting
from agentd.gateway.relay.attempts import UpstreamAttempts
from agentd.gateway.relay.errors import from_error
from agentd.gateway.relay.item_cache import ItemCache
from agentd.gateway.relay.masking_threads import MaskingThreads
from agentd.gateway.relay.model_attempts import ModelAttempts, ReadyRequest
from agentd.gateway.relay.recorder import RequestRecorder
from agentd.gateway.relay.request import (
    STATUS_CLIENT_LEFT,
    STATUS_KEY_REVOKED,
    GatewayError,
    GatewayRequest,
    GatewayResponse,
    build_id_headers,
)
from agentd.gateway.relay.running_work import RunningWork
from agentd.gateway.relay.services import RelayServices
from agentd.gateway.relay.traced_accounting import TracedAccounting
from agentd.gateway.secrets.masker import MaskedRequest
from agentd.llm.dialects import error_bodies, openai_completions, token_estimate
from agentd.llm.dialects.caller import RequestSummary
from agentd.llm.dialects.callers import CALLERS
from agentd.llm.dialects.embeddings import gemini as gemini_embeddings
from agentd.llm.dialects.embeddings import openai as openai_embeddings
from agentd.llm.dialects.gemini import request as gemini_request
from agentd.llm.dialects.openai_responses.item_references import resolve_references


class Relay:
    """Relays authenticated requests to suppliers."""

    def __init__(self, services: RelayServices) -> None:
        self._services = services
        self._masking_threads = MaskingThreads()
        self._item_cache = ItemCache(services.clock.monotonic)
        self._work = RunningWork()
        self._recorder = RequestRecorder(services)
        attempts = UpstreamAttempts(services, self._recorder, self._work)
        self._models = ModelAttempts(services, self._recorder, attempts, self._item_cache)

    async def answer(self, request: GatewayRequest) -> GatewayResponse:
        """Relay a request and return the reply. Raises ``GatewayError``.

        Cancelling this means that the client disconnected or that its key was revoked.
        """
        accounting = self._account_for(request)
        try:
            return await self._handle(request, accounting)
        except AgentdError as error:
            if isinstance(error, OverLimit):
                self._services.service_log.on_limit_reached(request.key, error)
                self._services.announce_limit(error)
            refusal = from_error(error)
            status, _ = error_bodies.render_error(
                request.endpoint.dialect, refusal.kind, refusal.message, request.id
            )
            outcome: Outcome = "refused" if refusal.by_gateway else "failed"
            await self._recorder.record(accounting, outcome, status, refusal.code)
            raise refusal from error
        except asyncio.CancelledError:
            if not accounting.draining:
                valid = self._services.is_still_valid(request.key)
                status = STATUS_CLIENT_LEFT if valid else STATUS_KEY_REVOKED
                self._work.run(self._recorder.record(accounting, "left", status, ""))
            raise
        except Exception:  # a task boundary: a request that fails by a bug is recorded, too
            await self._recorder.record(accounting, "failed", 500, "server")
            raise

    @property
    def is_traced(self) -> bool:
        """True if spans of requests are sent."""
        return self._services.tracing.sender is not None

    def cancel_revoked(self, revoked: frozenset[str]) -> None:
        """End the streams and the draining calls of revoked access keys.

        Requests that still wait for the start of a reply are cancelled by the caller of ``answer``.
        """
        self._item_cache.forget_keys(revoked)
        self._work.cancel_revoked(revoked)

    async def close(self) -> None:
        """Cancel what waits for suppliers and return once every request is recorded."""
        await self._work.close()
        self._masking_threads.close()

    def _account_for(self, request: GatewayRequest) -> RequestAccounting:
        clock, tracer = self._services.clock, self._services.tracing.sender
        if tracer is None:
            return RequestAccounting(request, clock)
        return TracedAccounting(request, clock, tracer)

    async def _handle(
        self, request: GatewayRequest, accounting: RequestAccounting
    ) -> GatewayResponse:
        services, key = self._services, request.key
        request = _resolve_items(request, self._item_cache)
        accounting.summary = _summarize(request)
        if problem := services.licence_problem():
            raise GatewayError("no_licence", problem)
        if unread := services.find_unread_file(key):
            raise GatewayError("server", f"{unread} cannot be read, so no request is relayed.")
        await self._recorder.require_ledger()
        if key.model_limits:
            await services.count_models(key)
        model = find_model(services.models(), accounting.summary.model, key)
        candidates = self._models.find_candidates(request, model)
        if not candidates:
            # No channel of the model can count tokens in the caller's dialect.
            body = _render_estimated_count(request)
            await self._recorder.record(accounting, "ok", 200, "")
            headers = build_id_headers(request.endpoint.dialect, request.id)
            return GatewayResponse(200, headers, body)
        masked = await self._mask(request)
        accounting.masked_counts = masked.found
        if masked.blocked:
            services.service_log.on_secret_blocked(key, masked.blocked)
            message = f'The request contains a secret (rule "{masked.blocked}").'
            raise GatewayError("blocked", message)
        ready = ReadyRequest(request, accounting, masked)
        return await self._models.answer(ready, model, candidates)

    async def _mask(self, request: GatewayRequest) -> MaskedRequest:
        masker = self._services.masker()
        if masker is None:
            return MaskedRequest(request.body)
        await self._masking_threads.prepare(masker)
        for name, value in request.headers.items():
            masker.require_no_secret(f"The header {name}", value)
        masked = await self._masking_threads.mask(masker, request)
        if masked.learnt:
            await self._services.remember_secrets(masked.learnt)
        return masked


def _resolve_items(request: GatewayRequest, items: ItemCache) -> GatewayRequest:
    """Return the request with referenced items inlined, so that they are counted and masked.

    Raises ``BadRequest`` for a malformed request.
    """
    if request.endpoint.dialect != "openai-responses":
        return request
    body = resolve_references(request.body, partial(items.find, request.key.id))
    return request if body is request.body else structs.replace(request, body=body)


def _summarize(request: GatewayRequest) -> RequestSummary:
    """Return the model, whether it streams, and how much is asked for. Raises ``BadRequest``."""
    endpoint = request.endpoint
    if endpoint.kind == "embeddings" and endpoint.dialect == "gemini":
        return gemini_embeddings.peek(request.body, request.model, is_batch=request.is_batch)
    if endpoint.kind == "embeddings":
        return openai_embeddings.peek(request.body)
    if endpoint.kind == "completion":
        return openai_completions.peek(request.body)
    if endpoint.dialect == "gemini":
        return gemini_request.peek(request.body, request.model, request.stream)
    return CALLERS[endpoint.dialect].peek(request.body)


def _render_estimated_count(request: GatewayRequest) -> bytes:
    """Return the response to a token count that no supplier makes: an upper bound."""
    count = token_estimate.estimate_tokens(request.body)
    if request.endpoint.dialect == "gemini":
        return token_estimate.render_gemini_count(count)
    return token_estimate.render_anthropic_count(count)
