"""Limits in requests and responses: how much of each is used, and temporary raises."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

from msgspec import Meta, Struct

from agentd.core.clock import Timestamp
from agentd.gateway.admin.api import shapes
from agentd.gateway.keys.limits import KeyLimits, LimitRaise, require_higher
from agentd.gateway.limits.meters import LimitsStatus
from agentd.gateway.limits.spend import LimitStatus


class SpentView(Struct, frozen=True):
    """USD that were spent, in total and in the current windows."""

    total: Decimal
    """Spent in all."""
    day: Decimal
    """Spent in the current day."""
    week: Decimal
    """Spent in the current week."""
    month: Decimal
    """Spent in the current month."""
    zone: str
    """The time zone of these windows."""


class FurtherSpentView(Struct, frozen=True):
    """USD that were spent on some models, or by keys together."""

    total: Decimal | None
    """Spent in all; null: not counted, as none of the key's limits on models is in total."""
    day: Decimal
    """Spent in the current day."""
    week: Decimal
    """Spent in the current week."""
    month: Decimal
    """Spent in the current month."""
    zone: str
    """The time zone of these windows."""


class LimitStatusView(Struct, frozen=True):
    """A limit and its usage, by the numbers that enforce it."""

    name: str
    """The name as in ``limits``."""
    limit: Decimal
    """The allowed amount; while it is raised, the higher one."""
    used: Decimal
    """The used amount."""
    reserved: Decimal
    """Reserved by calls under way."""
    resets: Timestamp | None
    """When ``used`` is reset to 0; null: never."""


class SoftLimitView(Struct, frozen=True):
    """A soft limit in USD and its usage."""

    name: str
    """``total``, ``day``, ``week`` or ``month``."""
    amount: Decimal
    """The amount from which on it warns."""
    used: Decimal
    """The used amount."""
    passed: bool
    """True if it warns."""
    resets: Timestamp | None
    """When ``used`` is reset to 0; null: never."""


class FurtherLimitsView(Struct, frozen=True, rename="camel"):
    """Limits on some models of a key, or that it shares with other keys, and their usage."""

    scope: str
    """``model``, ``owner`` or ``tag``."""
    name: str
    """The model's name or a pattern of names, the owner or the tag."""
    budget: str
    """Name of the budget; empty for models."""
    spent: FurtherSpentView
    """USD, by the numbers that enforce limits."""
    limit_usage: tuple[LimitStatusView, ...]
    """Each limit and how much of it is used."""
    soft_usage: tuple[SoftLimitView, ...]
    """Each soft limit and how much of it is used."""


_NewLimits: Any = shapes.define_new(KeyLimits)


class RaiseRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Higher limits until a moment; the old ones then hold again by themselves."""

    until: Timestamp
    """When it ends, as ISO 8601."""
    limits: _NewLimits = _NewLimits()
    """The limits that are higher meanwhile."""


class KeyRaiseRequest(RaiseRequest, frozen=True, forbid_unknown_fields=True):
    """Higher limits of an access key until a moment."""

    models: Annotated[
        dict[str, _NewLimits],
        Meta(description="Higher limits on models, by the names in `modelLimits`."),
    ] = {}


def make_raise(
    request: RaiseRequest,
    limits: KeyLimits,
    models: Mapping[str, KeyLimits],
    by: str,
    now: Timestamp,
) -> LimitRaise:
    """Return a raise of these limits.

    ``BadRequest`` unless it ends in the future, and raises limits that are set, nothing else.
    """
    given = request.models if isinstance(request, KeyRaiseRequest) else {}
    raised = shapes.from_request(request, LimitRaise, models=given, by=by, at=now)
    require_higher(raised, limits, models, now, _to_camel)
    return raised


def make_spent_view(status: LimitsStatus, zone: str) -> SpentView:
    """Return the view of what was spent."""
    used = status.used
    return SpentView(used.total, used.day, used.week, used.month, zone)


def make_limit_views(status: LimitsStatus) -> tuple[LimitStatusView, ...]:
    """Return the views of limits."""
    return tuple(map(_make_limit_view, status.limits))


def make_soft_views(status: LimitsStatus) -> tuple[SoftLimitView, ...]:
    """Return the views of soft limits."""
    return tuple(
        SoftLimitView(one.name, one.amount, one.used, one.passed, one.resets) for one in status.soft
    )


def make_further_view(status: LimitsStatus, zone: str) -> FurtherLimitsView:
    """Return the view of limits on models, or that are shared."""
    holder, used = status.holder, status.used
    total = used.total if status.has_total else None
    return FurtherLimitsView(
        scope=holder.scope,
        name=holder.model or holder.name,
        budget=holder.budget,
        spent=FurtherSpentView(total, used.day, used.week, used.month, zone),
        limit_usage=make_limit_views(status),
        soft_usage=make_soft_views(status),
    )


def _make_limit_view(one: LimitStatus) -> LimitStatusView:
    limit, used, reserved = map(Decimal, (one.limit, one.used, one.reserved))
    return LimitStatusView(_to_camel(one.name), limit, used, reserved, one.resets)


def _to_camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))
