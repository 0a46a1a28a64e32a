"""The quota of an access key, for callers that use it."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from agentd.core.clock import Timestamp
from agentd.core.errors import Unauthorized
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.limits.events import LimitScope
from agentd.gateway.limits.meters import KeyMeters, LimitsStatus
from agentd.gateway.limits.model_spend import ModelSpendCounter
from agentd.gateway.limits.spend import LimitStatus, Used
from agentd.gateway.relay.error_bodies import DialectErrorRenderer
from agentd.http.access import RouteGroup
from agentd.http.request import Request, Response
from agentd.http.routing import Route

LimitUnit: TypeAlias = Literal["usd", "requests", "tokens"]

_UNITS: dict[str, LimitUnit] = {
    "requests_per_minute": "requests",
    "tokens_per_minute": "tokens",
    "parallel": "requests",
}
"""By the field of ``KeyLimits``; all others are in USD."""


class QuotaLimitView(Struct, frozen=True, rename="camel"):
    """A limit of the key, by the numbers that enforce it."""

    name: str
    """The limit: ``total``, ``day``, ``week``, ``month``, ``requestsPerMinute``,
    ``tokensPerMinute`` or ``parallel``."""
    unit: LimitUnit
    """The unit of the following amounts."""
    limit: Decimal
    """The allowed amount."""
    used: Decimal
    """The used amount, without that of running requests."""
    reserved: Decimal
    """The most that running requests can use."""
    remaining: Decimal
    """The amount that is left: a request that could use more is refused."""
    resets: Timestamp | None
    """When ``used`` is reset to 0; null: never."""
    warn: Decimal | None
    """The used amount from which on it warns, without refusing anything; null: none."""


class QuotaSpentView(Struct, frozen=True):
    """The amounts in USD that the key has spent, in total and in the current windows."""

    total: Decimal
    """Since the key was created."""
    day: Decimal
    """In the current day."""
    week: Decimal
    """In the current week, from Monday."""
    month: Decimal
    """In the current month."""


class SharedSpentView(Struct, frozen=True):
    """The amounts in USD that were spent on some models, or by keys together."""

    total: Decimal | None
    """In all; null: not counted, as none of the key's limits on models is in total."""
    day: Decimal
    """In the current day."""
    week: Decimal
    """In the current week, from Monday."""
    month: Decimal
    """In the current month."""


class SharedQuotaView(Struct, frozen=True, rename="camel"):
    """Limits on some models of the key, or that it shares with other keys."""

    scope: LimitScope
    """``model``: on some models; ``owner``, ``tag``: shared by the keys that have it."""
    name: str
    """The model's name or a pattern of names, the owner or the tag."""
    spent: SharedSpentView
    """The spending that counts towards these limits."""
    limits: tuple[QuotaLimitView, ...]
    """The limits that are set; of several, all hold."""


class QuotaView(Struct, frozen=True):
    """The limits of the access key that the request was made with, and its spend."""

    name: str
    """Name of the key."""
    expires: Timestamp | None
    """When the key expires; null: never."""
    zone: str
    """The time zone of days, weeks and months."""
    spent: QuotaSpentView
    """The spend, also where there is no limit."""
    limits: tuple[QuotaLimitView, ...]
    """The limits that are set; empty: unlimited."""
    further: tuple[SharedQuotaView, ...]
    """Limits on some models of the key, and those that it shares with other keys."""


class ValidKeys(Protocol):
    """The valid access keys (``gateway.keys.store``)."""

    def find(self, key_id: str) -> AccessKey | None:
        """Return the key with this id if it is enabled and not expired."""
        ...


class QuotaEndpoints:
    """The endpoint ``/v1/quota``."""

    def __init__(self, keys: ValidKeys, meters: KeyMeters, model_spend: ModelSpendCounter) -> None:
        self._keys = keys
        self._meters = meters
        self._model_spend = model_spend

    async def get_quota(self, call: Request) -> Response:
        """Return the quota of the caller's own key."""
        key = self._keys.find(call.caller.access_key_id)
        if key is None:  # it was valid when the request's head arrived
            raise Unauthorized("Access key revoked or expired")
        await self._model_spend.count_key(key)
        meters = self._meters
        own = meters.describe_key(key)
        return Response(
            QuotaView(
                name=key.name,
                expires=key.expires,
                zone=str(meters.zone),
                spent=_view_spent(own.used),
                limits=_view_limits(own),
                further=tuple(
                    SharedQuotaView(
                        status.holder.scope,
                        status.holder.model or status.holder.name,
                        _view_shared_spent(status),
                        _view_limits(status),
                    )
                    for status in (*meters.describe_models(key), *meters.describe_shared(key))
                ),
            )
        )


def _view_spent(used: Used) -> QuotaSpentView:
    return QuotaSpentView(used.total, used.day, used.week, used.month)


def _view_shared_spent(status: LimitsStatus) -> SharedSpentView:
    used = status.used
    total = used.total if status.has_total else None
    return SharedSpentView(total, used.day, used.week, used.month)


def _view_limits(status: LimitsStatus) -> tuple[QuotaLimitView, ...]:
    soft: dict[str, Decimal] = {one.name: one.amount for one in status.soft}
    return tuple(_view_limit(limit, soft) for limit in status.limits)


def _view_limit(status: LimitStatus, soft: Mapping[str, Decimal]) -> QuotaLimitView:
    first, *rest = status.name.split("_")
    limit, used, reserved = map(Decimal, (status.limit, status.used, status.reserved))
    return QuotaLimitView(
        name=first + "".join(map(str.title, rest)),
        unit=_UNITS.get(status.name, "usd"),
        limit=limit,
        used=used,
        reserved=reserved,
        remaining=max(limit - used - reserved, Decimal(0)),
        resets=status.resets,
        warn=soft.get(status.name),
    )


def routes(endpoints: QuotaEndpoints) -> tuple[Route, ...]:
    """Return the route of the quota."""
    return (
        Route(
            "GET",
            "/v1/quota",
            RouteGroup.MODELS,
            endpoints.get_quota,
            "Get the limits of the access key that is sent, with what is used and when they reset.",
            operation_id="get_quota",
            response_type=QuotaView,
            error_renderer=DialectErrorRenderer("openai-chat", ("unavailable",)),
        ),
    )
