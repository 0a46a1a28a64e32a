"""What the conversations with foreign programs share."""

import os
from pathlib import Path

import pytest

from agentd.agent.engine import Assignment
from agentd.agent.foreign import (
    GO_ON,
    LONGEST_PAST,
    Access,
    Bounds,
    Endpoint,
    prompted,
    resumed_prompt,
    shortened,
)
from agentd.chats.chat import Message

BOUNDS = Bounds("/home/someone/project")


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("a.txt", True),
        ("/home/someone/project", True),
        ("/home/someone/project/src/a.py", True),
        ("src/../a.txt", True),
        ("../a.txt", False),
        ("/home/someone/project/../other", False),
        ("/home/someone/project-two/a", False),
        ("/etc/passwd", False),
        ("a\0b", False),
    ],
)
def test_a_path_is_inside_the_workspace_or_not(path: str, inside: bool) -> None:
    assert BOUNDS.holds(path) is inside


def test_one_path_outside_makes_a_change_outside_and_so_does_none_at_all() -> None:
    assert BOUNDS.writing(["a", "b/c"]) == Access("write")
    assert BOUNDS.writing(["a", "/srv/x"]) == Access("outside")
    assert BOUNDS.writing([]) == Access("outside")


def test_a_link_out_of_the_workspace_is_seen_where_the_file_system_is_asked(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to("/etc")
    folder = str(tmp_path / "work")
    assert Bounds(folder).holds("link/hosts")
    assert not Bounds(folder, os.path.realpath).holds("link/hosts")
    assert Bounds(folder, os.path.realpath).holds("new/file")


def test_a_long_text_loses_its_middle_and_what_steers_a_terminal() -> None:
    told = shortened("a" * 50 + "b" * 50, most=20)
    assert told.startswith("a" * 10 + "\n") and told.endswith("\n" + "b" * 10)
    assert "80 characters" in told
    assert "\x1b" not in shortened("\x1b[31mred\x1b[0m")


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://h:1", "http://h:1/v1"),
        ("http://h:1/v1/", "http://h:1/v1"),
        ("https://h/api/v4", "https://h/api/v4"),
    ],
)
def test_an_address_is_taken_with_its_version_or_without(url: str, base: str) -> None:
    assert Endpoint(url, "sk-secret").base == base
    assert "sk-secret" not in repr(Endpoint(url, "sk-secret"))


def test_a_new_session_is_told_what_went_before() -> None:
    history = (
        Message(1, "user", "What is this?", ""),
        Message(2, "tool", "ls", "", tool="shell"),
        Message(3, "assistant", "A daemon.", ""),
    )
    told = prompted("Go on.", history, "Be terse.")
    assert told.index("Be terse.") < told.index("User: What is this?") < told.index("A daemon.")
    assert told.endswith("\n\nGo on.")
    assert "ls" not in told
    assert prompted("Go on.", ()) == "Go on."
    long = (Message(1, "user", "x" * 2 * LONGEST_PAST, ""),)
    assert len(prompted("p", long)) < LONGEST_PAST + 100


def test_a_session_that_goes_on_is_told_what_was_said_with_other_engines() -> None:
    missed = (Message(3, "user", "Rename it to x.", ""), Message(4, "assistant", "It is x.", ""))
    history = (Message(1, "user", "Long known.", ""), *missed)
    told = resumed_prompt(Assignment(1, "Go on.", history=history, missed=missed), "Be terse.")
    assert told.index("Be terse.") < told.index("User: Rename it to x.") < told.index("It is x.")
    assert told.endswith("\n\nGo on.") and "Long known." not in told
    assert resumed_prompt(Assignment(1, "Go on.", history=history)) == "Go on."
    assert resumed_prompt(Assignment(1, "Go on.", again=True)) == GO_ON
