"""How many access keys are enabled, and how many of these are near or at a limit. Pure."""

from collections.abc import Iterable
from decimal import Decimal

from msgspec import Struct

from agentd.core.clock import Timestamp
from agentd.gateway.keys.model import AccessKey
from agentd.gateway.limits.spend import LimitStatus

NEAR_SHARE = Decimal("0.8")
"""The share of a limit from which on a key is near it."""


class KeyCounts(Struct):
    """Numbers of access keys."""

    enabled: int = 0
    """Keys that open something: neither disabled nor expired."""
    disabled: int = 0
    expired: int = 0
    near_limit: int = 0
    """Enabled keys that used most of a limit in USD, with what running requests reserve ..."""
    at_limit: int = 0
    """... and those that used up one, so that their requests are refused."""

    def add(self, key: AccessKey, limits: Iterable[LimitStatus], now: Timestamp) -> None:
        """Count a key with its limits."""
        if not key.enabled:
            self.disabled += 1
            return
        if key.is_expired(now):
            self.expired += 1
            return
        self.enabled += 1
        in_usd = [one for one in limits if isinstance(one.limit, Decimal)]
        if any(one.used >= one.limit for one in in_usd):
            self.at_limit += 1
        elif any(one.used + one.reserved >= one.limit * NEAR_SHARE for one in in_usd):
            self.near_limit += 1
