"""Counts what keys with limits on models spent on these, when that is first asked for.

Most keys have no such limits, so nothing is kept of each key and model: the ledger adds it up.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from datetime import timedelta
from typing import Protocol

from agentd.gateway.keys.model import AccessKey
from agentd.gateway.limits.meters import KeyMeters
from agentd.gateway.limits.spend_by_quarter_hour import SpendByQuarterHour


class ModelSpendLedger(Protocol):
    """The ledger (``gateway.ledger.ledger.Ledger``)."""

    def count_model_spend(self, since: Mapping[str, str]) -> Awaitable[SpendByQuarterHour]:
        """Count what keys have spent on each model since some day (UTC)."""
        ...


class ModelSpendCounter:
    """Sees to it that ``meters`` know what keys spent on models."""

    def __init__(self, meters: KeyMeters, ledger: ModelSpendLedger) -> None:
        self._meters = meters
        self._ledger = ledger
        self._lock = asyncio.Lock()

    async def count(self, keys: Iterable[AccessKey]) -> None:
        """Return once the limits on models of these keys can be enforced and shown.

        Raises ``Unavailable`` if the ledger cannot be read.
        """
        keys = [key for key in keys if not self._meters.has_counted_models(key)]
        if not keys:
            return
        async with self._lock:
            keys = [key for key in keys if not self._meters.has_counted_models(key)]
            first = min(self._meters.iter_window_starts()) - timedelta(days=1)
            recently = first.date().isoformat()
            since = {key.id: _find_first_day(key, recently) for key in keys}
            sums = await self._ledger.count_model_spend(since) if keys else None
            for key in keys:
                assert sums
                self._meters.set_model_spend(key, sums)

    async def count_key(self, key: AccessKey) -> None:
        """Do as ``count`` for one key."""
        await self.count((key,))


def _find_first_day(key: AccessKey, recently: str) -> str:
    """Return the first day to count: that of the key if a limit on all of it never resets."""
    return min(key.created[:10], recently) if key.limits_models_in_total else recently
