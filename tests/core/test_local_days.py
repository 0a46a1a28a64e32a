"""Days of a time zone, made of the days of UTC: none is lost, doubled or cut at a wrong moment."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.clock import format_iso
from agentd.core.local_days import (
    get_day_start,
    get_local_day,
    get_slot_minutes,
    get_today,
    get_utc_range,
    is_utc,
    split_utc_days,
)

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "America/Sao_Paulo",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Kiritimati",
    "Africa/Cairo",
    "Asia/Beirut",
)
"""Some put their clocks forward over midnight, by half an hour, or left out a whole day."""

zones = st.sampled_from(ZONES).map(ZoneInfo)
days = st.dates(date(2010, 1, 1), date(2036, 12, 31))
moments = st.datetimes(datetime(2010, 1, 1), datetime(2036, 12, 31), timezones=st.just(UTC))


@given(zones, days)
def test_a_day_begins_where_the_one_before_ends_and_takes_about_a_day(zone, day):
    begin, end = get_day_start(day, zone), get_day_start(day + timedelta(days=1), zone)
    assert begin.tzinfo == UTC
    assert timedelta() <= end - begin <= timedelta(hours=26)
    assert begin.astimezone(zone).date() >= day
    assert (begin - timedelta(seconds=1)).astimezone(zone).date() < day


@given(zones, moments)
def test_a_moment_is_in_the_day_that_began_last(zone, moment):
    day = get_local_day(moment, zone)
    assert get_day_start(day, zone) <= moment < get_day_start(day + timedelta(days=1), zone)


@given(zones, days, st.integers(0, 40))
def test_pieces_cover_each_local_day_once_from_its_begin_to_its_end(zone, first, more):
    last = first + timedelta(days=more)
    begin, end = get_utc_range(first.isoformat(), last.isoformat(), zone)
    count = (end.date() - begin.date()).days + 3
    known = [(begin.date() + timedelta(days=n - 1)).isoformat() for n in range(count)]
    found = list(split_utc_days(known, first.isoformat(), last.isoformat(), zone))
    assert found[0].begin == begin
    assert found[-1].end == end
    for one, following in pairwise(found):
        assert one.end == following.begin
    for piece in found:
        assert piece.begin < piece.end
        assert piece.begin.date().isoformat() == piece.utc_day
        for moment in (piece.begin, piece.end - timedelta(microseconds=1)):
            assert get_local_day(moment, zone).isoformat() == piece.local_day
            assert moment.date().isoformat() == piece.utc_day


@given(zones, moments)
def test_every_local_day_begins_at_a_slot(zone, moment):
    begin = get_day_start(get_local_day(moment, zone), zone)
    assert begin.minute % get_slot_minutes(zone) == 0 and begin.second == 0


@pytest.mark.parametrize(
    ("zone", "minutes"),
    [
        ("UTC", 60),
        ("Europe/Berlin", 60),
        ("Asia/Kolkata", 30),
        ("Asia/Kathmandu", 15),
        ("Australia/Lord_Howe", 30),
        ("America/St_Johns", 30),
    ],
)
def test_hours_are_cut_as_finely_as_a_zone_needs(zone, minutes):
    assert get_slot_minutes(ZoneInfo(zone)) == minutes
    assert is_utc(ZoneInfo(zone)) == (zone == "UTC")


def test_half_an_hour_after_midnight_in_berlin_is_the_next_day():
    berlin = ZoneInfo("Europe/Berlin")
    assert get_today(berlin, "2026-07-15T22:30:00.000Z") == "2026-07-16"
    assert get_today(berlin, "2026-07-15T21:59:59.999Z") == "2026-07-15"
    assert format_iso(get_day_start(date(2026, 3, 29), berlin)) == "2026-03-28T23:00:00.000Z"
    assert format_iso(get_day_start(date(2026, 3, 30), berlin)) == "2026-03-29T22:00:00.000Z"
