"""Keys have the specified form, and nothing repeats, whatever crashes when."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agentd import ids
from agentd.ids import BLOCK, Marks, Sequences

KINDS = ("chat", "prompt", "message", "seq")


def test_a_key_has_the_specified_form():
    assert re.fullmatch(r"agent_[A-Za-z0-9]{32}", ids.new_key())


def test_nothing_repeats():
    for make in (ids.new_key, ids.new_salt, ids.new_request_id, ids.new_generation):
        assert len({make() for _ in range(1000)}) == 1000


def test_a_salt_is_128_bits_in_lowercase_hexadecimal():
    assert re.fullmatch(r"[0-9a-f]{32}", ids.new_salt())


def test_numbers_are_positive_and_rise_by_one():
    numbers = Sequences()
    assert [numbers.next("chat") for _ in range(3)] == [1, 2, 3]
    assert numbers.next("prompt") == 1


def test_nothing_is_short_until_a_number_was_given_out():
    assert Sequences(Marks(5, 5, 5, 5)).shortfall() is None


def test_the_shortfall_covers_a_block_ahead_and_is_asked_for_once():
    numbers = Sequences()
    numbers.next("seq")
    marks = numbers.shortfall()
    assert marks == Marks(BLOCK.chat, BLOCK.prompt, BLOCK.message, 1 + BLOCK.seq)
    numbers.reserved(marks)
    for _ in range(BLOCK.seq):
        numbers.next("seq")
        assert numbers.shortfall() is None
    numbers.next("seq")
    assert numbers.shortfall() is not None


marks = st.builds(Marks, *[st.integers(0, 9)] * 4)


@given(marks, marks)
def test_merged_marks_are_the_larger_of_each(one, other):
    merged = one.merged(other)
    for kind in KINDS:
        assert getattr(merged, kind) == max(getattr(one, kind), getattr(other, kind))


@given(st.lists(st.sampled_from([*KINDS, "write", "write and crash", "crash"]), max_size=60))
def test_no_written_number_is_given_out_again_after_any_crash(steps):
    """What is written is covered by stored marks first; a new life begins with those."""
    stored, numbers = Marks(), Sequences()
    given_out: list[tuple[str, int]] = []
    written: set[tuple[str, int]] = set()
    for step in steps:
        if step in KINDS:
            pair = (step, numbers.next(step))
            assert pair not in written
            given_out.append(pair)
            continue
        if step != "crash":
            if short := numbers.shortfall():
                stored = short
                numbers.reserved(short)
            written.update(given_out)
            given_out = []
        if step != "write":
            numbers, given_out = Sequences(stored), []
