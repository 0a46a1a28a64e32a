"""Windows of every time zone, and sums that no crowd of calls gets past."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agentd.core.clock import FrozenClock, format_iso, parse_iso
from agentd.gateway.keys.limits import KeyLimits, SoftLimits
from agentd.gateway.limits.spend import (
    KEPT_WINDOWS,
    NEVER_SECONDS,
    SOON_SECONDS,
    OverLimit,
    Reservation,
    UsageMeter,
    Used,
    WindowCalendar,
)

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/Santiago",
    "Asia/Kathmandu",
    "Pacific/Apia",
    "Africa/Casablanca",
    "America/Havana",
    "America/St_Johns",
    "Asia/Beirut",
    "Africa/Cairo",
    "Pacific/Kwajalein",
    "Australia/Lord_Howe",
]
MOMENTS = st.datetimes(datetime(1985, 1, 1), datetime(2040, 1, 1)).map(
    lambda at: format_iso(at.replace(tzinfo=UTC))
)
USD = st.decimals(0, 50, places=7)


def build_calendar(zone: str = "UTC", at: str = "2026-01-31T12:00:00.000Z") -> WindowCalendar:
    return WindowCalendar(ZoneInfo(zone), FrozenClock(at))


def check_windows(known: WindowCalendar, zone: ZoneInfo, moment: str) -> None:
    """Check the rules for the windows of every moment."""
    windows = known.get_windows(moment)
    for span in (windows.day, windows.week, windows.month):
        assert span.start <= moment < span.end
        before = format_iso(parse_iso(span.start) - timedelta(milliseconds=1))
        local = [parse_iso(at).astimezone(zone) for at in (before, span.start)]
        # The clocks show another date at the start than ever before it.
        assert local[0].date() < local[1].date() or local[0] > local[1].replace(fold=1)
    assert windows.week.start <= windows.day.start < windows.day.end <= windows.week.end
    assert windows.month.start <= windows.day.start < windows.day.end <= windows.month.end


@pytest.mark.parametrize("zone", ZONES)
@given(moment=MOMENTS)
def test_every_moment_is_in_its_windows_and_they_begin_with_a_new_date(zone, moment):
    check_windows(build_calendar(zone), ZoneInfo(zone), moment)


@pytest.mark.parametrize("zone", ZONES)
@given(moment=MOMENTS)
def test_windows_follow_one_another_without_gap_or_overlap(zone, moment):
    known = build_calendar(zone)
    windows = known.get_windows(moment)
    for name in ("day", "week", "month"):
        span = getattr(windows, name)
        after = getattr(known.get_windows(span.end), name)
        assert after.start == span.end
        last = format_iso(parse_iso(span.end) - timedelta(milliseconds=1))
        assert getattr(known.get_windows(last), name) == span


@pytest.mark.parametrize(
    ("zone", "moment", "start", "end", "hours"),
    [
        ("Europe/Berlin", "2026-03-29T12:00", "2026-03-28T23:00", "2026-03-29T22:00", 23),
        ("Europe/Berlin", "2026-10-25T12:00", "2026-10-24T22:00", "2026-10-25T23:00", 25),
        # Midnight does not exist: the day begins at one o'clock.
        ("America/Santiago", "2026-09-06T12:00", "2026-09-06T04:00", "2026-09-07T03:00", 23),
        # Saturday's last hour comes twice.
        ("America/Santiago", "2026-04-04T12:00", "2026-04-04T03:00", "2026-04-05T04:00", 25),
        # Midnight comes twice: the first begins the day.
        ("America/Havana", "2026-11-01T12:00", "2026-11-01T04:00", "2026-11-02T05:00", 25),
        ("Asia/Kathmandu", "2026-01-01T00:00", "2025-12-31T18:15", "2026-01-01T18:15", 24),
        # There was no 30 December 2011.
        ("Pacific/Apia", "2011-12-30T09:59", "2011-12-29T10:00", "2011-12-30T10:00", 24),
        ("Pacific/Apia", "2011-12-30T10:00", "2011-12-30T10:00", "2011-12-31T10:00", 24),
        # Clocks went forward half an hour before midnight, over it.
        ("America/Toronto", "1919-03-31T12:00", "1919-03-31T04:30", "1919-04-01T04:00", 23.5),
    ],
)
def test_a_day_has_the_hours_that_the_zone_gives_it(zone, moment, start, end, hours):
    day = build_calendar(zone).get_windows(f"{moment}:00.000Z").day
    assert day == (f"{start}:00.000Z", f"{end}:00.000Z")
    assert parse_iso(day.end) - parse_iso(day.start) == timedelta(hours=hours)


@given(day=st.dates(date(1990, 1, 1), date(2040, 1, 1)))
def test_weeks_begin_on_monday_and_months_on_the_first(day):
    windows = build_calendar().get_windows(f"{day}T12:00:00.000Z")
    assert parse_iso(windows.week.start).weekday() == parse_iso(windows.week.end).weekday() == 0
    assert parse_iso(windows.month.start).day == parse_iso(windows.month.end).day == 1


def test_windows_are_worked_out_once_for_all_moments_in_them():
    clock = FrozenClock("2026-01-31T00:00:00.000Z")
    known = WindowCalendar(ZoneInfo("UTC"), clock)
    _, windows = known.now()
    clock.move(86399)
    assert known.now()[1] is windows
    clock.move(1)
    assert known.now()[1] != windows


def test_sums_are_asked_for_since_each_windows_start():
    asked = []

    def get_spend(since: datetime | None) -> Decimal:
        asked.append(since and since.isoformat())
        return Decimal(len(asked))

    used = build_calendar("Europe/Berlin").sum_used(get_spend)
    assert asked == [
        "2026-01-30T23:00:00+00:00",
        "2026-01-25T23:00:00+00:00",
        "2025-12-31T23:00:00+00:00",
        None,
    ]
    assert used == Used(total=Decimal(4), day=Decimal(1), week=Decimal(2), month=Decimal(3))


class At:
    """A meter and its clock."""

    def __init__(self, at: str = "2026-01-31T12:00:00.000Z", zone: str = "UTC", used=None) -> None:
        self.clock = FrozenClock(at)
        self.meter = UsageMeter(WindowCalendar(ZoneInfo(zone), self.clock), used)

    def reserve(self, limits: KeyLimits, upper: Decimal, tokens: int) -> Reservation:
        self.meter.require_room(limits, upper, tokens)
        return self.meter.take(upper, tokens)

    def extend(self, held: Reservation, limits: KeyLimits, upper: Decimal, tokens: int) -> None:
        self.meter.require_more_room(held, limits, upper, tokens)
        self.meter.take_more(held, upper, tokens)

    def call(self, limits: KeyLimits, cost: str = "1", upper: str = "1", tokens: int = 10) -> None:
        held = self.reserve(limits, Decimal(upper), tokens)
        self.meter.settle(held, Decimal(cost), tokens, self.clock.now())

    def refused(self, limits: KeyLimits, upper: str = "1", tokens: int = 10) -> OverLimit:
        with pytest.raises(OverLimit) as refused:
            self.reserve(limits, Decimal(upper), tokens)
        return refused.value


def test_200_calls_at_once_never_pass_a_limit():
    at, limits = At(), KeyLimits(day=Decimal(10))
    held = []
    for _ in range(200):
        try:
            held.append(at.reserve(limits, Decimal(1), 0))
        except OverLimit as error:
            assert error.limit_name == "day"
            assert error.retry_after == SOON_SECONDS
    assert len(held) == 10
    for one in held:
        at.meter.settle(one, Decimal(1), 0, at.clock.now())
    assert at.meter.used.day == 10
    assert at.refused(limits).retry_after == 12 * 3600


def test_a_call_that_cost_less_than_reserved_gives_the_rest_back():
    at, limits = At(), KeyLimits(total=Decimal(10))
    for _ in range(9):
        at.call(limits, cost="0.1", upper="9")
    assert at.meter.used.total == Decimal("0.9")
    assert at.meter.describe_limits(limits)[0].reserved == 0


def test_a_call_may_reach_a_limit_exactly_and_then_nothing_more_goes():
    at, limits = At(), KeyLimits(total=Decimal(1))
    at.call(limits, cost="1", upper="1")
    assert at.refused(limits, "0").retry_after == NEVER_SECONDS


@pytest.mark.parametrize(
    "name", ["total", "day", "week", "month", "parallel", "requests_per_minute"]
)
def test_a_limit_of_nothing_lets_nothing_through_even_what_is_free(name):
    zero = 0 if name in ("parallel", "requests_per_minute") else Decimal(0)
    assert At().refused(KeyLimits(**{name: zero}), "0", 0).limit_name == name


def test_a_released_or_settled_call_is_settled_once_only():
    at, limits = At(), KeyLimits(total=Decimal(10), parallel=1)
    held = at.reserve(limits, Decimal(5), 10)
    at.meter.settle(held, Decimal(2), 10, at.clock.now())
    at.meter.settle(held, Decimal(2), 10, at.clock.now())
    at.meter.release(held)
    assert at.meter.used.total == 2
    assert [one.reserved for one in at.meter.describe_limits(limits)] == [0, 0]


@pytest.mark.parametrize(
    ("seconds", "left"),
    [
        (0, Used(*[Decimal(1)] * 4)),
        (12 * 3600, Used(Decimal(1), Decimal(0), Decimal(1), Decimal(0))),  # Sunday, February
        (36 * 3600, Used(Decimal(1), Decimal(0), Decimal(0), Decimal(0))),  # Monday
    ],
)
def test_each_window_ends_in_its_time(seconds, left):
    at = At("2026-01-31T12:00:00.000Z")  # a Saturday
    at.call(KeyLimits())
    at.clock.move(seconds)
    assert at.meter.used == left


def test_the_version_is_another_once_an_amount_or_a_window_is():
    """Prices that are corrected may move an amount from one day to another, and no total."""
    at = At("2026-01-31T12:00:00.000Z")
    seen = [at.meter.version, at.meter.version]
    held = at.reserve(KeyLimits(), Decimal(2), 0)
    seen.append(at.meter.version)
    at.meter.settle(held, Decimal(1), 0, at.clock.now())
    seen.append(at.meter.version)
    at.meter.reset_to(Used(total=Decimal(1), month=Decimal(1)))
    seen.append(at.meter.version)
    at.clock.move(12 * 3600)
    seen.append(at.meter.version)
    same = [one == other for one, other in pairwise(seen)]
    assert same == [True, False, False, False, False]


def test_a_call_over_midnight_is_recorded_on_the_day_of_its_end():
    at, limits = At("2026-01-31T23:59:59.000Z"), KeyLimits(day=Decimal(5))
    held = at.reserve(limits, Decimal(5), 0)
    at.clock.move(2)
    assert at.refused(limits, "1").status.reserved == 5
    at.meter.settle(held, Decimal(3), 0, at.clock.now())
    assert at.meter.used.day == 3


def test_after_midnight_the_limits_that_are_shown_are_those_of_the_new_day():
    at, limits = At("2026-01-31T23:59:00.000Z"), KeyLimits(day=Decimal(5))
    soft = SoftLimits(day=Decimal(4))
    at.call(limits, cost="3")
    for status in (*at.meter.describe_limits(limits), *at.meter.describe_soft_limits(soft)):
        assert (status.used, status.resets) == (3, "2026-02-01T00:00:00.000Z")
    at.clock.move(60)
    for status in (*at.meter.describe_soft_limits(soft), *at.meter.describe_limits(limits)):
        assert (status.used, status.resets) == (0, "2026-02-02T00:00:00.000Z")
    at.clock.move(86400)
    (status,) = at.meter.describe_limits(limits)
    assert status.resets == "2026-02-03T00:00:00.000Z"


def test_a_call_that_ends_in_the_next_minute_counts_its_tokens_there():
    at, limits = At(), KeyLimits(tokens_per_minute=100)
    held = at.reserve(limits, Decimal(0), 80)
    at.clock.move(60)
    at.meter.settle(held, Decimal(0), 70, at.clock.now())
    assert at.refused(limits, tokens=31).retry_after == 60


def test_tokens_of_a_call_that_ended_in_the_minute_before_are_not_those_of_this_one():
    at, limits = At("2026-01-31T12:00:59.999Z"), KeyLimits(tokens_per_minute=100)
    held, ended = at.reserve(limits, Decimal(0), 80), at.clock.now()
    at.clock.move(0.001)
    at.meter.settle(held, Decimal(0), 70, ended)
    at.call(limits, tokens=100)


def test_what_is_recorded_for_yesterday_counts_in_yesterday():
    at, limits = At("2026-01-31T23:59:59.999Z"), KeyLimits()
    held, moment = at.reserve(limits, Decimal(5), 0), at.clock.now()
    at.clock.move(0.001)
    at.meter.settle(held, Decimal(3), 0, moment)
    assert at.meter.used == Used(Decimal(3), Decimal(0), Decimal(3), Decimal(0))


def test_what_ends_at_midnight_counts_in_the_day_that_begins():
    at = At("2026-01-31T12:00:00.000Z")
    at.call(KeyLimits(), cost="3")
    at.clock.move(12 * 3600)
    at.call(KeyLimits(), cost="2")
    assert at.clock.now() == "2026-02-01T00:00:00.000Z"
    assert at.meter.used == Used(Decimal(5), Decimal(2), Decimal(5), Decimal(2))
    at.clock.jump(-3600)
    assert at.meter.used.day == 5, "what was spent later is not forgiven"
    at.clock.jump(3600)
    assert at.meter.used.day == 2


def test_what_is_recorded_for_a_time_before_all_known_windows_counts_in_total_alone():
    at = At("2026-03-01T12:00:00.000Z")
    at.meter.add(Decimal(3), 5, "2026-01-31T12:00:00.000Z")
    assert at.meter.used == Used(total=Decimal(3))


def test_what_ends_62_days_after_a_day_began_is_that_of_a_wrong_clock():
    at = At("2026-01-31T12:00:00.000Z")
    at.meter.add(Decimal(1), 0, "2026-04-02T23:59:59.999Z")
    assert at.meter.used.day == 1
    at.meter.add(Decimal(1), 0, "2026-04-03T00:00:00.000Z")
    assert at.meter.used.day == 1
    assert at.meter.used.total == 2


def test_what_is_recorded_62_days_after_an_earlier_day_is_not_counted_in_that_day():
    at = At("2026-01-31T12:00:00.000Z")
    at.call(KeyLimits(), cost="1")
    at.clock.jump(90 * 86400)
    at.call(KeyLimits(), cost="2")
    at.meter.add(Decimal(4), 0, "2026-04-03T00:00:00.000Z")
    at.meter.add(Decimal(8), 0, "2026-04-02T23:59:59.999Z")
    at.clock.jump(-90 * 86400)
    assert at.meter.used.day == 1 + 8
    assert at.meter.used.total == 15


def test_a_clock_that_is_put_back_forgives_nothing():
    at, limits = At("2026-02-01T00:00:01.000Z"), KeyLimits(day=Decimal(5))
    at.call(limits, cost="3")
    at.clock.move(-2)
    at.call(limits, cost="2")
    assert at.refused(limits).limit_name == "day"


@pytest.mark.parametrize("days", [1, 40, -1, -40])
def test_a_clock_that_is_wrong_for_a_while_forgives_nothing(days):
    at, limits = At("2026-02-10T12:00:00.000Z"), KeyLimits(day=Decimal(5))
    at.call(limits, cost="3")
    for _ in range(3):
        at.clock.move(days * 86400)
        at.call(KeyLimits(), cost="0.25")
        at.clock.move(-days * 86400)
    late = Decimal("0.75") if days > 0 else 0
    assert at.meter.used.day == 3 + late
    assert at.meter.used.total == Decimal("3.75")
    at.call(limits, cost="1")
    assert at.refused(limits, "2").status.used == 4 + late
    at.clock.move(86400)
    assert at.meter.used.day == late


@given(
    begin=st.dates(date(2025, 1, 1), date(2027, 1, 1)),
    jumps=st.lists(st.tuples(st.integers(0, KEPT_WINDOWS - 1), st.integers(0, 5)), max_size=8),
)
def test_a_clock_that_returns_to_one_of_the_last_days_finds_all_that_was_spent_since(begin, jumps):
    at = At(f"{begin}T12:00:00.000Z")
    spent: dict[int, int] = {}
    days = [*((day, 1) for day in range(7)), *((6 - back, cost) for back, cost in jumps), (6, 0)]
    for day, cost in days:
        at.clock.jump((day - (parse_iso(at.clock.now()).date() - begin).days) * 86400)
        at.call(KeyLimits(), cost=str(cost))
        spent[day] = spent.get(day, 0) + cost
        assert at.meter.used.day == sum(spent[one] for one in spent if one >= day)
    assert at.meter.used.total == sum(spent.values())


def test_a_day_before_all_that_are_kept_is_kept_while_it_is_the_present_one():
    at = At("2026-02-10T12:00:00.000Z")
    for _ in range(KEPT_WINDOWS):
        at.call(KeyLimits(), cost="1")
        at.clock.move(86400)
    at.clock.jump(-20 * 86400)
    at.call(KeyLimits(), cost="5")
    kept = 5 + KEPT_WINDOWS - 1
    assert at.meter.used.day == kept, "what the oldest of the others had is forgotten"
    at.clock.jump(19 * 86400)
    assert at.meter.used.day == 1
    at.clock.jump(-19 * 86400)
    assert at.meter.used.day == kept


def test_what_was_spent_while_the_clock_was_years_ahead_counts_in_total_alone():
    at = At("2026-02-10T12:00:00.000Z")
    at.call(KeyLimits(), cost="3")
    at.clock.jump(3650 * 86400)
    at.call(KeyLimits(), cost="2")
    assert at.meter.used.day == 2
    late = at.clock.now()
    at.clock.jump(-3650 * 86400)
    assert at.meter.used == Used(Decimal(5), Decimal(3), Decimal(3), Decimal(3))
    at.meter.add(Decimal(1), 0, late)
    for _ in range(40):
        at.clock.move(86400)
        assert at.meter.used.day == 0
    assert at.meter.used == Used(total=Decimal(6))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Santiago"])
def test_the_day_resets_at_the_zones_midnight(zone):
    at, limits = At("2026-09-05T20:00:00.000Z", zone), KeyLimits(day=Decimal(1))
    at.call(limits)
    refused = at.refused(limits)
    wait = parse_iso(refused.status.resets) - parse_iso(at.clock.now())
    assert refused.retry_after == wait.total_seconds()
    at.clock.move(refused.retry_after - 1)
    at.refused(limits)
    at.clock.move(1)
    at.call(limits)


def test_the_limit_that_resets_last_is_the_one_that_is_reported():
    at = At(used=Used(Decimal(9), Decimal(9), Decimal(9), Decimal(9)))
    one = Decimal(1)
    assert at.refused(KeyLimits(day=one, week=one, month=one, total=one)).limit_name == "total"
    assert at.refused(KeyLimits(day=one, week=one, month=one)).limit_name == "month"
    assert at.refused(KeyLimits(day=one, week=one)).limit_name == "week"


def test_amounts_of_more_digits_than_numbers_usually_have_are_not_rounded():
    at, limits = At(), KeyLimits(total=Decimal(1000))
    at.call(limits, cost="999", upper="999")
    assert at.refused(limits, f"1.{'0' * 29}1").status.used == 999
    at.call(limits, cost=f"0.{'0' * 29}1", upper="1")
    assert at.refused(limits, "1").retry_after == NEVER_SECONDS
    at.call(limits, cost=f"0.{'9' * 30}", upper=f"0.{'9' * 30}")
    assert at.meter.used.total == 1000


def test_who_waits_only_for_calls_under_way_is_told_to_come_back_soon():
    at, limits = At(), KeyLimits(day=Decimal(10))
    at.call(limits, cost="6", upper="6")
    at.reserve(limits, Decimal(4), 0)
    assert at.refused(limits, "4").retry_after == SOON_SECONDS
    assert at.refused(limits, "4.1").retry_after == 12 * 3600


def test_the_last_second_of_a_day_is_waited_for():
    at, limits = At("2026-01-31T23:59:59.500Z"), KeyLimits(day=Decimal(1))
    at.call(limits)
    assert at.refused(limits).retry_after == 1


def test_a_refusal_shows_limit_used_reserved_and_reset():
    at, limits = At(), KeyLimits(day=Decimal("2.50"))
    at.call(limits, cost="1.20")
    at.reserve(limits, Decimal("0.5"), 0)
    assert at.refused(limits).message == (
        "The access key's limit is 2.5 USD a day: 1.2 USD used, 0.5 USD reserved by requests under"
        " way, and this request may take up to 1 USD (less if it allows fewer output tokens). It"
        " resets at 2026-02-01T00:00:00.000Z."
    )


def test_a_refusal_of_a_request_tells_of_no_tokens_and_one_in_all_of_no_reset():
    at, limits = At(), KeyLimits(requests_per_minute=1, total=Decimal(1))
    at.call(KeyLimits(), cost="0.25")
    assert at.refused(limits, "0.5").message == (
        "The access key's limit is 1 requests a minute: 1 used. It resets at"
        " 2026-01-31T12:01:00.000Z."
    )
    at.clock.move(60)
    assert at.refused(limits, "0.80").message == (
        "The access key's limit is 1 USD in all: 0.25 USD used, and this request may take up to"
        " 0.8 USD (less if it allows fewer output tokens). It never resets."
    )


def test_a_refusal_tells_of_no_reservation_where_there_is_none():
    at, limits = At(), KeyLimits(day=Decimal("0.50"))
    told = at.refused(limits).message
    assert told.startswith("The access key's limit is 0.5 USD a day: 0 USD used, and this request")


def test_requests_are_counted_by_the_minute_however_they_end():
    at, limits = At("2026-01-31T12:00:20.500Z"), KeyLimits(requests_per_minute=2)
    at.call(limits)
    at.meter.release(at.reserve(limits, Decimal(1), 10))
    assert at.refused(limits).retry_after == 40
    at.clock.move(40)
    at.call(limits)


def test_tokens_are_reserved_and_settled_by_the_minute():
    at, limits = At(), KeyLimits(tokens_per_minute=100)
    held = at.reserve(limits, Decimal(0), 80)
    assert at.refused(limits, tokens=30).retry_after == SOON_SECONDS
    at.meter.settle(held, Decimal(0), 70, at.clock.now())
    assert at.refused(limits, tokens=31).retry_after == 60
    at.call(limits, tokens=30)
    at.clock.move(60)
    at.call(limits, tokens=100)


def test_so_many_calls_run_at_the_same_time_and_no_more():
    at, limits = At(), KeyLimits(parallel=2)
    held = [at.reserve(limits, Decimal(0), 0) for _ in range(2)]
    refused = at.refused(limits)
    assert refused.retry_after == SOON_SECONDS
    assert refused.message.endswith("2 requests at the same time: 2 are under way.")
    at.meter.release(held[0])
    at.reserve(limits, Decimal(0), 0)


def test_a_refused_call_leaves_nothing_behind():
    at, limits = At(), KeyLimits(day=Decimal(1), parallel=5, tokens_per_minute=9)
    at.refused(limits)
    assert [(one.used, one.reserved) for one in at.meter.describe_limits(limits)] == [(0, 0)] * 3


def test_a_call_under_way_takes_what_it_needs_more_and_gives_all_of_it_back():
    limits = KeyLimits(total=Decimal(10), tokens_per_minute=100, parallel=1, requests_per_minute=1)
    at = At()
    held = at.reserve(limits, Decimal(2), 20)
    at.extend(held, limits, Decimal(10), 100)
    reserved = {one.name: one.reserved for one in at.meter.describe_limits(limits)}
    assert (reserved["total"], reserved["tokens_per_minute"]) == (10, 100)
    at.extend(held, limits, Decimal(1), 10)
    kept = [one.reserved for one in at.meter.describe_limits(limits)]
    assert kept[:1] + kept[2:3] == [10, 100], "it never becomes less"
    at.meter.settle(held, Decimal(3), 30, at.clock.now())
    assert at.meter.used.total == 3
    reserved = {one.name: one.reserved for one in at.meter.describe_limits(limits)}
    assert set(reserved.values()) == {0}


@pytest.mark.parametrize(
    ("upper", "tokens", "name"), [("8.1", 20, "total"), ("2", 81, "tokens_per_minute")]
)
def test_more_for_a_call_under_way_never_passes_a_limit(upper, tokens, name):
    limits = KeyLimits(total=Decimal(10), tokens_per_minute=100)
    at = At()
    at.reserve(limits, Decimal(2), 20)
    held = at.reserve(limits, Decimal(2), 20)
    with pytest.raises(OverLimit) as refused:
        at.extend(held, limits, Decimal(upper), tokens)
    assert refused.value.limit_name == name
    assert [one.reserved for one in at.meter.describe_limits(limits)] == [4, 40]
    at.extend(held, limits, Decimal(8), 80)


def test_a_recount_keeps_what_calls_under_way_have_reserved():
    at, limits = At(), KeyLimits(total=Decimal(10))
    at.reserve(limits, Decimal(4), 0)
    calendar_ = WindowCalendar(ZoneInfo("Asia/Kathmandu"), at.clock)
    at.meter.reset_to(Used(Decimal(5), Decimal(5), Decimal(5), Decimal(5)), calendar_)
    assert at.refused(limits, "2").status.used == 5
    assert at.refused(KeyLimits(day=Decimal(0))).status.resets == "2026-01-31T18:15:00.000Z"


def test_a_call_that_needs_no_more_goes_on_though_its_limit_was_lowered():
    at = At()
    held = at.reserve(KeyLimits(day=Decimal(10), tokens_per_minute=100), Decimal(5), 50)
    lowered = KeyLimits(day=Decimal(1), tokens_per_minute=10, parallel=1, requests_per_minute=0)
    at.extend(held, lowered, Decimal(5), 50)
    at.extend(held, lowered, Decimal(4), 40)
    with pytest.raises(OverLimit) as refused:
        at.extend(held, lowered, Decimal("5.1"), 50)
    assert refused.value.limit_name == "day"


class ConcurrentCalls(RuleBasedStateMachine):
    """Calls begin, end, cost and fail in any order while the clock goes on."""

    @initialize(zone=st.sampled_from(ZONES), moment=MOMENTS, limit=USD)
    def begin(self, zone, moment, limit):
        self.at = At(moment, zone)
        self.limits = KeyLimits(total=limit * 4, day=limit, month=limit * 2)
        self.calendar = WindowCalendar(ZoneInfo(zone), self.at.clock)
        self.under_way = []
        self.entries = []

    @rule(upper=USD)
    def reserve(self, upper):
        try:
            self.under_way.append(self.at.reserve(self.limits, upper, 1))
        except OverLimit as error:
            gone = error.status.used + error.status.reserved
            assert gone >= error.status.limit or gone + upper > error.status.limit

    @rule(share=st.fractions(0, 1), which=st.integers(0))
    def settle(self, share, which):
        if self.under_way:
            held = self.under_way.pop(which % len(self.under_way))
            cost = (held.upper * share.numerator / share.denominator).quantize(Decimal("1e-9"))
            cost = min(cost, held.upper)
            now = self.at.clock.now()
            self.at.meter.settle(held, cost, 1, now)
            self.entries.append((now, cost))

    @rule(which=st.integers(0))
    def release(self, which):
        if self.under_way:
            self.at.meter.release(self.under_way.pop(which % len(self.under_way)))

    @rule(seconds=st.floats(0, 100_000))
    def wait(self, seconds):
        self.at.clock.move(seconds)

    @invariant()
    def the_sums_are_those_of_the_entries_and_below_the_limits(self):
        if not hasattr(self, "at"):
            return

        def spent(since: datetime | None) -> Decimal:
            return sum(
                (cost for at, cost in self.entries if not since or parse_iso(at) >= since),
                Decimal(0),
            )

        assert self.at.meter.used == self.calendar.sum_used(spent)
        reserved = sum((held.upper for held in self.under_way), Decimal(0))
        for standing in self.at.meter.describe_limits(self.limits):
            assert standing.reserved == reserved
            # Reserved before midnight, settled after it: what is reserved counts on both days.
            assert standing.used + standing.reserved <= standing.limit


TestCrowd = ConcurrentCalls.TestCase
