"""A moment is written in one way, read in many, and never in an order of its own."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.core.clock import (
    FrozenClock,
    SystemClock,
    format_iso,
    format_iso_rounded_up,
    parse_iso,
    require_timestamps,
)

AT = "2026-01-01T00:00:00.000Z"
moments = st.datetimes(timezones=st.just(UTC))


@given(moments)
def test_a_written_moment_is_read_back_to_the_millisecond(moment):
    text = format_iso(moment)
    assert len(text) == 24
    assert parse_iso(text) == moment - timedelta(microseconds=moment.microsecond % 1000)


@given(moments, moments)
def test_the_order_of_the_texts_is_the_order_of_the_moments(one, other):
    assert (format_iso(one) < format_iso(other)) == (
        parse_iso(format_iso(one)) < parse_iso(format_iso(other))
    )


@given(moments)
def test_not_before_is_the_first_writable_moment_that_is_not_before(moment):
    written = format_iso_rounded_up(moment)
    if moment < datetime(9999, 12, 31, 23, 59, 59, 999000, UTC):
        assert parse_iso(written) >= moment
        assert parse_iso(written) - moment < timedelta(milliseconds=1)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21T07:50:00.123Z",
        "2026-11-21T07:50:00.123+00:00",
        "2026-11-21T07:50:00.123",
        "2026-11-21 07:50:00.123",
        "2026-11-21T09:50:00.123+02:00",
        "2026-11-21T09:50:00.123 02:00",
        "2026-11-21 09:50:00.123 02:00",
        "2026-11-21 09:50:00.123000 02:00",
        "2026-11-21T09:50:00.123 +0200",
        "2026-11-21 09:50:00.123 +02:00",
        "2026-11-21T02:50:00.123 -05:00",
        "2026-11-21t07:50:00.123z",
        "2026-11-21 07:50:00.123 Z",
        "2026-11-21T02:50:00.123-05:00",
        "  2026-11-21T07:50:00.123Z  ",
    ],
)
def test_any_iso_8601_spelling_is_understood(text):
    """A ``+`` in an address arrives as a space; without a zone it is UTC."""
    assert format_iso(parse_iso(text)) == "2026-11-21T07:50:00.123Z"


@pytest.mark.parametrize(
    "text", ["", " ", "now", "2026-13-01", "2026-11-21T25:00", "1", "0001-01-01T00:00+01:00", "\0"]
)
def test_anything_else_is_a_value_error(text):
    with pytest.raises(ValueError):
        parse_iso(text)


@given(st.text(max_size=40))
def test_no_text_raises_anything_but_a_value_error(text):
    with suppress(ValueError):
        parse_iso(text)


@given(st.datetimes(max_value=datetime(8999, 12, 31), timezones=st.just(UTC)))
def test_a_written_moment_is_a_timestamp_to_which_a_lifetime_can_be_added(moment):
    require_timestamps(format_iso(moment))
    parse_iso(format_iso(moment)) + timedelta(days=10_000)


@pytest.mark.parametrize(
    "text",
    [
        *("", "2026-99-99T99:99:99.999Z", "2026-02-30T00:00:00.000Z", "2026-01-01", "yesterday"),
        *("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000+00:00", "9999-12-31T23:59:59.999Z"),
    ],
)
def test_what_is_written_otherwise_or_too_late_is_no_timestamp(text):
    with pytest.raises(ValueError):
        require_timestamps(AT, text)


def test_a_frozen_clock_moves_only_when_moved_and_its_monotonic_side_never_back():
    clock = FrozenClock("2026-01-01T00:00:00.000Z")
    clock.move(1.5)
    clock.move(-3600)
    assert (clock.now(), clock.monotonic()) == ("2025-12-31T23:00:01.500Z", 1.5)


def test_the_system_clock_shows_the_present():
    clock = SystemClock()
    before, result, after = datetime.now(UTC), parse_iso(clock.now()), datetime.now(UTC)
    assert before - timedelta(milliseconds=1) <= result <= after
    assert clock.monotonic() <= clock.monotonic()
