"""A text is replaced exactly where it stands, or told why not."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.agent.tools.edit import replace_text
from agentd.core.errors import BadRequest
from tests.support.processor import busy_for_less_than

SOURCE = "def boil(water):\n    heat(water)\n    return water\n\n\ndef cool(water):\n    wait()\n"

SMALL = st.text("ab \n", max_size=12)


@given(SMALL, SMALL.filter(bool), SMALL, SMALL)
def test_what_stands_once_is_replaced_and_the_rest_is_untouched(before, old, new, after):
    text = before + old + after
    if text.count(old) == 1 and old != new and text.find(old) == len(before):
        assert replace_text(text, old, new) == (before + new + after, 1)


@given(SMALL, SMALL.filter(bool), SMALL)
def test_everywhere_replaces_each_place_and_counts_them(text, old, new):
    try:
        after, places = replace_text(text, old, new, everywhere=True)
    except BadRequest:
        assert old not in text or old == new
    else:
        assert (after, places) == (text.replace(old, new), text.count(old))


@given(SMALL, SMALL, SMALL)
def test_it_either_changes_the_text_or_says_why_not(text, old, new):
    try:
        after, places = replace_text(text, old, new)
    except BadRequest as error:
        assert error.message
    else:
        assert after != text
        assert places == 1


def test_a_text_that_stands_several_times_is_refused_with_its_lines():
    with pytest.raises(BadRequest, match=r"occurs in 4 places \(lines 1, 2, 3, 6\)"):
        replace_text(SOURCE, "water", "tea")
    with pytest.raises(BadRequest, match=r"40 places .*, …\)"):
        replace_text("a\n" * 40, "a", "b")


def test_a_text_that_does_not_exist_is_refused_with_the_nearest_lines():
    with pytest.raises(BadRequest) as caught:
        replace_text(SOURCE, "def boil(water):\n    heat(the_water)\n", "x")
    assert "nearest lines" in caught.value.message
    assert "1: def boil(water):\n2:     heat(water)" in caught.value.message
    with pytest.raises(BadRequest, match="No line is similar"):
        replace_text(SOURCE, "completely different @@@@", "x")


def test_the_nearest_lines_begin_where_the_wanted_text_would():
    with pytest.raises(BadRequest) as caught:
        replace_text(SOURCE, "\n\ndef cool(watr):\n", "x")
    assert "4: \n5: \n6: def cool(water):" in caught.value.message


def test_the_nearest_lines_are_numbered_as_editors_do_with_form_feeds_before_them():
    with pytest.raises(BadRequest) as caught:
        replace_text(f"\f\n\u2028\n{SOURCE}", "def boil(watr):\n", "x")
    assert "3: def boil(water):" in caught.value.message


def test_line_ends_of_another_system_are_kept():
    assert replace_text("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz") == ("x\r\ny\r\nz\r\nc\r\n", 1)
    assert replace_text("a\r\nb", "b", "c") == ("a\r\nc", 1)
    assert replace_text("a\r\nb\r\n", "b", "x\ny") == ("a\r\nx\r\ny\r\n", 1)


def test_line_ends_can_be_what_changes():
    assert replace_text("a\r\nb\r\n", "\r\n", "\n", everywhere=True) == ("a\nb\n", 2)
    assert replace_text("a\r\nb\n", "b\n", "c\n") == ("a\r\nc\n", 1)


def test_nothing_to_do_is_reported():
    with pytest.raises(BadRequest, match="empty"):
        replace_text(SOURCE, "", "x")
    with pytest.raises(BadRequest, match="Nothing would change"):
        replace_text(SOURCE, "heat", "heat")


def test_looking_for_the_nearest_line_takes_no_time_in_a_large_file():
    text = "".join(f"{'x' * 190} {number}\n" for number in range(200_000))
    with pytest.raises(BadRequest), busy_for_less_than(5):
        replace_text(text, "x" * 150 + "y" * 40 + "\nz", "n")


def test_nor_does_it_where_all_lines_have_the_same_letters():
    chance = random.Random(7)  # noqa: S311 - no secret
    lines = ["".join(chance.choices("ACGT", k=190)) for _ in range(6000)]
    wanted = f"{lines[1234][:180]}{'C' * 10}"
    with pytest.raises(BadRequest, match="1235: ") as caught, busy_for_less_than(3):
        replace_text("\n".join(lines), wanted, "n")
    assert lines[1234] in caught.value.message
