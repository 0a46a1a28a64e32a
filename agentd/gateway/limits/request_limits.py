"""All limits that hold for one request: of its key, its model within the key, owner and tags.

They are reserved together or not at all. Nothing here waits, so what one request finds free no
other can take before it has.
"""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import cast

from msgspec import Struct

from agentd.core.clock import Timestamp
from agentd.core.events import Event
from agentd.gateway.keys.limits import NO_SOFT_LIMITS, KeyLimits, SoftLimits
from agentd.gateway.limits.events import (
    HardLimitReached,
    LimitWindow,
    ReachedLimit,
    SoftLimitReached,
)
from agentd.gateway.limits.spend import (
    LimitHolder,
    OverLimit,
    Reservation,
    UsageMeter,
)


class AppliedLimits(Struct, frozen=True, gc=False):
    """A meter, and the limits that hold for it now."""

    holder: LimitHolder
    meter: UsageMeter
    limits: KeyLimits
    soft: SoftLimits = NO_SOFT_LIMITS


class LimitAnnouncer:
    """Publishes each limit in USD that is reached, once in its period and for its amount."""

    def __init__(self, publish: Callable[[Event], object]) -> None:
        self._publish = publish
        self._refused: dict[tuple[LimitHolder, str], tuple[Decimal, Timestamp | None]] = {}
        """The amount and the end of the period of each hard limit that was announced."""
        self._passed: dict[tuple[LimitHolder, str], tuple[Decimal, Timestamp | None]] = {}
        """The same of soft limits."""
        self._known: set[LimitHolder] = set()
        """What was seen since the start: what it had passed before was announced before."""

    def on_refused(self, error: OverLimit) -> None:
        """Announce a hard limit that refused a request; limits per minute are not announced."""
        status = error.status
        if isinstance(status.limit, Decimal) and isinstance(status.used, Decimal):
            place, now = (error.holder, status.name), (status.limit, status.resets)
            if self._refused.get(place) != now:
                self._refused[place] = now
                self._publish(
                    HardLimitReached(
                        describe_reached_limit(error.holder, status.name, *now, spent=status.used)
                    )
                )

    def before_settling(self, part: AppliedLimits) -> None:
        """Take note of what was passed before this start."""
        if part.holder not in self._known:
            self._known.add(part.holder)
            for status in part.meter.describe_soft_limits(part.soft):
                if status.passed:
                    self._passed[part.holder, status.name] = status.amount, status.resets

    def after_settling(self, part: AppliedLimits) -> None:
        """Announce the soft limits that are passed now."""
        for status in part.meter.describe_soft_limits(part.soft):
            place, now = (part.holder, status.name), (status.amount, status.resets)
            if status.passed and self._passed.get(place) != now:
                self._passed[place] = now
                self._publish(
                    SoftLimitReached(
                        describe_reached_limit(part.holder, status.name, *now, spent=status.used)
                    )
                )


class RequestLimits:
    """The limits of one request, and what it reserved of them."""

    __slots__ = ("_announcer", "_find_later_meters", "_parts", "_reservations")

    def __init__(
        self,
        parts: Sequence[AppliedLimits],
        announcer: LimitAnnouncer,
        find_later_meters: Callable[[], Iterable[UsageMeter]] = tuple,
    ) -> None:
        self._parts = parts
        self._announcer = announcer
        self._find_later_meters = find_later_meters
        self._reservations: Sequence[Reservation] = ()

    @property
    def bounds_spending(self) -> bool:
        """True if a limit of money or tokens is among them, which a single reply can pass."""
        return any(part.limits.bounds_spending for part in self._parts)

    def reserve(self, upper: Decimal, tokens: int) -> None:
        """Set aside the most USD and tokens that a call can take, of all limits or of none.

        The second time, set aside what is missing of that. Raises ``OverLimit``.
        """
        if self._reservations:
            self._extend(upper, tokens)
            return
        for part in self._parts:
            part.meter.require_room(part.limits, upper, tokens, part.holder)
        self._reservations = [part.meter.take(upper, tokens) for part in self._parts]

    def settle(self, cost: Decimal, tokens: int, at: Timestamp) -> None:
        """Count what it did take instead, once; nothing if nothing was reserved."""
        if cost and any(one.open for one in self._reservations):
            self._settle_later_meters(cost, tokens, at)
        for part, reservation in zip(self._parts, self._reservations, strict=False):
            watched = part.soft != NO_SOFT_LIMITS and bool(cost)
            if watched:
                self._announcer.before_settling(part)
            part.meter.settle(reservation, cost, tokens, at)
            if watched:
                self._announcer.after_settling(part)

    def _settle_later_meters(self, cost: Decimal, tokens: int, at: Timestamp) -> None:
        """Count it where it counts by now, too: limits may have come while it was under way."""
        known = [part.meter for part in self._parts]
        for meter in self._find_later_meters():
            if meter not in known:
                meter.add(cost, tokens, at)

    def _extend(self, upper: Decimal, tokens: int) -> None:
        pairs = list(zip(self._parts, self._reservations, strict=True))
        for part, reservation in pairs:
            part.meter.require_more_room(reservation, part.limits, upper, tokens, part.holder)
        for part, reservation in pairs:
            part.meter.take_more(reservation, upper, tokens)


def describe_reached_limit(
    holder: LimitHolder, name: str, limit: Decimal, resets: Timestamp | None, *, spent: Decimal
) -> ReachedLimit:
    """Return a limit in USD with what is spent of it, as events and reports show it."""
    return ReachedLimit(
        scope=holder.scope,
        name=holder.name,
        key=holder.key,
        model=holder.model,
        budget=holder.budget,
        window=cast("LimitWindow", name),
        limit=limit,
        spent=spent,
        resets=resets,
    )
