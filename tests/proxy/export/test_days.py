"""What is pending, partial, done and changed, and what follows."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agentd.errors import BadRequest, DatabaseRefused, Misconfigured, SupplierUnreachable
from agentd.proxy.export.days import (
    Chunk,
    Day,
    Span,
    begun,
    compared,
    done,
    missed,
    planned,
    sent,
    to_do,
    token,
)
from agentd.proxy.export.waiting import LONG, OFTEN, lasting, wait

AT = "2026-01-02T00:02:00.000Z"
ONE, TWO = Chunk(0, 100, 3, "a"), Chunk(100, 150, 2, "b")


def whole() -> Day:
    day = begun(Day(), 5)
    for chunk in (ONE, TWO):
        day = sent(planned(day, chunk), AT)
    return day


def test_a_day_goes_from_pending_over_partial_to_done():
    day = begun(Day(), 5)
    assert (day.state, day.version, day.end, day.rows) == ("pending", 5, 0, 0)
    day = planned(day, ONE)
    assert (day.state, day.rows, day.doubtful) == ("partial", 0, ONE)
    day = sent(day, AT)
    assert (day.state, day.rows, day.doubtful, day.end) == ("partial", 3, None, 100)
    day = done(sent(planned(day, TWO), AT), "ab", (1, 2, 150), AT)
    assert (day.state, day.rows, day.end) == ("done", 5, 150)
    assert day.chunks == (Chunk(0, 150, 5, "ab", AT),)


def test_a_day_that_is_done_and_others_now_is_changed_and_begun_with_a_later_version():
    day = done(whole(), "ab", (1, 2, 150), AT)
    assert compared(day, (1, 3, 150), ["ab"]).state == "done"
    changed = compared(day, (2, 3, 150), ["xy"])
    assert changed.state == "changed"
    assert begun(changed, 9).version == 9
    assert begun(changed, 1).version == 6  # the clock went back


def test_a_day_that_only_grew_is_sent_on():
    grown = compared(done(whole(), "ab", (1, 2, 150), AT), (1, 3, 200), ["ab"])
    assert (grown.state, grown.rows, grown.end) == ("partial", 5, 150)


def test_a_part_that_is_others_now_makes_the_whole_day_changed():
    assert compared(whole(), (2, 3, 150), ["a", "x"]).state == "changed"
    assert compared(whole(), (1, 3, 150), ["a", "b"]).state == "partial"


def test_only_what_is_closed_and_late_enough_is_sent_by_itself_but_any_day_that_is_wanted():
    days = {
        "2026-01-01": Day(),
        "2026-01-02": Day(wanted=True),
        "2026-01-03": done(whole(), "", (0, 0, 0), AT),
        "2026-01-04": structs.replace(whole(), changed=True),
    }
    there = [*days, "2026-01-05", "2026-01-06"]
    assert list(to_do(days, there, Span("2026-01-03", "2026-01-05"))) == [
        "2026-01-02",
        "2026-01-04",
        "2026-01-05",
    ]
    assert missed(days, there, "2026-01-01", "2026-01-04") == [
        "2026-01-01",
        "2026-01-02",
        "2026-01-04",
    ]


@given(st.sets(st.tuples(st.integers(1, 9), st.integers(0, 9), st.sampled_from("abc"))))
def test_no_two_chunks_have_the_same_token(chunks):
    tokens = {
        token("s", "2026-01-01", Day(version=version), Chunk(begin, begin + 1, 1, sum_))
        for version, begin, sum_ in chunks
    }
    assert len(tokens) == len(chunks)


def test_who_is_gone_is_asked_again_soon_and_then_less_often():
    gone = SupplierUnreachable("gone", "connect", "h")
    waits = [wait(gone, failures) for failures in range(1, 30)]
    assert waits[:4] == [1, 2, 4, 8]
    assert waits[-1] == OFTEN
    assert wait(DatabaseRefused("", 252), 1) == 60
    assert not lasting(gone)


def test_what_a_person_has_to_mend_is_not_tried_again_and_again():
    for error in (
        *(DatabaseRefused("", code) for code in (0, 16, 27, 47, 60, 117, 193, 497, 516)),
        Misconfigured([]),
        BadRequest(""),
    ):
        assert lasting(error)
        assert wait(error, 1) == LONG
    for code in (159, 202, 209, 210, 241, 242, 252):
        assert not lasting(DatabaseRefused("", code))
