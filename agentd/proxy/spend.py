"""What each access key has spent in its windows, and whether it may spend more.

Before a call the most that it can cost is reserved; after it the true cost is booked instead. Both
happen under one rule, so calls at the same time never pass a limit together: by no more than a
call can cost more than was reserved for it. The sums that enforce are the sums that are shown.

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

from agentd.clock import Clock, Timestamp, iso, not_before, parse_iso
from agentd.errors import LimitReached
from agentd.proxy.access_key import Limits
from agentd.proxy.local_days import day_at, start_of
from agentd.proxy.price import plus, total

NEVER = 86400
"""Seconds to wait for what does not come by waiting: a person must raise the limit."""

SOON = 1
"""Seconds to wait for what another call's end will bring."""

_MINUTE = len("2026-11-21T07:50")


class Span(NamedTuple):
    """From ``start`` on, and before ``end``."""

    start: Timestamp
    end: Timestamp


class Windows(Struct, frozen=True):
    """The day, the week and the month that a moment is in."""

    day: Span
    week: Span
    month: Span


class Used(Struct, frozen=True):
    """USD that one key has spent, in all and in the windows of now."""

    total: Decimal = Decimal(0)
    day: Decimal = Decimal(0)
    week: Decimal = Decimal(0)
    month: Decimal = Decimal(0)


class LimitStanding(Struct, frozen=True, rename="camel"):
    """One limit, and how much of it is gone."""

    name: str
    """The field of ``Limits``."""
    limit: Decimal | int
    used: Decimal | int
    reserved: Decimal | int
    """By the calls under way."""
    resets: Timestamp | None
    """When ``used`` is 0 again; ``None``: never."""


class OverLimit(LimitReached):
    """A limit of an access key leaves no room; ``standing`` tells which, and how it stands."""

    def __init__(self, standing: LimitStanding, asked: Decimal | int, retry_after: int) -> None:
        super().__init__(_told(standing, asked), retry_after)
        self.standing = standing

    @property
    def limit_name(self) -> str:
        """The field of ``Limits``, such as ``day``."""
        return self.standing.name


class Calendar:
    """The windows of a time zone, worked out once a day for all keys."""

    def __init__(self, zone: tzinfo, clock: Clock) -> None:
        self._zone = zone
        self._clock = clock
        self._windows = self.at(clock.now())

    def now(self) -> tuple[Timestamp, Windows]:
        """The present and its windows: the same object while they are the same."""
        now = self._clock.now()
        start, end = self._windows.day
        if not start <= now < end:
            self._windows = self.at(now)
        return now, self._windows

    def at(self, moment: Timestamp) -> Windows:
        """The windows that a moment is in."""
        day = day_at(parse_iso(moment), self._zone)
        monday = day - timedelta(days=day.weekday())
        first = day.replace(day=1)
        return Windows(
            self._span(day, day + timedelta(days=1)),
            self._span(monday, monday + timedelta(days=7)),
            self._span(first, (first + timedelta(days=31)).replace(day=1)),
        )

    def used(self, spent: Callable[[datetime | None], Decimal]) -> Used:
        """What is spent now, asked of who knows it: ``spent`` since a moment, or ever (None)."""
        _, windows = self.now()
        day, week, month = (
            spent(parse_iso(span.start)) for span in (windows.day, windows.week, windows.month)
        )
        return Used(spent(None), day, week, month)

    def _span(self, begin: date, end: date) -> Span:
        return Span(iso(start_of(begin, self._zone)), iso(start_of(end, self._zone)))


class Reservation:
    """What one call may take; ``open`` until it is settled or released."""

    __slots__ = ("open", "tokens", "upper")

    def __init__(self, upper: Decimal, tokens: int) -> None:
        self.upper = upper
        self.tokens = tokens
        self.open = True


class Meter:
    """The sums of one key. Nothing here waits, so every method is one step for all calls."""

    def __init__(self, calendar: Calendar, used: Used | None = None) -> None:
        self._calendar = calendar
        self._reserved = Decimal(0)
        self._parallel = self._tokens_reserved = 0
        self._minute = self._minute_ends = ""
        self._requests = self._tokens = 0
        self.recount(used or Used())

    def recount(self, used: Used, calendar: Calendar | None = None) -> None:
        """Take these sums instead, as after a new pricing, or with a ``calendar`` of another zone.

        Calls under way stay reserved.
        """
        self._calendar = calendar or self._calendar
        _, self._windows = self._calendar.now()
        self._total, self._day = used.total, used.day
        self._week, self._month = used.week, used.month

    @property
    def used(self) -> Used:
        """What is spent by now."""
        self._turn()
        return Used(self._total, self._day, self._week, self._month)

    def reserve(self, limits: Limits, upper: Decimal, tokens: int) -> Reservation:
        """Set aside the most USD and tokens that a call can take. Raises ``OverLimit``.

        A limit that is used up lets not even a call through that costs nothing.
        """
        now = self._turn()
        if limits != _WITHOUT:
            self._check(limits, upper, tokens, now)
        self._reserved = plus(self._reserved, upper)
        self._tokens_reserved += tokens
        self._parallel += 1
        self._requests += 1
        return Reservation(upper, tokens)

    def settle(self, reservation: Reservation, cost: Decimal, tokens: int, at: Timestamp) -> None:
        """Count what it did take instead, in the windows of ``at``. Once: later is nothing."""
        if not reservation.open:
            return
        self.release(reservation)
        self._turn()
        if cost:
            self._total = plus(self._total, cost)
            self._day = _booked(self._day, cost, at, self._windows.day)
            self._week = _booked(self._week, cost, at, self._windows.week)
            self._month = _booked(self._month, cost, at, self._windows.month)
        if at[:_MINUTE] == self._minute:
            self._tokens += tokens

    def release(self, reservation: Reservation) -> None:
        """Give back what was reserved; the call cost nothing. Once: later is nothing."""
        if reservation.open:
            reservation.open = False
            self._reserved = plus(self._reserved, reservation.upper.copy_negate())
            self._tokens_reserved -= reservation.tokens
            self._parallel -= 1

    def standing(self, limits: Limits) -> tuple[LimitStanding, ...]:
        """Each limit that is set, by the numbers that enforce it."""
        self._turn()
        return tuple(self._standings(limits))

    def _check(self, limits: Limits, upper: Decimal, tokens: int, now: Timestamp) -> None:
        asked = {"requests_per_minute": 1, "tokens_per_minute": tokens, "parallel": 1}
        for standing in self._standings(limits):
            more = asked.get(standing.name, upper)
            gone = _plus(standing.used, standing.reserved)
            if gone >= standing.limit or _plus(gone, more) > standing.limit:
                raise OverLimit(standing, more, _wait(standing, more, now))

    def _standings(self, limits: Limits) -> Iterator[LimitStanding]:
        """What never resets first, then what resets latest: that is what a caller must know."""
        windows, reserved = self._windows, self._reserved
        for name, limit, used, resets in (
            ("total", limits.total, self._total, None),
            ("month", limits.month, self._month, windows.month.end),
            ("week", limits.week, self._week, windows.week.end),
            ("day", limits.day, self._day, windows.day.end),
        ):
            if limit is not None:
                yield LimitStanding(name, limit, used, reserved, resets)
        tokens, ends = self._tokens_reserved, self._minute_ends
        for name, count, done, held, resets in (
            ("requests_per_minute", limits.requests_per_minute, self._requests, 0, ends),
            ("tokens_per_minute", limits.tokens_per_minute, self._tokens, tokens, ends),
            ("parallel", limits.parallel, 0, self._parallel, None),
        ):
            if count is not None:
                yield LimitStanding(name, count, done, held, resets)

    def _turn(self) -> Timestamp:
        """The present; whatever window has ended begins anew.

        Sums are kept when the clock was put back: nothing is forgiven by that.
        """
        now, windows = self._calendar.now()
        if windows is not self._windows:
            before, self._windows = self._windows, windows
            self._day = _carried(self._day, before.day, windows.day)
            self._week = _carried(self._week, before.week, windows.week)
            self._month = _carried(self._month, before.month, windows.month)
        if now[:_MINUTE] != self._minute:
            self._minute, self._minute_ends = now[:_MINUTE], _next_minute(now)
            self._requests = self._tokens = 0
        return now


_WITHOUT = Limits()


def _carried(sum_: Decimal, before: Span, now: Span) -> Decimal:
    return Decimal(0) if now.start > before.start else sum_


def _plus(one: Decimal | int, other: Decimal | int) -> Decimal | int:
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return plus(one, other)
    return one + other


def _booked(sum_: Decimal, cost: Decimal, at: Timestamp, span: Span) -> Decimal:
    """The window's sum after a cost that was booked at a moment; it may be of an earlier window."""
    return plus(sum_, cost) if at >= span.start else sum_


def _next_minute(now: Timestamp) -> Timestamp:
    return not_before(parse_iso(now[:_MINUTE] + "Z") + timedelta(minutes=1))


def _wait(standing: LimitStanding, asked: Decimal | int, now: Timestamp) -> int:
    """Whole seconds until it is worth to try again."""
    if standing.used < standing.limit and _plus(standing.used, asked) <= standing.limit:
        return SOON  # only calls under way are in the way
    if standing.resets is None:
        return NEVER
    return max(ceil((parse_iso(standing.resets) - parse_iso(now)).total_seconds()), 1)


_WORDS = {
    "total": "in all",
    "month": "a month",
    "week": "a week",
    "day": "a day",
    "requests_per_minute": "requests a minute",
    "tokens_per_minute": "tokens a minute",
    "parallel": "requests at the same time",
}


def _told(standing: LimitStanding, asked: Decimal | int) -> str:
    """Such as ``The access key's limit is 5 USD a day: 4.9 USD are used, ...``."""
    unit = " USD" if isinstance(standing.limit, Decimal) else ""
    text = f"The access key's limit is {_plain(standing.limit)}{unit} {_WORDS[standing.name]}: "
    if standing.name == "parallel":
        return f"{text}{standing.reserved} are under way."
    text += f"{_plain(standing.used)}{unit} used"
    if standing.reserved:
        text += f", {_plain(standing.reserved)}{unit} reserved by requests under way"
    if standing.name != "requests_per_minute":
        text += f", and this request may take up to {_plain(asked)}{unit}"
        text += " (less if it allows fewer output tokens)"
    return f"{text}. It {f'resets at {standing.resets}' if standing.resets else 'never resets'}."


def _plain(amount: Decimal | int) -> str:
    """Without an exponent, and without the zeros that sums collect."""
    return f"{total((amount,)):f}" if isinstance(amount, Decimal) else str(amount)
