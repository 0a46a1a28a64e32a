"""The end of a limit, as coding agents write it, is parsed to the moment that they mean."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentd.agent.reset_time import LONGEST_WAIT, lasts_longer, parse_reset_time
from tests.support.processor import busy_for_less_than

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 22, 13, 30, tzinfo=BERLIN)

zones = st.sampled_from(
    ["Europe/Berlin", "America/Los_Angeles", "Asia/Calcutta", "Pacific/Auckland", "UTC"]
).map(ZoneInfo)
moments = st.datetimes(datetime(2026, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))
minutes_ahead = st.integers(1, LONGEST_WAIT // timedelta(minutes=1) - 1)


def format_codex_day(moment: datetime) -> str:
    """Return a date as Codex writes it, such as ``Aug 8th, 2026``."""
    day = moment.day
    suffix = "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{moment:%b} {day}{suffix}, {moment:%Y}"


def format_time_of_day(moment: datetime) -> str:
    """Return a time such as ``3:28 PM``."""
    return f"{moment.hour % 12 or 12}:{moment:%M} {moment:%p}"


def is_told_once(moment: datetime, zone: ZoneInfo) -> bool:
    """False within the hours at a change of the clocks that are there twice."""
    naive = moment.astimezone(zone).replace(tzinfo=None)
    return all(naive.replace(tzinfo=zone, fold=fold) == moment for fold in (0, 1))


@pytest.mark.parametrize(
    ("told", "moment"),
    [
        ("You've hit your session limit · resets 3pm", "2026-11-22T15:00"),
        ("You've hit your session limit · resets 3:20am (Asia/Calcutta)", "2026-11-23T03:20+05:30"),
        ("You've hit your weekly limit · resets Nov 25 at 7pm", "2026-11-25T19:00"),
        ("Resets Jan 12, 10:59am (America/New_York)", ""),
        ("Resets Dec 12, 10:59am (America/New_York)", "2026-12-12T10:59-05:00"),
        (
            "Claude usage limit reached. Your limit will reset at 1pm (Etc/GMT+5).",
            "2026-11-22T18:00Z",
        ),
        ("Limits will reset at 9:30 AM. View your usage details.", "2026-11-23T09:30"),
        ("Claude AI usage limit reached|1795400000", "2026-11-23T02:13:20Z"),
        ("Weekly limit reached · resets 12am (Europe/Berlin) · /upgrade", "2026-11-23T00:00"),
        (
            "You've hit your usage limit. Upgrade (https://x.y) or try again at 3:28 PM.",
            "2026-11-22T15:28",
        ),
        ("or try again at Nov 25th, 2026 10:12 AM.", "2026-11-25T10:12"),
        ("or try again at Nov 25, 2026, 10:12\u202fAM", "2026-11-25T10:12"),
        ("Try again at 2026-11-25T10:12:00Z.", "2026-11-25T10:12Z"),
        ("The quota resets at 2026-11-25 10:12:30 UTC", "2026-11-25T10:12:30Z"),
        ("try again at 2026-11-25T10:12:00.123456+02:00", "2026-11-25T10:12:00.123456+02:00"),
        ("It resets at 18:05", "2026-11-22T18:05"),
        ("Usage resets 6pm UTC", "2026-11-22T18:00Z"),
        ("Try again later. Limits reset at noon, try again at 3pm.", "2026-11-22T15:00"),
        # No moment, or none that can be meant.
        ("Try again later.", ""),
        ("Try again at 3.", ""),
        ("resets 13pm", ""),
        ("resets at 25:00", ""),
        ("resets Feb 30 at 3pm", ""),
        ("resets 3pm (Not/AZone)", ""),
        ("resets 3pm (America)", ""),
        ("try again at Aug 20, 2026, 7:38 AM", ""),
        ("try again at 2027-11-25T10:12:00Z", ""),
        ("resets 1:25 PM", ""),
        ("usage limit reached|9999999999", ""),
    ],
)
def test_the_words_of_real_programs(told: str, moment: str) -> None:
    found = parse_reset_time(told, NOW, BERLIN)
    expected = datetime.fromisoformat(moment) if moment else None
    if expected and not expected.tzinfo:
        expected = expected.replace(tzinfo=BERLIN)
    assert found == expected


@given(moments, minutes_ahead, zones)
@example(datetime(2026, 12, 31, 22, tzinfo=UTC), 180, ZoneInfo("UTC"))
@example(datetime(2028, 1, 31, tzinfo=UTC), 29 * 24 * 60, ZoneInfo("UTC"))  # February 29
def test_a_date_and_time_within_a_month_is_understood_to_the_minute(now, minutes, zone):
    until = (now + timedelta(minutes=minutes)).replace(second=0, microsecond=0)
    if until <= now or not is_told_once(until, zone):
        return
    there = until.astimezone(zone)
    codex = f"try again at {format_codex_day(there)} {format_time_of_day(there)}."
    claude = (
        f"resets {there:%b} {there.day} at {format_time_of_day(there).replace(' ', '').lower()}"
    )
    for told in (codex, claude, f"Try again at {there.isoformat()}", f"{claude} ({zone.key})"):
        assert parse_reset_time(told, now, zone) == until


@given(moments, st.integers(1, 22 * 60), zones)
def test_a_time_of_day_is_the_next_such_time(now, minutes, zone):
    until = (now + timedelta(minutes=minutes)).replace(second=0, microsecond=0)
    if until <= now or not is_told_once(until, zone):
        return
    told = f"resets {format_time_of_day(until.astimezone(zone))} ({zone.key})"
    assert parse_reset_time(told, now) == until


@given(st.text(), st.text(), moments)
def test_no_text_leads_to_a_moment_that_is_over_or_beyond_a_month(before, after, now):
    for words in (
        "try again at ",
        "resets ",
        "resets 3pm (",
        "resets at 2026-01-02T",
        "resets Jan ",
    ):
        found = parse_reset_time(f"{before}{words}{after}", now, UTC)
        assert found is None or now < found <= now + LONGEST_WAIT


def test_without_a_zone_it_is_the_machines_own_time():
    now = datetime.now(UTC)
    until = (now + timedelta(hours=3)).replace(second=0, microsecond=0)
    there = until.astimezone()
    told = f"try again at {format_codex_day(there)} {format_time_of_day(there)}"
    assert parse_reset_time(told, now) == until


def test_a_long_text_costs_no_more_than_a_short_one():
    with busy_for_less_than(0.5):
        parse_reset_time("resets 1 " * 200_000, NOW, BERLIN)


@pytest.mark.parametrize(
    ("told", "longer"),
    [
        ("The access key's limit is 5 USD a day: 5 USD used. It resets at {later}.", True),
        ("The access key's limit is 5 USD in all: 5 USD used. It never resets.", True),
        ("The limit is 9 requests a minute: 9 used. It resets at {soon}.", False),
        ("2 USD used, 3 USD reserved by requests under way. It never resets.", False),
        ("Too many requests. Try again later.", False),
        ("A cookie never resets it.", False),
    ],
)
def test_whether_a_limit_outlasts_a_wait_is_said_by_its_message(told: str, longer: bool) -> None:
    moments = {
        name: (NOW + timedelta(seconds=seconds)).astimezone(UTC).isoformat()
        for name, seconds in (("soon", 599), ("later", 601))
    }
    assert lasts_longer(told.format_map(moments), 600, NOW) == longer
