"""The limits in USD of all keys and budgets, and which soft ones are passed now, by the meters."""

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Protocol

from agentd.gateway.keys.limits import NO_SOFT_LIMITS
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.limits.budgets import Budget
from agentd.gateway.limits.events import ReachedLimit
from agentd.gateway.limits.meters import LimitsStatus
from agentd.gateway.limits.request_limits import describe_reached_limit

AT_ONCE = 200
"""Keys that are looked at before other requests may run."""


class SoftLimitMeters(Protocol):
    """What is spent (``gateway.limits.meters``)."""

    def describe_key(self, key: AccessKey) -> LimitsStatus:
        """Return what a key spent, and its own limits."""
        ...

    def describe_models(self, key: AccessKey) -> tuple[LimitsStatus, ...]:
        """Return its limits on models, as far as these were counted."""
        ...

    def describe_budget(self, budget: Budget) -> LimitsStatus:
        """Return what was spent of a budget, and its limits."""
        ...


class ModelSpend(Protocol):
    """Counts what keys spent on models (``gateway.limits.model_spend``)."""

    def count(self, keys: Iterable[AccessKey]) -> Awaitable[None]:
        """Return once the limits on models of these keys can be shown."""
        ...


async def list_passed_soft_limits(
    keys: Iterable[AccessKey],
    budgets: Mapping[str, Budget],
    meters: SoftLimitMeters,
    model_spend: ModelSpend,
) -> list[ReachedLimit]:
    """List those of enabled keys and budgets.

    Only keys with soft limits are looked at, and the loop goes on meanwhile. Raises
    ``Unavailable`` if what they spent on models cannot be read.
    """
    warning = [key for key in keys if has_soft_limits(key)]
    await model_spend.count(warning)
    found = [
        one
        for budget in budgets.values()
        if budget.enabled
        for one in _iter_passed(meters.describe_budget(budget))
    ]
    for number, key in enumerate(warning, 1):
        for status in (meters.describe_key(key), *meters.describe_models(key)):
            found += _iter_passed(status)
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)
    return found


def iter_told_limits(
    keys: Iterable[AccessKey], budgets: Mapping[str, Budget], meters: SoftLimitMeters
) -> Iterator[tuple[str, ReachedLimit]]:
    """Yield all limits in USD of which events tell when they are reached: hard and soft ones.

    Each has the kind of its alert. Limits on models are left out as long as they are not counted.
    """
    for budget in budgets.values():
        if budget.enabled:
            yield from _iter_told(meters.describe_budget(budget))
    for key in keys:
        if key.enabled and (key.model_limits or has_soft_limits(key)):
            yield from _iter_told(meters.describe_key(key))
            for status in meters.describe_models(key):
                yield from _iter_told(status)


def _iter_told(status: LimitsStatus) -> Iterator[tuple[str, ReachedLimit]]:
    for hard in status.limits:
        if isinstance(hard.limit, Decimal) and isinstance(hard.used, Decimal):
            name, amount = hard.name, hard.limit
            yield (
                "limit_hit",
                describe_reached_limit(status.holder, name, amount, hard.resets, spent=hard.used),
            )
    for soft in status.soft:
        yield (
            "limit_near",
            describe_reached_limit(
                status.holder, soft.name, soft.amount, soft.resets, spent=soft.used
            ),
        )


def has_soft_limits(key: AccessKey) -> bool:
    """Return whether an enabled key has limits that warn."""
    return key.enabled and (key.warn_at is not None or key.soft_limits != NO_SOFT_LIMITS)


def _iter_passed(status: LimitsStatus) -> Iterator[ReachedLimit]:
    for one in status.soft:
        if one.passed:
            yield describe_reached_limit(
                status.holder, one.name, one.amount, one.resets, spent=one.used
            )
