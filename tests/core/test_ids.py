"""Keys have the specified form, and nothing repeats, whatever crashes when."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agentd.core import ids
from agentd.core.ids import RESERVED_AHEAD, HighWaterMarks, Sequences

KINDS = ("chat", "prompt", "message", "seq")


def test_a_key_has_the_specified_form():
    assert re.fullmatch(r"agent_[A-Za-z0-9]{32}", ids.generate_key())


def test_nothing_repeats():
    for make in (
        ids.generate_key,
        ids.generate_salt,
        ids.generate_request_id,
        ids.generate_generation,
    ):
        assert len({make() for _ in range(1000)}) == 1000


def test_a_salt_is_128_bits_in_lowercase_hexadecimal():
    assert re.fullmatch(r"[0-9a-f]{32}", ids.generate_salt())


def test_numbers_are_positive_and_rise_by_one():
    numbers = Sequences()
    assert [numbers.next("chat") for _ in range(3)] == [1, 2, 3]
    assert numbers.next("prompt") == 1


def test_nothing_is_short_until_a_number_was_given_out():
    assert Sequences(HighWaterMarks(5, 5, 5, 5)).get_marks_to_reserve() is None


def test_the_shortfall_covers_a_block_ahead_and_is_asked_for_once():
    numbers = Sequences()
    numbers.next("seq")
    marks = numbers.get_marks_to_reserve()
    assert marks == HighWaterMarks(
        RESERVED_AHEAD.chat, RESERVED_AHEAD.prompt, RESERVED_AHEAD.message, 1 + RESERVED_AHEAD.seq
    )
    numbers.mark_reserved(marks)
    for _ in range(RESERVED_AHEAD.seq):
        numbers.next("seq")
        assert numbers.get_marks_to_reserve() is None
    numbers.next("seq")
    assert numbers.get_marks_to_reserve() is not None


marks = st.builds(HighWaterMarks, *[st.integers(0, 9)] * 4)


@given(marks, marks)
def test_merged_marks_are_the_larger_of_each(one, other):
    merged = one.merge(other)
    for kind in KINDS:
        assert getattr(merged, kind) == max(getattr(one, kind), getattr(other, kind))


@given(st.lists(st.sampled_from([*KINDS, "write", "write and crash", "crash"]), max_size=60))
def test_no_written_number_is_given_out_again_after_any_crash(steps):
    """Stored marks cover every written id first; a new run begins with those."""
    stored, numbers = HighWaterMarks(), Sequences()
    given_out: list[tuple[str, int]] = []
    written: set[tuple[str, int]] = set()
    for step in steps:
        if step in KINDS:
            pair = (step, numbers.next(step))
            assert pair not in written
            given_out.append(pair)
            continue
        if step != "crash":
            if short := numbers.get_marks_to_reserve():
                stored = short
                numbers.mark_reserved(short)
            written.update(given_out)
            given_out = []
        if step != "write":
            numbers, given_out = Sequences(stored), []
