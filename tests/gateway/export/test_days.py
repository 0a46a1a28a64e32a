"""The export state of a day: pending, partial, done or changed, and the next step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agentd.core.errors import BadRequest, ConfigError, DatabaseError, SupplierUnreachable
from agentd.gateway.export.days import (
    Chunk,
    DayProgress,
    DaySpan,
    begin,
    compare,
    create_token,
    iter_due,
    list_missed,
    mark_done,
    mark_sent,
    plan_chunk,
)
from agentd.gateway.export.retry import MAX_DELAY, PERMANENT_DELAY, compute_delay, is_permanent

AT = "2026-01-02T00:02:00.000Z"
ONE, TWO = Chunk(0, 100, 3, "a"), Chunk(100, 150, 2, "b")


def build_complete_day() -> DayProgress:
    day = begin(DayProgress(), 5)
    for chunk in (ONE, TWO):
        day = mark_sent(plan_chunk(day, chunk), AT)
    return day


def test_a_day_goes_from_pending_over_partial_to_done():
    day = begin(DayProgress(), 5)
    assert (day.state, day.version, day.end, day.rows) == ("pending", 5, 0, 0)
    day = plan_chunk(day, ONE)
    assert (day.state, day.rows, day.doubtful) == ("partial", 0, ONE)
    day = mark_sent(day, AT)
    assert (day.state, day.rows, day.doubtful, day.end) == ("partial", 3, None, 100)
    day = mark_done(mark_sent(plan_chunk(day, TWO), AT), "ab", (1, 2, 150), AT)
    assert (day.state, day.rows, day.end) == ("done", 5, 150)
    assert day.chunks == (Chunk(0, 150, 5, "ab", AT),)


def test_a_day_that_is_done_and_others_now_is_changed_and_begun_with_a_later_version():
    day = mark_done(build_complete_day(), "ab", (1, 2, 150), AT)
    assert compare(day, (1, 3, 150), ["ab"]).state == "done"
    changed = compare(day, (2, 3, 150), ["xy"])
    assert changed.state == "changed"
    assert begin(changed, 9).version == 9
    assert begin(changed, 1).version == 6  # the clock went back


def test_a_day_that_only_grew_is_sent_on():
    grown = compare(mark_done(build_complete_day(), "ab", (1, 2, 150), AT), (1, 3, 200), ["ab"])
    assert (grown.state, grown.rows, grown.end) == ("partial", 5, 150)


def test_a_part_that_is_others_now_makes_the_whole_day_changed():
    assert compare(build_complete_day(), (2, 3, 150), ["a", "x"]).state == "changed"
    assert compare(build_complete_day(), (1, 3, 150), ["a", "b"]).state == "partial"


def test_only_what_is_closed_and_late_enough_is_sent_by_itself_but_any_day_that_is_wanted():
    days = {
        "2026-01-01": DayProgress(),
        "2026-01-02": DayProgress(wanted=True),
        "2026-01-03": mark_done(build_complete_day(), "", (0, 0, 0), AT),
        "2026-01-04": structs.replace(build_complete_day(), changed=True),
    }
    there = [*days, "2026-01-05", "2026-01-06"]
    assert list(iter_due(days, there, DaySpan("2026-01-03", "2026-01-05"))) == [
        "2026-01-02",
        "2026-01-04",
        "2026-01-05",
    ]
    assert list_missed(days, there, "2026-01-01", "2026-01-04") == [
        "2026-01-01",
        "2026-01-02",
        "2026-01-04",
    ]


@given(st.sets(st.tuples(st.integers(1, 9), st.integers(0, 9), st.sampled_from("abc"))))
def test_no_two_chunks_have_the_same_token(chunks):
    tokens = {
        create_token(
            "s", "2026-01-01", DayProgress(version=version), Chunk(begin, begin + 1, 1, sum_)
        )
        for version, begin, sum_ in chunks
    }
    assert len(tokens) == len(chunks)


def test_a_client_that_is_gone_is_asked_again_soon_and_then_less_often():
    gone = SupplierUnreachable("gone", "connect", "h")
    waits = [compute_delay(gone, failures) for failures in range(1, 30)]
    assert waits[:4] == [1, 2, 4, 8]
    assert waits[-1] == MAX_DELAY
    assert compute_delay(DatabaseError("", 252), 1) == 60
    assert not is_permanent(gone)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (75, "Cannot write to file /data/tmp_insert_a8_19_19_0/channel.mrk, errno: 28"),
        (243, "Cannot reserve 1.00 MiB, not enough space"),
        (1001, "filesystem error: in create_directories: No space left on device"),
    ],
)
def test_a_database_with_a_full_disk_is_tried_again_without_a_person(code: int, words: str):
    error = DatabaseError(f"The analytics database returned error {code}: {words}", code)
    assert not is_permanent(error)
    assert [compute_delay(error, failures) for failures in (1, 2, 10)] == [60, 120, MAX_DELAY]


def test_what_a_person_has_to_mend_is_not_tried_again_and_again():
    for error in (
        *(DatabaseError("", code) for code in (0, 16, 27, 47, 60, 117, 193, 497, 516)),
        ConfigError([]),
        BadRequest(""),
    ):
        assert is_permanent(error)
        assert compute_delay(error, 1) == PERMANENT_DELAY
    for code in (159, 202, 209, 210, 241, 242, 252):
        assert not is_permanent(DatabaseError("", code))
