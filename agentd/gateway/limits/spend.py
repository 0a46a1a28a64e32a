"""What an access key, or several that share a budget, spend in windows, and whether it may be more.

Before a call its highest possible cost is reserved; after it the actual cost is counted instead.
So parallel calls cannot exceed a limit together, except by what a call costs more than was reserved
for it. The sums that enforce limits are those that are shown.

Days, weeks (from Monday) and months are those of the configured time zone. Requests and tokens per
minute are counted by the minutes of the clock: at the turn of one, twice as many may come in a
minute's time as the limit says.
"""

from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from math import ceil
from typing import NamedTuple

from msgspec import Struct

from agentd.core.clock import Clock, Timestamp, format_iso, format_iso_rounded_up, parse_iso
from agentd.core.errors import LimitReached
from agentd.core.local_days import get_day_start, get_local_day
from agentd.gateway.keys.limits import NO_LIMITS, KeyLimits, SoftLimits
from agentd.gateway.limits.events import LimitScope, LimitWindow
from agentd.gateway.limits.spend_by_quarter_hour import AHEAD
from agentd.llm.price import add_amounts, sum_amounts

NEVER_SECONDS = 86400
"""Seconds to wait if waiting does not help: a person must raise the limit."""

SOON_SECONDS = 1
"""Seconds to wait for what another call's end will bring."""

KEPT_WINDOWS = 4
"""Days, weeks and months whose sums are kept, in case the clock returns to them."""

_MINUTE_CHARS = len("2026-11-21T07:50")


class Window(NamedTuple):
    """A span of time from ``start`` on and before ``end``."""

    start: Timestamp
    end: Timestamp


class Windows(Struct, frozen=True):
    """The day, the week and the month that a moment is in."""

    day: Window
    week: Window
    month: Window


class Used(Struct, frozen=True):
    """USD that were spent, in all and in the windows of now."""

    total: Decimal = Decimal(0)
    day: Decimal = Decimal(0)
    week: Decimal = Decimal(0)
    month: Decimal = Decimal(0)


class LimitStatus(Struct, frozen=True, rename="camel"):
    """A limit, and its usage."""

    name: str
    """The field of ``KeyLimits``."""
    limit: Decimal | int
    used: Decimal | int
    reserved: Decimal | int
    """The amount reserved by the calls under way."""
    resets: Timestamp | None
    """When ``used`` is 0 again; ``None``: never."""


class SoftLimitStatus(Struct, frozen=True):
    """A soft limit in USD, and its usage."""

    name: LimitWindow
    amount: Decimal
    used: Decimal
    resets: Timestamp | None
    """When ``used`` is 0 again; ``None``: never."""

    @property
    def passed(self) -> bool:
        """True if so much is spent that it warns."""
        return self.used >= self.amount


class LimitHolder(Struct, frozen=True):
    """What limits are of."""

    scope: LimitScope
    name: str
    """Name of the access key, the owner or the tag."""
    key: str = ""
    """Id of the access key; empty: keys share it."""
    model: str = ""
    """The name or pattern of models within a key."""
    budget: str = ""
    """Name of the budget."""

    def describe(self) -> str:
        """Return how a sentence about one of its limits begins."""
        match self.scope:
            case "key":
                return "The access key's limit"
            case "model":
                return f'The access key\'s limit for the model "{self.model}"'
        return f'The limit of the {self.scope} "{self.name}", which access keys share,'


_SOME_KEY = LimitHolder("key", "")


class OverLimit(LimitReached):
    """A limit is reached; ``status`` says which, and how much is used, ``holder`` of what."""

    def __init__(
        self,
        status: LimitStatus,
        asked: Decimal | int,
        retry_after: int,
        holder: LimitHolder = _SOME_KEY,
    ) -> None:
        super().__init__(_describe(status, asked, holder), retry_after)
        self.status = status
        self.holder = holder

    @property
    def limit_name(self) -> str:
        """The field of ``KeyLimits``, such as ``day``."""
        return self.status.name

    @property
    def code(self) -> str:
        """The kind of error in the ledger, such as ``limit_day`` or ``limit_tag_day``."""
        scope = "" if self.holder.scope == "key" else f"{self.holder.scope}_"
        return f"limit_{scope}{self.status.name}"

    @property
    def resets(self) -> Timestamp | None:
        """When there is room again; None: never, or as soon as calls under way have ended."""
        return self.status.resets if self.retry_after > SOON_SECONDS else None


class WindowCalendar:
    """The windows of a time zone, worked out once a day for all keys."""

    def __init__(self, zone: tzinfo, clock: Clock) -> None:
        self._zone = zone
        self._clock = clock
        self._windows = self.get_windows(clock.now())

    def now(self) -> tuple[Timestamp, Windows]:
        """Return the present and its windows: the same object while they are the same."""
        now = self._clock.now()
        start, end = self._windows.day
        if not start <= now < end:
            self._windows = self.get_windows(now)
        return now, self._windows

    def get_windows(self, moment: Timestamp) -> Windows:
        """Return the windows that a moment is in."""
        day = get_local_day(parse_iso(moment), self._zone)
        monday = day - timedelta(days=day.weekday())
        first = day.replace(day=1)
        return Windows(
            self._make_window(day, day + timedelta(days=1)),
            self._make_window(monday, monday + timedelta(days=7)),
            self._make_window(first, (first + timedelta(days=31)).replace(day=1)),
        )

    def sum_used(self, spent: Callable[[datetime | None], Decimal]) -> Used:
        """Return the used amounts; ``spent`` returns the spend since a time, or in total (None)."""
        _, windows = self.now()
        day, week, month = (
            spent(parse_iso(span.start)) for span in (windows.day, windows.week, windows.month)
        )
        return Used(spent(None), day, week, month)

    def _make_window(self, begin: date, end: date) -> Window:
        return Window(
            format_iso(get_day_start(begin, self._zone)), format_iso(get_day_start(end, self._zone))
        )


class Reservation:
    """The amount reserved for a call; ``open`` until it is settled or released."""

    __slots__ = ("open", "tokens", "upper")

    def __init__(self, upper: Decimal, tokens: int) -> None:
        self.upper = upper
        self.tokens = tokens
        self.open = True


class _WindowSum:
    """The spending of the current day, week or month, and of the last ones before it.

    Each window's sum is kept apart. So a clock that is put forward or back for a while forgives
    nothing, and a cost that is recorded late counts in the window it belongs to. What was recorded
    much later than now (``AHEAD``) does not count: it would for years.
    """

    __slots__ = ("_parts", "_start", "_until", "amount")

    def __init__(self, window: Window, amount: Decimal) -> None:
        self.amount = amount
        """USD since the start of the current window."""
        self._start, self._until = window.start, _find_end_of_trust(window.start)
        self._parts = {window.start: amount}
        """USD of the last windows, by their starts."""

    def move_to(self, window: Window) -> None:
        """Make another window the current one."""
        self._start, self._until = window.start, _find_end_of_trust(window.start)
        self._parts.setdefault(window.start, Decimal(0))
        if len(self._parts) > KEPT_WINDOWS:
            del self._parts[min(start for start in self._parts if start != window.start)]
        self.amount = sum_amounts(
            part for start, part in self._parts.items() if self._start <= start < self._until
        )

    def add(self, cost: Decimal, at: Timestamp) -> None:
        """Count what was spent at a time, in its window."""
        start = max((start for start in self._parts if start <= at), default="")
        if start and at < (self._until if start == self._start else _find_end_of_trust(start)):
            self._parts[start] = add_amounts(self._parts[start], cost)
        if self._start <= at < self._until:
            self.amount = add_amounts(self.amount, cost)


def _find_end_of_trust(start: Timestamp) -> Timestamp:
    return format_iso(parse_iso(start) + AHEAD)


class UsageMeter:
    """The sums of a key, or of what keys share.

    Nothing here waits, so every method is one step for all calls.
    """

    def __init__(self, calendar: WindowCalendar, used: Used | None = None) -> None:
        self._calendar = calendar
        self._reserved = Decimal(0)
        self._parallel = self._tokens_reserved = 0
        self._minute = self._minute_ends = ""
        self._requests = self._tokens = 0
        self.is_untouched = True
        """True if no call was counted or reserved here: all it has are the sums it was given."""
        self.reset_to(used or Used())

    def reset_to(self, used: Used, calendar: WindowCalendar | None = None) -> None:
        """Take these sums instead, as after a new pricing, or with a ``calendar`` of another zone.

        Calls under way stay reserved.
        """
        self._calendar = calendar or self._calendar
        _, self._windows = self._calendar.now()
        self._total = used.total
        self._day = _WindowSum(self._windows.day, used.day)
        self._week = _WindowSum(self._windows.week, used.week)
        self._month = _WindowSum(self._windows.month, used.month)

    @property
    def used(self) -> Used:
        """The amount spent so far."""
        self._roll_windows()
        return Used(self._total, self._day.amount, self._week.amount, self._month.amount)

    @property
    def version(self) -> object:
        """Differs once an amount in USD or a window has changed."""
        return self.used, self._reserved, self._windows

    def require_room(
        self,
        limits: KeyLimits,
        upper: Decimal,
        tokens: int,
        holder: LimitHolder = _SOME_KEY,
    ) -> None:
        """Raise ``OverLimit`` if a call that can take so much does not fit the limits.

        A limit that is used up lets not even a call through that costs nothing.
        """
        now = self._roll_windows()
        if limits == NO_LIMITS:
            return
        asked = {"requests_per_minute": 1, "tokens_per_minute": tokens, "parallel": 1}
        for limit in self._iter_limits(limits):
            more = asked.get(limit.name, upper)
            gone = _add_amounts(limit.used, limit.reserved)
            if gone >= limit.limit or _add_amounts(gone, more) > limit.limit:
                raise OverLimit(limit, more, _count_seconds_to_wait(limit, more, now), holder)

    def take(self, upper: Decimal, tokens: int) -> Reservation:
        """Set aside USD and tokens for a call for which there is room."""
        self.is_untouched = False
        self._reserved = add_amounts(self._reserved, upper)
        self._tokens_reserved += tokens
        self._parallel += 1
        self._requests += 1
        return Reservation(upper, tokens)

    def require_more_room(
        self,
        reservation: Reservation,
        limits: KeyLimits,
        upper: Decimal,
        tokens: int,
        holder: LimitHolder = _SOME_KEY,
    ) -> None:
        """Raise ``OverLimit`` if a call under way cannot set aside at least so much."""
        usd = add_amounts(upper, reservation.upper.copy_negate())
        more = {"tokens_per_minute": tokens - reservation.tokens}
        more |= {"requests_per_minute": 0, "parallel": 0}  # it is counted already
        now = self._roll_windows()
        for limit in self._iter_limits(limits):
            asked = more.get(limit.name, usd)
            gone = _add_amounts(limit.used, limit.reserved)
            if asked > 0 and _add_amounts(gone, asked) > limit.limit:
                wait = _count_seconds_to_wait(limit, asked, now)
                raise OverLimit(limit, asked, wait, holder)

    def take_more(self, reservation: Reservation, upper: Decimal, tokens: int) -> None:
        """Set aside at least so much for a call under way for which there is room."""
        if upper > reservation.upper:
            more = add_amounts(upper, reservation.upper.copy_negate())
            self._reserved = add_amounts(self._reserved, more)
            reservation.upper = upper
        if tokens > reservation.tokens:
            self._tokens_reserved += tokens - reservation.tokens
            reservation.tokens = tokens

    def settle(self, reservation: Reservation, cost: Decimal, tokens: int, at: Timestamp) -> None:
        """Count what it did take instead, in the windows of ``at``. Once: later is nothing."""
        if reservation.open:
            self.release(reservation)
            self.add(cost, tokens, at)

    def add(self, cost: Decimal, tokens: int, at: Timestamp) -> None:
        """Count what a call took, in the windows of ``at``."""
        self._roll_windows()
        self.is_untouched = False
        if cost:
            self._total = add_amounts(self._total, cost)
            for one in (self._day, self._week, self._month):
                one.add(cost, at)
        if at[:_MINUTE_CHARS] == self._minute:
            self._tokens += tokens

    def release(self, reservation: Reservation) -> None:
        """Give back what was reserved; the call cost nothing. Once: later is nothing."""
        if reservation.open:
            reservation.open = False
            self._reserved = add_amounts(self._reserved, reservation.upper.copy_negate())
            self._tokens_reserved -= reservation.tokens
            self._parallel -= 1

    def describe_limits(self, limits: KeyLimits) -> tuple[LimitStatus, ...]:
        """Return each limit that is set, with the numbers that enforce it."""
        self._roll_windows()
        return tuple(self._iter_limits(limits))

    def describe_soft_limits(self, soft: SoftLimits) -> tuple[SoftLimitStatus, ...]:
        """Return each soft limit that is set."""
        self._roll_windows()
        return tuple(
            SoftLimitStatus(name, amount, used, resets)
            for name, amount, used, resets in self._iter_usd(soft)
            if amount is not None
        )

    def _iter_usd(
        self, limits: KeyLimits | SoftLimits
    ) -> Iterator[tuple[LimitWindow, Decimal | None, Decimal, Timestamp | None]]:
        """Yield the amounts of money, used amounts and resets; what never resets comes first."""
        windows = self._windows
        yield "total", limits.total, self._total, None
        yield "month", limits.month, self._month.amount, windows.month.end
        yield "week", limits.week, self._week.amount, windows.week.end
        yield "day", limits.day, self._day.amount, windows.day.end

    def _iter_limits(self, limits: KeyLimits) -> Iterator[LimitStatus]:
        """Yield limits that never reset, then the latest reset first; the first exceeded counts."""
        for window, amount, spent, end in self._iter_usd(limits):
            if amount is not None:
                yield LimitStatus(window, amount, spent, self._reserved, end)
        tokens, ends = self._tokens_reserved, self._minute_ends
        for name, count, done, held, resets in (
            ("requests_per_minute", limits.requests_per_minute, self._requests, 0, ends),
            ("tokens_per_minute", limits.tokens_per_minute, self._tokens, tokens, ends),
            ("parallel", limits.parallel, 0, self._parallel, None),
        ):
            if count is not None:
                yield LimitStatus(name, count, done, held, resets)

    def _roll_windows(self) -> Timestamp:
        """Return the current time, after moving on to the windows that it is in."""
        now, windows = self._calendar.now()
        if windows is not self._windows:
            self._windows = windows
            self._day.move_to(windows.day)
            self._week.move_to(windows.week)
            self._month.move_to(windows.month)
        if now[:_MINUTE_CHARS] != self._minute:
            self._minute, self._minute_ends = now[:_MINUTE_CHARS], _get_next_minute(now)
            self._requests = self._tokens = 0
        return now


def _add_amounts(one: Decimal | int, other: Decimal | int) -> Decimal | int:
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return add_amounts(one, other)
    return one + other


def _get_next_minute(now: Timestamp) -> Timestamp:
    return format_iso_rounded_up(parse_iso(now[:_MINUTE_CHARS] + "Z") + timedelta(minutes=1))


def _count_seconds_to_wait(limit: LimitStatus, asked: Decimal | int, now: Timestamp) -> int:
    """Count the whole seconds until trying again makes sense."""
    if limit.used < limit.limit and _add_amounts(limit.used, asked) <= limit.limit:
        return SOON_SECONDS  # only calls under way are in the way
    if limit.resets is None:
        return NEVER_SECONDS
    return max(ceil((parse_iso(limit.resets) - parse_iso(now)).total_seconds()), 1)


_WORDS = {
    "total": "in all",
    "month": "a month",
    "week": "a week",
    "day": "a day",
    "requests_per_minute": "requests a minute",
    "tokens_per_minute": "tokens a minute",
    "parallel": "requests at the same time",
}


def _describe(status: LimitStatus, requested: Decimal | int, holder: LimitHolder) -> str:
    """Describe it: ``The access key's limit is 5 USD a day: 4.9 USD used, ...``."""
    unit = " USD" if isinstance(status.limit, Decimal) else ""
    limit = f"{_format_amount(status.limit)}{unit} {_WORDS[status.name]}"
    text = f"{holder.describe()} is {limit}: "
    if status.name == "parallel":
        return f"{text}{status.reserved} are under way."
    text += f"{_format_amount(status.used)}{unit} used"
    if status.reserved:
        text += f", {_format_amount(status.reserved)}{unit} reserved by requests under way"
    if status.name != "requests_per_minute":
        text += f", and this request may take up to {_format_amount(requested)}{unit}"
        text += " (less if it allows fewer output tokens)"
    return f"{text}. It {f'resets at {status.resets}' if status.resets else 'never resets'}."


def _format_amount(amount: Decimal | int) -> str:
    """Format an amount without an exponent and without trailing zeros."""
    return f"{sum_amounts((amount,)):f}" if isinstance(amount, Decimal) else str(amount)
