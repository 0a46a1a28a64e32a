"""The public form of a message and of a status (the specification, sections 2 and 3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentd.chats.model import Message, derive_status, simplify_message, strip_buttons

AT = "2026-01-01T00:00:00.000Z"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (Message(1, "user", "  as it is [[No]]\n[[Button]]", AT), "  as it is [[No]]\n[[Button]]"),
        (Message(1, "assistant", "Done.\n[[Go on]]", AT), "Done."),
        (Message(1, "error", "It broke.\n[[Retry]]", AT), "It broke.\n[[Retry]]"),
        (Message(1, "tool", "{}\n\n3 files", AT, tool="list_files"), "Tool: list_files"),
    ],
)
def test_content_is_simplified_by_role(message, shown):
    """Section 2, 'Message object', content."""
    assert simplify_message(message) == shown


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        ("Shall I?\n\n[[Yes]] [[No]]", "Shall I?"),
        ("Shall I?\n[[Yes|Please do it]]\n\n[[No]]\n", "Shall I?"),
        ("[[Yes]]", ""),
        ("See [[Label]] in the text", "See [[Label]] in the text"),
        ("[[Yes]]\nThen more text", "[[Yes]]\nThen more text"),
        ("Ends in a blank line\n\n", "Ends in a blank line\n\n"),
        ("A list: [[1, 2], [3, 4]]", "A list: [[1, 2], [3, 4]]"),
        ("Code:\n    x[[0]]", "Code:\n    x[[0]]"),
        ("Empty\n[[]]", "Empty\n[[]]"),
        ("", ""),
    ],
)
def test_only_lines_of_button_marks_at_the_end_are_stripped(reply, shown):
    assert strip_buttons(reply) == shown


@given(st.text(alphabet="[]| a\n"))
def test_stripping_twice_is_stripping_once_and_only_shortens(reply):
    once = strip_buttons(reply)
    assert reply.startswith(once)
    assert strip_buttons(once) == once


def test_a_hostile_end_takes_no_longer_than_in_proportion_to_it():
    hostile = "x\n" + "[[a]] " * 50_000 + "[["
    assert strip_buttons(hostile) == hostile


@pytest.mark.parametrize(
    ("working", "waiting", "status"),
    [
        (True, True, "processing"),
        (True, False, "processing"),
        (False, True, "queued"),
        (False, False, "completed"),
    ],
)
def test_the_status_rule(working, waiting, status):
    """Section 3, the rule for the value returned by the status endpoint."""
    assert derive_status(working=working, waiting=waiting) == status
