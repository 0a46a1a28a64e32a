"""The limits in USD that are used up the most, or soon, of all access keys and budgets."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import nlargest
from itertools import islice
from typing import NamedTuple, TypeAlias

from agentd.core.clock import Clock
from agentd.gateway.keys.keyring import Keyring
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.limits.budgets import Budget
from agentd.gateway.limits.burn_down import BurnLine, compute_burn_down
from agentd.gateway.limits.meters import KeyMeters
from agentd.gateway.limits.model_spend import ModelSpendCounter

MAX_LINES = 16
"""Number of limits found."""
NEAR = 0.8
"""The share of a limit from which on it is near."""
SOON_DAYS = 7.0
"""A limit is used up soon if it is before it resets, within so many days."""
RANK_SECONDS = 10.0
"""Seconds after which all limits are compared again; between, only those found last time are."""
_SLICE = 50
"""Keys that are compared before the event loop may do something else."""

_Limited: TypeAlias = AccessKey | Budget


class _Found(NamedTuple):
    """A key or a budget, with its lines, and the version of its meters that they are of."""

    limited: _Limited
    version: list[object]
    lines: list[BurnLine]


class NearestLimits:
    """Finds the limits nearest to their end; comparing those of 1,000 keys takes some 30 ms.

    Between two comparisons a line is computed anew only once its amounts have changed.
    """

    def __init__(
        self,
        keys: Callable[[], Keyring],
        budgets: Callable[[], Mapping[str, Budget]],
        meters: KeyMeters,
        model_spend: ModelSpendCounter,
        clock: Clock,
    ) -> None:
        self._keys = keys
        self._budgets = budgets
        self._meters = meters
        self._model_spend = model_spend
        self._clock = clock
        self._compared: tuple[Keyring, Mapping[str, Budget], float] | None = None
        self._found: list[_Found] = []

    async def find(self) -> list[BurnLine]:
        """Return lines, first those that are used up the most. Raises ``Unavailable``."""
        keys, budgets, now = self._keys(), self._budgets(), self._clock.monotonic()
        seen = self._compared
        if seen is None or seen[0] is not keys or seen[1] is not budgets or seen[2] < now:
            limited = list[_Limited](filter(_has_usd_limit, (*keys, *budgets.values())))
            await self._model_spend.count(one for one in limited if isinstance(one, AccessKey))
            self._found = [self._compute(one) for one in await self._rank(limited)]
            self._compared = keys, budgets, now + RANK_SECONDS
        else:
            self._found = [self._refresh(found) for found in self._found]
        return _choose(line for found in self._found for line in found.lines)

    async def _rank(self, limited: list[_Limited]) -> tuple[_Limited, ...]:
        """Return those with the nearest limits."""
        best = dict[int, tuple[tuple[bool, float], _Limited]]()
        remaining = iter(limited)
        while part := list(islice(remaining, _SLICE)):
            for one in part:
                if rank := max(map(_rank_line, self._iter_lines(one)), default=None):
                    best[id(one)] = rank, one
            best = dict(nlargest(MAX_LINES, best.items(), key=lambda item: item[1][0]))
            await asyncio.sleep(0)
        return tuple(one for _, one in best.values())

    def _refresh(self, found: _Found) -> _Found:
        is_same = found.version == self._get_version(found.limited)
        return found if is_same else self._compute(found.limited)

    def _compute(self, limited: _Limited) -> _Found:
        return _Found(limited, self._get_version(limited), list(self._iter_lines(limited)))

    def _get_version(self, one: _Limited) -> list[object]:
        return [meter.version for meter in self._meters.iter_meters(one)]

    def _iter_lines(self, one: _Limited) -> Iterator[BurnLine]:
        meters, now, windows = self._meters, self._clock.now(), self._meters.windows
        if isinstance(one, Budget):
            yield from compute_burn_down(meters.describe_budget(one), None, windows, now)
            return
        for status in (meters.describe_key(one), *meters.describe_models(one)):
            yield from compute_burn_down(status, one.created, windows, now)


def compute_share(line: BurnLine) -> float:
    """Return the share of a limit that is spent or reserved; a limit of nothing is used up."""
    return float((line.used + line.reserved) / line.limit) if line.limit else 1.0


def _choose(lines: Iterable[BurnLine]) -> list[BurnLine]:
    """Return the most urgent lines, ordered by the share that is used."""
    urgent = nlargest(MAX_LINES, lines, key=_rank_line)
    return sorted(urgent, key=compute_share, reverse=True)


def _rank_line(line: BurnLine) -> tuple[bool, float]:
    share = compute_share(line)
    is_soon = not line.lasts and line.days_left is not None and line.days_left < SOON_DAYS
    return share >= NEAR or is_soon, share


def _has_usd_limit(one: _Limited) -> bool:
    if not one.enabled:
        return False
    if one.limits.has_usd_limit or isinstance(one, Budget):
        return one.limits.has_usd_limit
    return any(limits.has_usd_limit for limits in one.model_limits.values())
