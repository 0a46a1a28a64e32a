"""Tries the routes of a model, and then its fallbacks, until one of them gives a reply."""

import logging
from collections.abc import Collection, Mapping
from decimal import Decimal
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from agentd.core.clock import Clock, parse_iso
from agentd.core.errors import AgentdError, BadRequest, Unavailable
from agentd.gateway.channels.failures import FALLBACK_FAILURES, KEY_FAILURES, Failure
from agentd.gateway.channels.fallbacks import list_next
from agentd.gateway.channels.routing import Candidate
from agentd.gateway.limits.spend import OverLimit
from agentd.gateway.pricing.bounds import (
    Pricing,
    choose_output_limit,
    compute_max_output_tokens,
    compute_upper_bound,
    settle_pricing,
)
from agentd.gateway.relay.accounting import ApplicableLimits, RequestAccounting, ReservedCall
from agentd.gateway.relay.attempts import FailedAttempt, UpstreamAttempts
from agentd.gateway.relay.errors import from_supplier
from agentd.gateway.relay.item_cache import ItemCache
from agentd.gateway.relay.recorder import RequestRecorder
from agentd.gateway.relay.request import GatewayRequest, GatewayResponse
from agentd.gateway.relay.services import RelayServices
from agentd.gateway.relay.upstream_call import UpstreamCall
from agentd.gateway.secrets.masker import MaskedRequest
from agentd.gateway.settings.model import GatewaySettings
from agentd.llm.dialects import token_estimate
from agentd.llm.dialects.embeddings.translation import EMBEDDING_DIALECTS
from agentd.llm.endpoint import ALL_DIALECTS, ChannelDialect
from agentd.llm.price import add_amounts
from agentd.models.gateway_model import GatewayModel

log = logging.getLogger(__name__)

_OTHER_DIALECTS: Mapping[str, Collection[ChannelDialect]] = {
    "reply": ALL_DIALECTS,
    "embeddings": EMBEDDING_DIALECTS.keys(),
    "completion": (),
    "count": (),
}
"""The dialects into which requests are translated, by ``GatewayEndpoint.kind``."""

_Failure: TypeAlias = FailedAttempt | AgentdError
"""A model brought no reply: its last failed call, or the reason why none could be made."""


class ReadyRequest(Struct, frozen=True):
    """A request whose secrets are masked, and what the ledger records of it."""

    request: GatewayRequest
    accounting: RequestAccounting
    masked: MaskedRequest


class ModelAttempts:
    """Tries models for requests; one for all of them."""

    def __init__(
        self,
        services: RelayServices,
        recorder: RequestRecorder,
        attempts: UpstreamAttempts,
        item_cache: ItemCache,
    ) -> None:
        self._services = services
        self._recorder = recorder
        self._attempts = attempts
        self._item_cache = item_cache

    def find_candidates(
        self, request: GatewayRequest, model: GatewayModel
    ) -> list[Candidate] | Unavailable:
        """Return the candidates in the order in which to try them, or why fallbacks are needed.

        An empty list: no channel can count tokens in the caller's dialect. Raises the reason why
        there are no candidates if fallbacks are no remedy, or the model has none.
        """
        router, dialect = self._services.router, request.endpoint.dialect
        channels, others = self._services.channels(), _OTHER_DIALECTS[request.endpoint.kind]
        candidates = router.find_candidates(model, channels, request.key, dialect, others=others)
        if candidates or request.endpoint.kind == "count":
            return candidates[: self._services.settings().tries]
        reason = router.explain_no_candidates(model, channels, request.key, dialect, others=others)
        if model.fallbacks and isinstance(reason, Unavailable):
            return reason
        raise reason

    async def answer(
        self, ready: ReadyRequest, model: GatewayModel, candidates: list[Candidate] | Unavailable
    ) -> GatewayResponse:
        """Return the first reply, or the last supplier's own error body.

        Raises ``AgentdError`` when there is neither, or when the request cannot be paid.
        """
        result: GatewayResponse | _Failure
        if isinstance(candidates, Unavailable):
            result = candidates
        else:
            call = self._open_call(ready, model, candidates)
            result = await self._try_candidates(call, ready.accounting, candidates)
        if isinstance(result, GatewayResponse):
            return result
        if model.all_fallbacks and ready.request.endpoint.kind != "count":  # models count otherwise
            result = await self._try_fallbacks(ready, model, result)
            if isinstance(result, GatewayResponse):
                return result
        return await self._finish_failed(ready.accounting, result)

    async def _try_fallbacks(
        self, ready: ReadyRequest, model: GatewayModel, failure: _Failure
    ) -> GatewayResponse | _Failure:
        """Return the first reply of a model's fallbacks, or else the last failure.

        A model that cannot be used now (its channels are in cooldown, its price is not known, the
        key has not so much left) failed without a call. One that is disabled, or that the key may
        not call, is passed over.
        """
        models, tried, waiting = self._services.models(), [model.name], list[str]()
        failed, kind = model, _get_kind(failure)
        while waiting := list_next(failed, kind, waiting, tried):
            name = waiting.pop(0)
            tried.append(name)
            fallback = models.get(name)
            if not (fallback and fallback.enabled and ready.request.key.may_call(name)):
                continue
            try:
                candidates = self.find_candidates(ready.request, fallback)
                if isinstance(candidates, Unavailable):
                    raise candidates
                call = self._open_call(ready, fallback, candidates)
            except AgentdError as error:
                log.info("request %s: no fallback to %s: %s", ready.request.id, name, error.message)
                failed, kind = fallback, "unreachable"
                continue
            result = await self._try_candidates(call, ready.accounting, candidates)
            if isinstance(result, GatewayResponse):
                return result
            failed, kind, failure = fallback, _get_kind(result), result
        return failure

    def _open_call(
        self, ready: ReadyRequest, model: GatewayModel, candidates: list[Candidate]
    ) -> UpstreamCall:
        """Reserve what a call of any candidate can cost. Raises ``Forbidden``, ``OverLimit``."""
        request, accounting = ready.request, ready.accounting
        limits = accounting.limits
        if limits is None:
            limits = self._services.limits(request.key, accounting.summary.model)
            accounting.limits = limits
        limit = choose_output_limit(
            accounting.summary.max_output, model.max_output, bounded=limits.bounds_spending
        )
        self._reserve(request, accounting, limits, model, candidates, limit)
        return UpstreamCall(
            request,
            accounting.summary,
            limit,
            ready.masked,
            self._item_cache,
            partial(_get_unix_seconds, self._services.clock),
        )

    def _reserve(
        self,
        request: GatewayRequest,
        accounting: RequestAccounting,
        limits: ApplicableLimits,
        model: GatewayModel,
        candidates: list[Candidate],
        limit: int,
    ) -> None:
        """Reserve the highest cost among the candidates, at ``limit`` tokens a reply."""
        summary, settings = accounting.summary, self._services.settings()
        input_tokens = accounting.input_tokens or _estimate_input_tokens(request)
        accounting.input_tokens = input_tokens
        if request.endpoint.kind == "count":  # counting tokens is free
            limits.reserve(Decimal(0), 0)
            return
        pricings = _price_candidates(model, candidates, settings, summary.service_tier)
        writes = request.endpoint.is_generation
        output_tokens = compute_max_output_tokens(limit, summary.replies) if writes else 0
        calls = {
            place: ReservedCall(
                pricing, output_tokens, compute_upper_bound(pricing, input_tokens, output_tokens)
            )
            for place, pricing in pricings.items()
        }
        upper = max(call.upper for call in calls.values())
        given_up = accounting.failed_tries.cost_if_another_follows
        tokens = given_up.tokens + input_tokens + output_tokens
        limits.reserve(add_amounts(given_up.cost, upper), tokens)
        accounting.reserved_calls |= calls

    async def _try_candidates(
        self, call: UpstreamCall, accounting: RequestAccounting, candidates: list[Candidate]
    ) -> GatewayResponse | _Failure:
        """Return the first reply that a candidate gives, or the last failure.

        ``BadRequest`` is one if no candidate's dialect can express the request. Raises
        ``GatewayError`` and ``Unavailable`` as ``UpstreamAttempts.ask``.
        """
        last: FailedAttempt | None = None
        inexpressible: BadRequest | None = None
        router = self._services.router
        given_up: tuple[str, str, str] | None = None
        for candidate in router.iter_attempts(candidates):
            if given_up and candidate.route_id == given_up:
                continue  # its other keys would meet the same
            try:
                _reserve_further_call(accounting, candidate)
            except OverLimit as error:
                name = candidate.channel.name
                log.info("request %s: no call of %s: %s", call.request.id, name, error.message)
                continue
            drains = candidate.channel.on_leave == "drain"
            ask = self._attempts.ask_and_drain if drains else self._attempts.ask
            try:
                result = await ask(call, accounting, candidate)
            except BadRequest as error:  # another channel may speak the caller's own dialect
                inexpressible = error
                continue
            if isinstance(result, GatewayResponse):
                return result
            last = result
            accounting.on_failed_attempt(last.kind)
            wait, model = last.error.retry_after, candidate.supplier_model
            router.record_failure(
                candidate.channel, last.kind, wait, model, last.detail, candidate.key
            )
            if candidate.channel.keys and last.kind not in KEY_FAILURES:
                given_up = candidate.route_id
            if last.kind not in FALLBACK_FAILURES:
                break
        failure = last or inexpressible
        assert failure
        return failure

    async def _finish_failed(
        self, accounting: RequestAccounting, failure: _Failure
    ) -> GatewayResponse:
        """Record a failed request and return the supplier's own error body; else raise it."""
        if isinstance(failure, AgentdError):
            raise failure
        if failure.raw is None:
            raise from_supplier(failure.error, failure.kind)
        accounting.bytes_sent = len(failure.raw.body)
        await self._recorder.record(accounting, "failed", failure.raw.status, failure.kind)
        return failure.raw


def _reserve_further_call(accounting: RequestAccounting, candidate: Candidate) -> None:
    """Reserve what a call can cost beside those that were given up. Raises ``OverLimit``."""
    given_up, limits = accounting.failed_tries.cost_if_another_follows, accounting.limits
    if limits and given_up.tokens:
        reserved = accounting.reserved_calls[candidate.route_id]
        tokens = given_up.tokens + accounting.input_tokens + reserved.output_tokens
        limits.reserve(add_amounts(given_up.cost, reserved.upper), tokens)


def _get_kind(failure: _Failure) -> Failure:
    """Return the kind of a failure, by which fallbacks are chosen."""
    return failure.kind if isinstance(failure, FailedAttempt) else "unreachable"


def _estimate_input_tokens(request: GatewayRequest) -> int:
    """Return the most tokens that a supplier can count of the request, before any does."""
    if request.endpoint.kind == "embeddings":
        return EMBEDDING_DIALECTS[request.endpoint.dialect].estimate_tokens(request.body)
    return token_estimate.estimate_tokens(request.body)


def _price_candidates(
    model: GatewayModel, candidates: list[Candidate], settings: GatewaySettings, tier: str
) -> dict[tuple[str, str, str], Pricing]:
    """Return the prices by which each candidate's call is counted. Raises ``Forbidden``."""
    return {
        candidate.route_id: settle_pricing(
            model.name,
            candidate.prices,
            settings.unknown_price,
            settings.assumed_prices,
            tier if candidate.is_passthrough else "",
        )
        for candidate in candidates
    }


def _get_unix_seconds(clock: Clock) -> int:
    """Return the seconds since 1970."""
    return int(parse_iso(clock.now()).timestamp())
